//! The facts of a record that the log needs: subject, blobs and holds.
//!
//! They come from a frame's payload, or from the index that compaction writes for a segment that moved to
//! Parquet. Knows no values of decisions and decrypts nothing.

use crate::format::Hash;
use crate::log::{Log, LogError};
use minicbor::Decoder;
use minicbor::data::Type;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Maximum length of an index line: its texts have at most 4 KiB each.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// Compaction may move segments during a read, once for each segment.
const READS_MAX: usize = 8;

/// The parts of a record that erasures, holds and verification need.
///
/// In JSON it is a line of an index, which `flyball.decision_log.retention.record_index` writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct RecordFacts {
    pub(crate) kind: String,
    pub(crate) seq: u64,
    pub(crate) segment: u64,
    pub(crate) at: Option<i64>,
    pub(crate) decision: Option<String>,
    pub(crate) subject: Option<Hash>,
    /// It has values that are sealed under its subject's key.
    #[serde(default)]
    pub(crate) personal: bool,
    #[serde(default)]
    pub(crate) blobs: Vec<Hash>,
    /// The name of a hold or release.
    pub(crate) name: Option<String>,
    pub(crate) by: Option<String>,
    pub(crate) why: Option<String>,
    pub(crate) from: Option<i64>,
    pub(crate) to: Option<i64>,
}

impl RecordFacts {
    /// Reads the facts. None: the payload is not a record, which verification reports elsewhere.
    pub(crate) fn of(payload: &[u8], seq: u64, segment: u64) -> Option<RecordFacts> {
        let mut record = RecordFacts { seq, segment, ..RecordFacts::default() };
        let mut decoder = Decoder::new(payload);
        for _ in 0..decoder.map().ok()?? {
            record.pair(&mut decoder)?;
        }
        Some(record)
    }

    fn pair(&mut self, decoder: &mut Decoder<'_>) -> Option<()> {
        match decoder.str().ok()? {
            "kind" => self.kind = decoder.str().ok()?.to_owned(),
            "at" => self.at = Some(decoder.i64().ok()?),
            "subject" => self.subject = Some(hash(decoder)?),
            "personal" => {
                decoder.skip().ok()?;
                // The reason of an erasure is sealed under a separate key.
                self.personal = self.kind != "erased";
            }
            "input_blob" => {
                decoder.array().ok()?;
                self.blobs.push(hash(decoder)?);
                decoder.skip().ok()?;
            }
            "deployment" | "runtime" if self.kind == "served" => self.blobs.push(hash(decoder)?),
            "decision" => self.decision = text(decoder)?,
            "name" => self.name = text(decoder)?,
            "by" => self.by = text(decoder)?,
            "why" => self.why = text(decoder)?,
            "from" if self.holds() => self.from = number(decoder)?,
            "to" if self.holds() => self.to = number(decoder)?,
            _ => decoder.skip().ok()?,
        }
        Some(())
    }

    pub(crate) fn holds(&self) -> bool {
        matches!(self.kind.as_str(), "hold" | "release")
    }
}

fn hash(decoder: &mut Decoder<'_>) -> Option<Hash> {
    Some(Hash(decoder.bytes().ok()?.try_into().ok()?))
}

fn text(decoder: &mut Decoder<'_>) -> Option<Option<String>> {
    match decoder.datatype().ok()? {
        Type::String => Some(Some(decoder.str().ok()?.to_owned())),
        _ => decoder.skip().ok().map(|()| None),
    }
}

fn number(decoder: &mut Decoder<'_>) -> Option<Option<i64>> {
    match decoder.datatype().ok()? {
        Type::Null => decoder.skip().ok().map(|()| None),
        _ => decoder.i64().ok().map(Some),
    }
}

fn index_path(folder: &Path, segment: u64) -> PathBuf {
    folder.join("state").join("index").join(format!("{segment:016}.jsonl"))
}

impl Log {
    /// Records of compacted segments with a subject, a blob or a hold, oldest first.
    pub(crate) fn indexed(&self, visit: &mut dyn FnMut(RecordFacts)) -> Result<(), LogError> {
        let left = |segment: u64| self.listing.segment(segment).is_none();
        for retired in
            self.retired().iter().filter(|retired| retired.gone_unix_ns.is_none() && left(retired.segment))
        {
            let path = index_path(self.folder(), retired.segment);
            let wrong = |why: &str| LogError::File { path: path.clone(), why: why.to_owned() };
            let mut lines = BufReader::new(File::open(&path).map_err(LogError::at(&path))?);
            let mut line = Vec::new();
            loop {
                line.clear();
                let read = lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
                if read.map_err(LogError::at(&path))? == 0 {
                    break;
                }
                visit(
                    serde_json::from_slice(&line).map_err(|_| wrong("a line is not a record of an index"))?,
                );
            }
        }
        Ok(())
    }

    /// The facts of all records of the log whose payload is `wanted`. Damage hides only what it covers.
    pub(crate) fn record_facts(
        &mut self,
        wanted: &dyn Fn(&[u8]) -> bool,
        visit: &mut dyn FnMut(RecordFacts),
    ) -> Result<(), LogError> {
        for tries in 0.. {
            match self.record_facts_once(wanted) {
                Err(LogError::Io { cause, .. })
                    if tries < READS_MAX && cause.kind() == ErrorKind::NotFound =>
                {
                    self.refresh()?;
                }
                done => return done.map(|record_facts| record_facts.into_iter().for_each(visit)),
            }
        }
        Ok(())
    }

    fn record_facts_once(&self, wanted: &dyn Fn(&[u8]) -> bool) -> Result<Vec<RecordFacts>, LogError> {
        let mut all = Vec::new();
        self.indexed(&mut |record| all.push(record))?;
        for place in 0..self.listing.segments.len() {
            let broken = self.read_around(place, &mut |placed| {
                if wanted(placed.frame.payload) {
                    all.extend(RecordFacts::of(placed.frame.payload, placed.frame.seq, placed.segment));
                }
                ControlFlow::Continue(())
            });
            for error in broken {
                match &error {
                    LogError::Io { .. } => return Err(error),
                    _ => tracing::warn!(%error, "cannot read some records of the journal"),
                }
            }
        }
        Ok(all)
    }
}
