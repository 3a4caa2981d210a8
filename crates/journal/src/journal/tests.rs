//! The journal as lanes and other threads use it, on real files.

mod faults;
mod gone;
mod left;
mod legal;
mod notes;
mod sealing;
mod side_files;

use super::*;
use crate::Log;
use crate::format::{Header, StartReason};
use crate::frames::{Frames, Step};
use crate::verify::VerifyOptions;
use flyball_core::{DecisionId, RecordKind, Ticket};
use minicbor::{Decoder, Encoder};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

const SEGMENT_BYTES: u64 = 1 << 20;
/// No working disk takes this long.
const STUCK: Duration = Duration::from_secs(60);

fn settings(folder: &Path) -> JournalSettings {
    JournalSettings { segment_bytes: SEGMENT_BYTES, ..JournalSettings::new(folder, 2) }
}

fn opened(folder: &Path) -> Arc<Journal> {
    Journal::open(settings(folder)).unwrap()
}

fn id(number: u64) -> DecisionId {
    DecisionId::new(1, u128::from(number))
}

fn fill(entry: &mut JournalRecord, number: u64, sync: bool) {
    entry.id = id(number);
    entry.sync = sync;
    Encoder::new(&mut entry.pairs).str("number").unwrap().u64(number).unwrap();
    entry.pairs_count = 1;
    Encoder::new(&mut entry.input).map(1).unwrap().str("text").unwrap().str(&"x".repeat(300)).unwrap();
    let mut personal = Encoder::new(&mut entry.personal);
    personal.map(1).unwrap().str("input").unwrap().map(1).unwrap();
    personal.str("name").unwrap().str("somebody").unwrap();
    entry.subject.extend_from_slice(format!("subject {}", number % 5).as_bytes());
}

fn offer(lane: &dyn LaneRecorder, number: u64, sync: bool) -> Result<Ticket, Unavailable> {
    lane.reserve(1)?;
    let mut entry = lane.blank();
    fill(&mut entry, number, sync);
    Ok(lane.offer(entry))
}

/// Wakes the waiting thread.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Unpark>) {
        self.0.unpark();
    }
}

fn kept(lane: &dyn LaneRecorder, ticket: Ticket) -> Result<(), Unavailable> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let begun = Instant::now();
    loop {
        if let Poll::Ready(kept) = lane.poll_durable(ticket, &mut Context::from_waker(&waker)) {
            return kept;
        }
        assert!(begun.elapsed() < STUCK, "the writer is stuck");
        thread::park_timeout(STUCK);
    }
}

/// A record in the log.
#[derive(Clone, Debug, PartialEq)]
struct Record {
    kind: String,
    id: u128,
    payload: Vec<u8>,
}

impl Record {
    /// A decoder at the value of a key.
    fn value(&self, key: &str) -> Option<Decoder<'_>> {
        let mut decoder = Decoder::new(&self.payload);
        for _ in 0..decoder.map().unwrap().unwrap() {
            if decoder.str().unwrap() == key {
                return Some(decoder);
            }
            decoder.skip().unwrap();
        }
        None
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.value(key)?.u64().ok()
    }

    fn open_gap(&self) -> bool {
        let open = self.payload.windows(6).position(|part| part == b"\x64open\xf5");
        self.kind == "gap" && open.is_some()
    }
}

fn paths(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder.join("segments")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some());
    paths.sort();
    paths
}

fn headers(folder: &Path) -> Vec<Header> {
    paths(folder).iter().map(|path| Header::decode(&fs::read(path).unwrap()).unwrap()).collect()
}

/// All records that count, after following every link.
fn records(folder: &Path) -> Vec<Record> {
    records_and_holes(folder, 0)
}

/// The same, with this many segments that start after a hole in the previous one.
fn records_and_holes(folder: &Path, holes: usize) -> Vec<Record> {
    let mut found = 0;
    let mut records = Vec::new();
    let headers = headers(folder);
    for (place, path) in paths(folder).iter().enumerate() {
        let header = &headers[place];
        let most = headers.get(place + 1).map_or(u64::MAX, |next| next.prev_frames);
        let (mut last, mut seq) = (header.leaf(), header.first_seq);
        let mut frames = Frames::new(File::open(path).unwrap(), None).unwrap();
        let mut count = 0;
        while count < most
            && let Step::Frame { frame, .. } = frames.step().unwrap()
        {
            assert_eq!((frame.seq, frame.prev), (seq, last), "{}", path.display());
            (seq, last, count) = (seq + 1, frame.leaf(), count + 1);
            let mut decoder = Decoder::new(frame.payload);
            decoder.map().unwrap();
            assert_eq!(decoder.str().unwrap(), "kind");
            let kind = decoder.str().unwrap().to_owned();
            assert_eq!(decoder.str().unwrap(), "id");
            let id = u128::from_be_bytes(decoder.bytes().unwrap().try_into().unwrap());
            records.push(Record { kind, id, payload: frame.payload.to_vec() });
        }
        if let Some(next) = headers.get(place + 1) {
            found += usize::from(next.first_seq > seq);
            if next.segment == header.segment + 1 {
                assert_eq!((next.prev_frames, next.prev), (count, last), "{}", path.display());
            }
            assert!(next.first_seq >= seq, "{}", path.display());
        }
    }
    assert_eq!(found, holes);
    records
}

fn verified(folder: &Path) -> Vec<String> {
    let log = Log::open(folder).unwrap();
    let verified = log.verify(&VerifyOptions::default(), &mut |_, _| ControlFlow::Continue(())).unwrap();
    verified.findings.iter().map(|finding| format!("{finding:?}")).collect()
}

fn of_kind(records: &[Record], kind: &str) -> Vec<Record> {
    records.iter().filter(|record| record.kind == kind).cloned().collect()
}

#[test]
fn what_was_offered_is_in_the_log_in_order_after_the_journal_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    let lane = journal.lane(0);
    for number in 0..5000 {
        offer(&*lane, number, false).unwrap();
    }
    journal.close();
    let ids: Vec<u128> =
        of_kind(&records(folder.path()), "decision").iter().map(|record| record.id).collect();
    assert_eq!(ids, (0..5000).map(|number| id(number).0).collect::<Vec<_>>());
    let counts = journal.counts();
    assert_eq!((counts.of("decision"), counts.unsynced_records, counts.unsynced_ns), (5000, 0, 0));
    assert!(headers(folder.path()).len() > 2, "a segment of one MiB does not hold them");
    assert_eq!(offer(&*lane, 0, false), Err(Unavailable::Closed));
}

#[test]
fn who_waits_for_an_entry_is_told_once_it_can_be_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    let lane = journal.lane(1);
    for number in 0..20 {
        let ticket = offer(&*lane, number, true).unwrap();
        assert_eq!(kept(&*lane, ticket), Ok(()));
        let found = records(folder.path());
        assert_eq!(found.last().map(|record| record.id), Some(id(number).0));
    }
}

#[test]
fn a_thread_that_appends_gets_the_number_of_its_record() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    let entry = || JournalRecord { kind: RecordKind::Outcome, id: id(1), ..JournalRecord::default() };
    assert_eq!(journal.append(entry()).unwrap(), 1);
    assert_eq!(journal.append(entry()).unwrap(), 2);
    journal.close();
    assert!(matches!(journal.append(entry()), Err(JournalError::Unavailable(Unavailable::Closed))));
}

#[test]
fn a_journal_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    assert!(matches!(Journal::open(settings(folder.path())), Err(JournalError::Locked(_))));
    drop(journal);
    opened(folder.path());
    let began: Vec<StartReason> = headers(folder.path()).iter().map(|header| header.began).collect();
    assert_eq!(began, [StartReason::First, StartReason::Reopened]);
}
