//! The decision log for Python: reading, verifying, and annotating without a server.

use crate::error::{Failure, guarded, json as bytes_of};
use flyball_core::{DecisionId, FaultKind};
use flyball_features::{ErasedRows, erase_kept};
use flyball_journal::{
    Annotation, Blobs, Erasure, Frame, Hash, JournalError, JournalSettings, KekSource, Keys, LegalError,
    LocatedFrame, Log, LogError, StoredFrame, VerifyOptions, head_of_record, unhex,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Exit code of a damaged log.
const BROKEN: u8 = 4;
/// The requested segment moved to Parquet: read the list of retired segments again.
const MOVED: &str = "journal_moved";
/// Maximum bytes that one call of `records` returns, and frames that it reads.
const RECORDS_BYTES_MAX: usize = 32 << 20;
const FRAMES_LOOKED_AT_MAX: u64 = 1 << 18;
const FRAMES_BYTES_MAX: usize = 64 << 20;

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct LogOptions {
    kek: Option<String>,
    reveal: bool,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct RecordOptions {
    durable_only: bool,
    kinds: Option<Vec<String>>,
    decision: Option<String>,
    since_ns: Option<i64>,
    until_ns: Option<i64>,
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Verification {
    segment: Option<u64>,
    checkpoint: Option<String>,
    key: Option<String>,
    without_keys: bool,
}

#[pyclass(frozen, module = "flyball._native")]
pub(crate) struct JournalLog {
    log: Mutex<Log>,
    keys: Option<Keys>,
    blobs: Blobs,
}

/// Sequence number, previous hash, own hash, payload, segment.
type PyFrame<'py> = (u64, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, u64);

#[pymethods]
impl JournalLog {
    #[new]
    fn new(py: Python<'_>, folder: &str, options: &[u8]) -> PyResult<JournalLog> {
        guarded(py, || {
            let (folder, options) = (Path::new(folder), read::<LogOptions>(options)?);
            let log = Log::open(folder)?;
            let keys = if options.reveal { Some(keys(folder, options.kek.as_deref())?) } else { None };
            Ok(JournalLog { log: Mutex::new(log), keys, blobs: Blobs::read_only(folder) })
        })
    }

    fn segments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let facts = guarded(py, || Ok(self.fresh()?.segments()?))?;
        bytes_of(py, &facts)
    }

    fn records<'py>(
        &self,
        py: Python<'py>,
        from_seq: u64,
        most: usize,
        options: &[u8],
    ) -> PyResult<(Bound<'py, PyBytes>, u64, bool)> {
        let (lines, next_seq, end) = guarded(py, || self.read(from_seq, most, &read(options)?))?;
        Ok((PyBytes::new(py, &lines), next_seq, end))
    }

    fn frames<'py>(&self, py: Python<'py>, from_seq: u64, most: usize) -> PyResult<Vec<PyFrame<'py>>> {
        let kept = guarded(py, || {
            let (mut kept, mut bytes) = (Vec::new(), 0);
            let visit = |placed: &LocatedFrame<'_>| {
                kept.push(StoredFrame::from(placed));
                bytes += placed.frame.payload.len();
                stop_if(kept.len() >= most || bytes >= FRAMES_BYTES_MAX)
            };
            if most > 0 {
                self.fresh()?.read(from_seq, true, visit)?;
            }
            Ok(kept)
        })?;
        let bytes = |hash: &Hash| PyBytes::new(py, &hash.0);
        let tuple = |kept: &StoredFrame| {
            let payload = PyBytes::new(py, &kept.payload);
            (kept.seq, bytes(&kept.prev), bytes(&kept.leaf), payload, kept.segment)
        };
        Ok(kept.iter().map(tuple).collect())
    }

    fn find<'py>(&self, py: Python<'py>, decision_id: &str) -> PyResult<Bound<'py, PyBytes>> {
        let found = guarded(py, || {
            let id: DecisionId =
                decision_id.parse().map_err(|_| refused(format!("'{decision_id}' is not a decision id")))?;
            let finds = self.fresh()?.find(id);
            if finds.records.is_empty()
                && let Some(error) = finds.broken.first()
            {
                return Err(failed(error));
            }
            finds.records.iter().map(|kept| self.placed(kept)).collect::<Result<Vec<Value>, Failure>>()
        })?;
        bytes_of(py, &found)
    }

    #[pyo3(signature = (options, told=None))]
    fn verify<'py>(
        &self,
        py: Python<'py>,
        options: &[u8],
        told: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut raised = None;
        let verified = guarded(py, || {
            let options = verification(read(options)?)?;
            let mut tell = |done: u64, total: u64| {
                let call = |told: &Py<PyAny>| Python::attach(|py| told.call1(py, (done, total)).map(drop));
                raised = told.as_ref().and_then(|told| call(told).err());
                stop_if(raised.is_some())
            };
            Ok(self.fresh()?.verify(&options, &mut tell)?)
        })?;
        match raised {
            Some(error) => Err(error),
            None => bytes_of(py, &verified),
        }
    }

    fn erasures<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let by_token = guarded(py, || Ok(self.fresh()?.erasures()?))?;
        bytes_of(py, &by_token)
    }

    fn prove<'py>(&self, py: Python<'py>, seq: u64) -> PyResult<Bound<'py, PyBytes>> {
        let proof = guarded(py, || {
            let log = self.fresh()?;
            Ok(log.prove(seq)?.to_json(log.key().as_ref()))
        })?;
        bytes_of(py, &proof)
    }

    fn render<'py>(&self, py: Python<'py>, payload: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let record = guarded(py, || self.rendered(payload))?;
        bytes_of(py, &record)
    }

    fn header<'py>(&self, py: Python<'py>, segment: u64) -> PyResult<Bound<'py, PyBytes>> {
        let header = guarded(py, || Ok(self.fresh()?.header(segment)?))?;
        Ok(PyBytes::new(py, &header))
    }

    fn checkpoints(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        guarded(py, || {
            let mut notes = Vec::new();
            self.fresh()?.each_note(|note| notes.push(note))?;
            Ok(notes)
        })
    }

    fn token(&self, py: Python<'_>, subject: &str) -> PyResult<String> {
        guarded(py, || {
            let keys = self.keys.as_ref().ok_or_else(|| refused("the log was opened without a key"))?;
            Ok(keys.token(subject.as_bytes(), DecisionId(0)).to_string())
        })
    }

    fn blob<'py>(&self, py: Python<'py>, digest: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let bytes = guarded(py, || {
            let hash = digest.strip_prefix("sha256:").and_then(unhex);
            let hash =
                hash.ok_or_else(|| refused(format!("'{digest}' is not a digest; write sha256:HEX")))?;
            self.blobs.get(&Hash(hash)).map_err(|error| broken(&error))
        })?;
        Ok(bytes.map(|bytes| PyBytes::new(py, &bytes)))
    }
}

impl JournalLog {
    /// The log, refreshed.
    fn fresh(&self) -> Result<MutexGuard<'_, Log>, Failure> {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.refresh()?;
        Ok(log)
    }

    /// JSON lines, the next position, and whether the end is reached.
    fn read(
        &self,
        from_seq: u64,
        most: usize,
        options: &RecordOptions,
    ) -> Result<(Vec<u8>, u64, bool), Failure> {
        let (mut lines, mut given, mut looked_at, mut fault) = (Vec::new(), 0, 0, None);
        let visit = |placed: &LocatedFrame<'_>| {
            looked_at += 1;
            if options.want(placed.frame.payload) {
                match self.placed(&StoredFrame::from(placed)) {
                    Ok(record) if options.wants_decision(&record) => {
                        given += 1;
                        lines.extend_from_slice(record.to_string().as_bytes());
                        lines.push(b'\n');
                    }
                    Ok(_) => (),
                    Err(failure) => fault = Some(failure),
                }
            }
            let enough = given >= most || lines.len() >= RECORDS_BYTES_MAX;
            stop_if(enough || looked_at >= FRAMES_LOOKED_AT_MAX || fault.is_some())
        };
        let log = self.fresh()?;
        let reached = log.read(from_seq, options.durable_only, visit)?;
        match fault {
            Some(failure) => Err(failure),
            None => Ok((lines, reached.next_seq, !reached.stopped)),
        }
    }

    /// A record with its position in the log.
    fn placed(&self, kept: &StoredFrame) -> Result<Value, Failure> {
        let mut record = self.rendered(&kept.payload)?;
        record["seq"] = kept.seq.into();
        record["segment"] = kept.segment.into();
        record["frame"] = kept.index.into();
        record["leaf"] = kept.leaf.to_string().into();
        record["prev"] = kept.prev.to_string().into();
        Ok(record)
    }

    fn rendered(&self, payload: &[u8]) -> Result<Value, Failure> {
        flyball_journal::render(payload, self.keys.as_ref()).map_err(|error| broken(&error))
    }
}

impl RecordOptions {
    /// Filters by the start of a record, so that most need not be read whole. The decision is checked
    /// afterwards.
    fn want(&self, payload: &[u8]) -> bool {
        let Some((kind, _)) = head_of_record(payload) else { return true };
        if self.kinds.as_ref().is_some_and(|kinds| !kinds.iter().any(|wanted| wanted == kind)) {
            return false;
        }
        if self.since_ns.is_none() && self.until_ns.is_none() {
            return true;
        }
        let Some(at) = flyball_journal::time_of_record(payload) else { return true };
        self.since_ns.is_none_or(|since| at >= since) && self.until_ns.is_none_or(|until| at < until)
    }

    fn wants_decision(&self, record: &Value) -> bool {
        self.decision.is_none() || record["decision"].as_str() == self.decision.as_deref()
    }
}

/// A journal that this process writes to.
#[pyclass(frozen, module = "flyball._native")]
pub(crate) struct Journal(Mutex<Option<Arc<flyball_journal::Journal>>>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JournalOptions {
    folder: PathBuf,
    kek: Option<String>,
    key: Option<PathBuf>,
}

#[pymethods]
impl Journal {
    #[new]
    fn new(py: Python<'_>, options: &[u8]) -> PyResult<Journal> {
        guarded(py, || {
            let options: JournalOptions = read(options)?;
            let kek = options.kek.as_deref().map(place).transpose()?;
            let settings =
                JournalSettings { kek, key: options.key, ..JournalSettings::new(options.folder, 0) };
            let journal = flyball_journal::Journal::open(settings).map_err(|error| unwritten(&error))?;
            Ok(Journal(Mutex::new(Some(journal))))
        })
    }

    fn append(&self, py: Python<'_>, event: &[u8]) -> PyResult<u64> {
        guarded(py, || self.annotate(read(event)?))
    }

    fn erase<'py>(&self, py: Python<'py>, order: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
        let erased = guarded(py, || {
            let EraseOptions { subject, by, why, keys, features_folder, stores } = read(order)?;
            let all: Vec<String> = std::iter::once(subject.clone()).chain(keys).collect();
            let mut rows = ErasedRows::default();
            let order = Erasure { subject, by, why, caller: None };
            let done = self.journal()?.erase(&order, flyball_core::WallClock::system().now_ns(), || {
                rows = erase_kept(features_folder, &stores, &all)?;
                Ok(rows.total())
            });
            let done = done.map_err(|error| unrecorded(&error))?;
            let ErasedRows { windows, cached, stored } = rows;
            let records = done.records;
            Ok(
                json!({"recorded": 1, "records": records, "windows": windows, "cached": cached, "stored": stored}),
            )
        })?;
        bytes_of(py, &erased)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        guarded(py, || {
            if let Some(journal) = self.open().take() {
                journal.close();
            }
            Ok(())
        })
    }
}

impl Journal {
    fn open(&self) -> MutexGuard<'_, Option<Arc<flyball_journal::Journal>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn journal(&self) -> Result<Arc<flyball_journal::Journal>, Failure> {
        self.open().clone().ok_or_else(|| refused("the journal is closed; open it again"))
    }

    fn annotate(&self, annotation: Annotation) -> Result<u64, Failure> {
        let (journal, now) = (self.journal()?, flyball_core::WallClock::system().now_ns());
        let kept = match annotation {
            Annotation::Hold(held) => journal.hold(held, now, |_name| false),
            Annotation::Release(held) => journal.release(held, now),
            other => {
                let record = other.record(now).map_err(refused)?;
                return journal.append(record).map_err(|error| unwritten(&error));
            }
        };
        kept.map_err(|error| unrecorded(&error))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EraseOptions {
    subject: String,
    by: String,
    why: String,
    #[serde(default)]
    keys: Vec<String>,
    features_folder: Option<PathBuf>,
    #[serde(default)]
    stores: Vec<PathBuf>,
}

/// Why an erasure or a hold was not recorded.
fn unrecorded(error: &LegalError) -> Failure {
    let kind = match error {
        LegalError::NoSubject { .. } | LegalError::NoHold { .. } | LegalError::NoDecision { .. } => {
            FaultKind::RecordNotFound
        }
        LegalError::Held(_) | LegalError::InForce(_) => FaultKind::Held,
        LegalError::Journal(error) => return unwritten(error),
        LegalError::Log(error) => return failed(error),
        LegalError::Annotation(_) | LegalError::Elsewhere(_) => return refused(error),
    };
    Failure::refused(kind.label(), error)
}

#[pyfunction]
pub(crate) fn verify_frames<'py>(
    py: Python<'py>,
    header: &[u8],
    frames: Vec<(u64, Vec<u8>, Vec<u8>)>,
    root: &[u8],
) -> PyResult<Bound<'py, PyBytes>> {
    let findings = guarded(py, || {
        let frames = frames.iter().map(frame).collect::<Result<Vec<Frame<'_>>, Failure>>()?;
        flyball_journal::verify_frames(header, frames, &hash(root)?).map_err(|error| broken(&error))
    })?;
    bytes_of(py, &findings)
}

fn hash(bytes: &[u8]) -> Result<Hash, Failure> {
    bytes.try_into().map(Hash).map_err(|_| refused("a hash has 32 bytes"))
}

fn frame((seq, prev, payload): &(u64, Vec<u8>, Vec<u8>)) -> Result<Frame<'_>, Failure> {
    Ok(Frame { seq: *seq, prev: hash(prev)?, payload })
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Failure> {
    serde_json::from_slice(bytes).map_err(refused)
}

fn keys(folder: &Path, kek: Option<&str>) -> Result<Keys, Failure> {
    let place = kek.map_or_else(|| Ok(KekSource::own(folder)), place)?;
    Keys::read_only(folder, &place).map_err(refused)
}

fn place(text: &str) -> Result<KekSource, Failure> {
    text.parse().map_err(refused)
}

fn verification(written: Verification) -> Result<VerifyOptions, Failure> {
    let key = written.key.as_deref().map(|hex| {
        unhex(hex).ok_or_else(|| refused(format!("'{hex}' is not a public key: 64 lower-case hex digits")))
    });
    let key = key.transpose()?;
    let Verification { segment, checkpoint, without_keys, .. } = written;
    Ok(VerifyOptions { segment, checkpoint, key, without_keys })
}

fn stop_if(stop: bool) -> ControlFlow<()> {
    if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn refused(error: impl ToString) -> Failure {
    Failure::refused("journal_refused", error)
}

fn broken(error: &impl ToString) -> Failure {
    Failure::new("journal_broken", error.to_string(), BROKEN)
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Failure {
        failed(&error)
    }
}

fn failed(error: &LogError) -> Failure {
    match error {
        LogError::Moved(_) => Failure { code: MOVED, ..broken(error) },
        // A segment that existed a moment ago: compaction may have removed it.
        LogError::Io { cause, .. } if cause.kind() == std::io::ErrorKind::NotFound => {
            Failure { code: MOVED, ..broken(error) }
        }
        LogError::Header { .. } | LogError::Broken { .. } | LogError::Missing(_) => broken(error),
        _ => refused(error),
    }
}

fn unwritten(error: &JournalError) -> Failure {
    let unavailable = FaultKind::RecordFailed;
    let code = match error {
        JournalError::Locked(_) => "journal_locked",
        JournalError::Unavailable(_) | JournalError::NoAnswer => unavailable.label(),
        _ => return refused(error),
    };
    Failure::new(code, error.to_string(), unavailable.exit_code())
}
