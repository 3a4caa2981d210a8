//! Sealing at close and on request.

use super::faults::{Story, small};
use super::*;
use crate::disk::tests::{Failing, FaultyDisk, Plan};

fn filled(journal: &Journal, numbers: std::ops::Range<u64>) {
    let lane = journal.lane(0);
    for number in numbers {
        offer(&*lane, number, false).unwrap();
    }
}

/// The last checkpoint proves every record.
fn all_proven(folder: &Path) -> usize {
    let log = Log::open(folder).unwrap();
    let key = log.key().unwrap();
    let count = records(folder).len();
    for seq in 1..=count as u64 {
        let proof = log.prove(seq).unwrap();
        assert!(proof.signed.is_some(), "record {seq} is in no sealed segment");
        assert_eq!(proof.verify(Some(&key)), []);
    }
    assert_eq!(verified(folder), [] as [String; 0]);
    count
}

fn sealed(folder: &Path) -> Vec<(u64, bool)> {
    let segments = Log::open(folder).unwrap().segments().unwrap();
    segments.iter().map(|segment| (segment.frames, segment.sealed)).collect()
}

#[test]
fn a_closed_journal_is_sealed_and_its_last_checkpoint_proves_every_record() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    filled(&journal, 0..10);
    journal.close();
    assert_eq!(sealed(folder.path()), [(10, true), (0, false)]);
    assert_eq!(all_proven(folder.path()), 10);
    let log = Log::open(folder.path()).unwrap();
    let (_, note) = log.last_note().unwrap().unwrap();
    assert_eq!((note.sealed, note.open, note.open_frames), (1, 2, 0));
    let lengths: Vec<u64> =
        paths(folder.path()).iter().map(|path| fs::metadata(path).unwrap().len()).collect();
    assert_eq!(lengths[1], crate::HEADER_BYTES as u64);
    assert!(lengths[0] < SEGMENT_BYTES);
    let roots = fs::read(folder.path().join("roots")).unwrap();
    assert_eq!(roots, headers(folder.path())[1].prev_root.0);
}

#[test]
fn a_journal_that_was_closed_goes_on_behind_what_is_sealed() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let journal = opened(folder.path());
        filled(&journal, 10 * round..10 * round + 10);
        journal.close();
        assert_eq!(all_proven(folder.path()) as u64, 10 * round + 10);
    }
    let began: Vec<StartReason> = headers(folder.path()).iter().map(|header| header.began).collect();
    assert_eq!(began[..3], [StartReason::First, StartReason::Rotated, StartReason::Reopened]);
    assert_eq!(of_kind(&records(folder.path()), "recovered"), []);
}

#[test]
fn whoever_asks_for_a_seal_has_all_that_was_recorded_before_under_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    assert_eq!(journal.seal().unwrap().segment, 0);
    for round in 0..3 {
        filled(&journal, 100 * round..100 * round + 100);
        let seal = journal.seal().unwrap();
        assert_eq!(seal.segment, round + 1);
        assert_eq!(all_proven(folder.path()) as u64, 100 * round + 100);
        let (note, _) = Log::open(folder.path()).unwrap().last_note().unwrap().unwrap();
        assert_eq!(seal.checkpoint, note);
        // No record since.
        assert_eq!(journal.seal().unwrap().segment, round + 1);
    }
    journal.close();
    assert!(matches!(journal.seal(), Err(JournalError::Unavailable(Unavailable::Closed))));
}

#[test]
fn without_room_for_another_segment_a_seal_is_refused_and_the_records_stay() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let journal = Journal::open_on(Arc::clone(&disk) as Arc<dyn Disk>, small(folder.path())).unwrap();
    let lane = journal.lane(0);
    let mut story = Story::default();
    disk.plan(Some(Plan::Every { calls: 1, failing: Failing::NoNewFile }));
    story.decide(&*lane, 4);
    // The next segment may have been prepared before.
    let _ = journal.seal();
    story.decide(&*lane, 12);
    assert!(matches!(journal.seal(), Err(JournalError::Unavailable(Unavailable::Full))));
    disk.plan(None);
    let begun = Instant::now();
    while journal.seal().is_err() {
        assert!(begun.elapsed() < STUCK);
        thread::yield_now();
    }
    assert_eq!(all_proven(folder.path()), 2);
    journal.close();
    story.check(folder.path(), "a seal");
}
