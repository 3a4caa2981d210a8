//! The server's side of the journal: opening it, its state, outcomes, overrides and seals.
//!
//! It is opened before the lanes start and closed after they have ended. Walks record decisions themselves; erasures and
//! holds are in `legal.rs`.

mod families;

pub(crate) use families::{families, spread};

use crate::ServerConfig;
use crate::lane_thread::LaneContext;
use crate::offload::offload;
use crate::shared::Shared;
use flyball_core::{Access, Fault, FaultKind, JournalRecord, RecordKind, Stage, Unavailable, Verb};
use flyball_journal::{
    Annotation, Journal, JournalCounts, JournalError, JournalSettings, NOTE_BYTES_MAX, Sealed,
};
use flyball_plane::{Decision, find_decision};
use flyball_telemetry::ModelMeter;
use flyball_wire::annotations::{JournalFacts, Outcome, Override};
use std::borrow::Cow;
use std::fs::File;
use std::future::poll_fn;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum wait for the disk; the record may still be stored afterwards.
const KEPT_TIME_MAX: Duration = Duration::from_secs(30);
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Requests that annotate decisions, by kind and result.
#[derive(Default)]
pub(crate) struct Annotations {
    taken: [AtomicU64; 5],
    refused: [AtomicU64; 5],
}

impl Annotations {
    const KINDS: [RecordKind; 5] = [
        RecordKind::Outcome,
        RecordKind::Override,
        RecordKind::Erased,
        RecordKind::Hold,
        RecordKind::Release,
    ];

    pub(crate) fn count(&self, kind: RecordKind, taken: bool) {
        let Some(place) = Annotations::KINDS.iter().position(|known| *known == kind) else { return };
        let counts = if taken { &self.taken } else { &self.refused };
        counts[place].fetch_add(1, Ordering::Relaxed);
    }

    /// Kind, result, and how many requests.
    fn counts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Annotations::KINDS.iter().enumerate().flat_map(move |(place, kind)| {
            let (taken, refused) = (read(&self.taken[place]), read(&self.refused[place]));
            [(kind.label(), "recorded", taken), (kind.label(), "refused", refused)]
        })
    }
}

/// `None` if nothing is recorded. Offline rows are not decisions.
pub(crate) fn open(config: &ServerConfig, lanes: usize) -> Result<Option<Arc<Journal>>, JournalError> {
    let Some(folder) = config.journal_folder.clone().filter(|_| !config.offline) else { return Ok(None) };
    let settings = JournalSettings {
        sync: Duration::from_millis(config.journal_sync_ms),
        loss_max: Duration::from_millis(config.journal_loss_ms_max),
        segment_bytes: config.journal_segment_bytes,
        segment_age: Duration::from_secs(config.journal_segment_s),
        checkpoint_every: Duration::from_secs(config.journal_checkpoint_s),
        key: config.journal_key.clone(),
        kek: config.journal_kek.as_deref().map(str::parse).transpose()?,
        ..JournalSettings::new(folder, lanes)
    };
    Journal::open(settings).map(Some)
}

/// The caller's rights, and whether the request comes from this machine.
pub(crate) type Rights<'a> = (&'a Access, bool);

/// Records outcomes; returns their number.
pub(crate) async fn outcomes(
    context: &LaneContext,
    caller: Option<&str>,
    rights: Rights<'_>,
    outcomes: Vec<Outcome>,
) -> Result<usize, Fault> {
    let several = outcomes.len() > 1;
    for outcome in &outcomes {
        annotated_decision(context, rights, Verb::Outcome, &outcome.decision)?;
    }
    let entry = |(place, Outcome { id, decision, truth, when, source }): (usize, Outcome)| {
        let caller = caller.map(str::to_owned);
        let outcome = |when| Annotation::Outcome { id, decision, truth, when, source, caller };
        let entry = when
            .as_deref()
            .map(|when| unix_ns("when", when))
            .transpose()
            .and_then(|when| entry(context, &outcome(when)));
        entry.map_err(|why| if several { format!("outcomes[{place}]: {why}") } else { why })
    };
    let entries: Result<Vec<_>, _> = outcomes.into_iter().enumerate().map(entry).collect();
    keep(context, entries.map_err(Fault::malformed)?).await
}

pub(crate) async fn overridden(
    context: &LaneContext,
    caller: Option<&str>,
    rights: Rights<'_>,
    Override { id, decision, outcome, by, why }: Override,
) -> Result<usize, Fault> {
    let policy = annotated_decision(context, rights, Verb::Override, &decision)?;
    if !policy.outcomes.iter().any(|known| **known == *outcome) {
        let shown: String = outcome.chars().take(64).collect();
        let allowed = policy.outcomes.join(", ");
        let text = format!("'{shown}' is no outcome of decision '{decision}'; allowed: {allowed}");
        return Err(Fault::malformed(text));
    }
    let annotation =
        Annotation::Override { id, decision, outcome, by, why, caller: caller.map(str::to_owned) };
    keep(context, vec![entry(context, &annotation).map_err(Fault::malformed)?]).await
}

/// Seals the journal so far. Only this request waits for the writer.
pub(crate) async fn sealed(context: &LaneContext, rights: Rights<'_>) -> Result<Sealed, Fault> {
    demand(context, rights, Verb::Control)?;
    let (sender, answer) = oneshot::channel();
    offload(&context.shared, move |shared| {
        let journal = shared.journal.as_ref().ok_or_else(nothing_kept)?;
        journal.seal_then(move |sealed| _ = sender.send(sealed)).map_err(unsealed)
    })
    .await??;
    match tokio::time::timeout(KEPT_TIME_MAX, answer).await {
        Ok(Ok(sealed)) => sealed.map_err(unsealed),
        Ok(Err(_gone)) => Err(unsealed(Unavailable::Closed)),
        Err(_late) => {
            let text = "the disk takes too long; whether the journal was sealed is not known";
            Err(Fault::new(FaultKind::RecordFailed, Stage::Record, text))
        }
    }
}

fn unsealed(why: Unavailable) -> Fault {
    unrecorded(format!("the journal could not be sealed: {}; try again", why.label()))
}

/// Checks a right. Without a callers' file only this machine may write to the journal.
pub(crate) fn demand(context: &LaneContext, (access, near): Rights<'_>, verb: Verb) -> Result<(), Fault> {
    near_or_known(context, near, verb)?;
    access.require_all(verb)
}

/// The annotated decision. It must serve here, because its policy defines the outcomes.
fn annotated_decision(
    context: &LaneContext,
    (access, near): Rights<'_>,
    verb: Verb,
    decision: &str,
) -> Result<Arc<Decision<ModelMeter>>, Fault> {
    near_or_known(context, near, verb)?;
    let found = find_decision(&context.shared.plane.routes.load(), access, decision)?;
    access.require(verb, decision).map(|()| found)
}

fn near_or_known(context: &LaneContext, near: bool, verb: Verb) -> Result<(), Fault> {
    if near || context.shared.callers.is_some() {
        return Ok(());
    }
    let text = format!(
        "'{}' needs a caller with that right, but the server has no callers' file; start it with --callers FILE, or \
         send the request from its own machine",
        verb.label()
    );
    Err(Fault::new(FaultKind::Forbidden, Stage::Admit, text))
}

fn entry(context: &LaneContext, annotation: &Annotation) -> Result<Box<JournalRecord>, String> {
    let now = context.shared.plane.services.wall.now_ns();
    annotation.record(now).map(Box::new).map_err(|error| error.to_string())
}

pub(crate) fn unix_ns(name: &str, text: &str) -> Result<i64, String> {
    let time: Option<jiff::Timestamp> = text.parse().ok();
    let ns = time.and_then(|time| i64::try_from(time.as_nanosecond()).ok());
    let wrong = "is no time; write RFC 3339 with a zone, as 2026-11-16T09:30:00Z, from 1678 to 2262";
    ns.ok_or_else(|| format!("{name} {wrong}"))
}

/// Records all annotations; they are on disk when this returns.
///
/// After an error some may be on disk: a retry is harmless.
#[expect(clippy::vec_box, reason = "the ring takes them boxed, and moves them on so")]
async fn keep(context: &LaneContext, entries: Vec<Box<JournalRecord>>) -> Result<usize, Fault> {
    let recorder = context.lane.recorder().ok_or_else(nothing_kept)?;
    let count = entries.len();
    recorder.reserve(count).map_err(unkept)?;
    let tickets: Vec<_> = entries.into_iter().map(|entry| recorder.offer(entry)).collect();
    let kept = async {
        for ticket in tickets {
            poll_fn(|task| recorder.poll_durable(ticket, task)).await.map_err(unkept)?;
        }
        Ok(count)
    };
    tokio::time::timeout(KEPT_TIME_MAX, kept).await.unwrap_or_else(|_late| {
        let text = "the disk takes too long; whether it was recorded is not known";
        Err(Fault::new(FaultKind::RecordFailed, Stage::Record, text))
    })
}

pub(crate) fn unkept(why: Unavailable) -> Fault {
    unrecorded(format!("it could not be recorded: {}; try again", why.label()))
}

pub(crate) fn unrecorded(text: impl Into<Cow<'static, str>>) -> Fault {
    Fault::new(FaultKind::RecordFailed, Stage::Record, text).retry_after(TRY_AGAIN)
}

pub(crate) fn nothing_kept() -> Fault {
    let text = "nothing is recorded here; start the server with --journal-folder FOLDER";
    Fault::new(FaultKind::RecordFailed, Stage::Record, text)
}

/// The journal's state. Reads a file, so it is offloaded.
pub(crate) fn facts(shared: &Shared) -> Result<JournalFacts, Fault> {
    let journal = shared.journal.as_ref().ok_or_else(nothing_kept)?;
    let counts: JournalCounts = journal.counts();
    let checkpoint = last_note(&journal.folder().join("checkpoints")).map_err(|error| {
        Fault::new(FaultKind::RecordFailed, Stage::Record, format!("the checkpoints cannot be read: {error}"))
    })?;
    Ok(JournalFacts {
        unavailable: counts.available.map(Unavailable::label),
        records: counts.records.iter().copied().collect(),
        bytes: counts.bytes,
        gap_decisions: counts.gap_decisions.iter().map(|(why, count)| (why.label(), *count)).collect(),
        unsynced_records: counts.unsynced_records,
        unsynced_ms: counts.unsynced_ns as f64 / 1e6,
        loss_ms_max: counts.loss_max_ns / 1_000_000,
        segment: counts.segment,
        checkpoint,
    })
}

/// The last note. Each note starts with the journal's name and a number, and ends with a signature.
fn last_note(path: &Path) -> io::Result<Option<String>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let length = file.metadata()?.len();
    // Enough for the last complete note and a partial one after it.
    let from = length.saturating_sub(2 * NOTE_BYTES_MAX as u64);
    let mut bytes = vec![0; (length - from) as usize];
    file.read_exact_at(&mut bytes, from)?;
    let text = String::from_utf8_lossy(&bytes);
    let Some(signature) = text.rfind("\n\n\u{2014} ") else { return Ok(None) };
    let end = text[signature + 2..].find('\n').map(|end| signature + 2 + end + 1);
    let begin = text[..signature]
        .rfind("\n\u{2014} ")
        .map_or(Some(0), |before| text[before + 1..signature].find('\n').map(|line| before + 1 + line + 1));
    Ok(begin.zip(end).map(|(begin, end)| text[begin..end].to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_whole_note_is_found_among_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("checkpoints");
        assert_eq!(last_note(&path).expect("no file"), None);
        let note = |number: u64| {
            format!(
                "flyball-journal/ab\n{number}\nroot=\nopen 1 2 cd\ntime 3\n\n\u{2014} flyball-journal/ab sig=\n"
            )
        };
        for (written, wanted) in [
            (String::new(), None),
            (note(1), Some(note(1))),
            (note(1) + &note(2), Some(note(2))),
            (note(1) + &note(2) + &note(3)[..30], Some(note(2))),
        ] {
            std::fs::write(&path, &written).expect("written");
            assert_eq!(last_note(&path).expect("read"), wanted, "{written}");
        }
        std::fs::write(&path, (0..1000).map(note).collect::<String>()).expect("written");
        assert_eq!(last_note(&path).expect("read"), Some(note(999)));
    }

    #[test]
    fn a_time_without_a_zone_or_beyond_what_a_record_holds_is_refused() {
        assert_eq!(unix_ns("when", "1970-01-01T01:00:01+01:00"), Ok(1_000_000_000));
        for when in ["yesterday", "2026-11-16T09:30:00", "2026-11-16", "9999-01-01T00:00:00Z"] {
            assert!(unix_ns("when", when).is_err(), "{when}");
        }
    }

    #[test]
    fn offline_no_journal_is_opened() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("journal");
        let config =
            ServerConfig { journal_folder: Some(folder.clone()), offline: true, ..ServerConfig::default() };
        assert!(open(&config, 1).expect("nothing to open").is_none());
        assert!(!folder.exists());
    }
}
