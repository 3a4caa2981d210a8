//! Side files: an acknowledged record has its key and its long input, whatever fails.

use super::faults::{Story, gaps, opened_on, small};
use super::*;
use crate::disk::tests::{Failing, FaultyDisk, Plan};
use crate::{Hash, Unsealed};
use std::collections::HashSet;
use std::os::unix::fs::FileExt;

/// Each decision opens with its subject's key, and its long input exists.
pub(super) fn check(folder: &Path, records: &[Record], told: &str) {
    let keys = Keys::read_only(folder, &KekSource::own(folder)).unwrap();
    let blobs = Blobs::read_only(folder);
    for record in of_kind(records, "decision") {
        let bytes = |key: &str| record.value(key).unwrap().bytes().unwrap().to_vec();
        let token = Hash(bytes("subject").try_into().unwrap());
        let opened = keys.open_personal(&token, DecisionId(record.id), &bytes("personal"));
        assert!(matches!(opened, Ok(Unsealed::Plain(_))), "{told}: {opened:?}");
        if let Some(mut blob) = record.value("input_blob") {
            blob.array().unwrap();
            let digest = Hash(blob.bytes().unwrap().try_into().unwrap());
            assert!(blobs.get(&digest).unwrap().is_some(), "{told}: a long input is lost");
        }
    }
}

#[test]
fn where_keys_or_long_inputs_cannot_be_written_nothing_is_acknowledged_without_them() {
    for failing in [Failing::SideFilesFull, Failing::SideFilesIo] {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(FaultyDisk::default());
        let journal = opened_on(&disk, folder.path()).unwrap();
        let lane = journal.lane(0);
        let mut story = Story::default();
        disk.plan(Some(Plan::Every { calls: 1, failing }));
        (1..60).for_each(|number| story.decide(&*lane, number));
        assert!(disk.failed() > 0 && story.acknowledged.is_empty(), "{failing:?}");
        let begun = Instant::now();
        // The log itself is writable and counts what is missing.
        while gaps(&records(folder.path())) == 0 {
            assert!(begun.elapsed() < STUCK, "{failing:?}: no gap record was written");
            thread::yield_now();
        }
        disk.plan(None);
        story.until_kept(&*lane, 400);
        journal.close();
        story.check(folder.path(), &format!("{failing:?}"));
    }
}

/// The directory after a simulated power cut: without unsynced data.
fn power_cut(disk: &FaultyDisk, folder: &Path) -> tempfile::TempDir {
    let _held = disk.1.lock().unwrap();
    let copy = left::killed(folder);
    for inner in ["", "segments", "blobs"] {
        for entry in fs::read_dir(copy.path().join(inner)).unwrap().map(Result::unwrap) {
            let Ok(original) = File::open(folder.join(inner).join(entry.file_name())) else { continue };
            for (at, bytes) in disk.unsynced(&original) {
                let file = File::options().write(true).open(entry.path()).unwrap();
                file.write_all_at(&vec![0; bytes as usize], at).unwrap();
            }
        }
    }
    copy
}

#[test]
fn after_a_power_cut_all_that_was_acknowledged_is_there_with_its_key_and_its_long_input() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let journal = Journal::open_on(Arc::clone(&disk) as Arc<dyn Disk>, small(folder.path())).unwrap();
    let lane = journal.lane(0);
    let mut story = Story::default();
    for round in 0..30 {
        (1..7).for_each(|number| story.decide(&*lane, 7 * round + number));
        let copy = power_cut(&disk, folder.path());
        drop(opened(copy.path()));
        let all = records(copy.path());
        for number in &story.acknowledged {
            assert!(all.iter().any(|record| record.id == id(*number).0), "round {round}: {number} is lost");
        }
        check(copy.path(), &all, &format!("round {round}"));
        assert_eq!(of_kind(&all, "quarantined"), [], "round {round}");
        assert_eq!(verified(copy.path()), [] as [String; 0], "round {round}");
    }
    assert!(story.acknowledged.len() > 20);
}

#[test]
fn what_is_written_again_after_a_fault_has_its_keys_on_the_disk_too() {
    for first in 1..12 {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(FaultyDisk::default());
        let settings = JournalSettings { sync: Duration::from_millis(100), ..small(folder.path()) };
        let journal = Journal::open_on(Arc::clone(&disk) as Arc<dyn Disk>, settings).unwrap();
        let lane = journal.lane(0);
        disk.plan(Some(Plan::Span { first, calls: 1, failing: Failing::Io }));
        (1..4).for_each(|number| Story::default().decide(&*lane, number));
        let begun = Instant::now();
        while journal.counts().unsynced_records > 0 {
            assert!(begun.elapsed() < STUCK);
            thread::yield_now();
        }
        let copy = power_cut(&disk, folder.path());
        drop(opened(copy.path()));
        check(copy.path(), &records(copy.path()), &format!("call {first}"));
    }
}

#[test]
fn records_that_are_no_decisions_and_were_lost_are_counted_by_kind_in_the_gap() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let journal = opened_on(&disk, folder.path()).unwrap();
    let lane = journal.lane(0);
    lane.reserve(4).unwrap();
    disk.plan(Some(Plan::Every { calls: 1, failing: Failing::Io }));
    let kinds = [RecordKind::Shadow, RecordKind::Undelivered, RecordKind::Failed, RecordKind::Shadow];
    for (number, kind) in kinds.into_iter().enumerate() {
        let mut entry = lane.blank();
        fill(&mut entry, number as u64, false);
        entry.kind = kind;
        lane.offer(entry);
    }
    let begun = Instant::now();
    while journal.counts().lost_others < 4 {
        assert!(begun.elapsed() < STUCK);
        thread::yield_now();
    }
    disk.plan(None);
    journal.close();
    let gap = of_kind(&records(folder.path()), "gap").pop().unwrap();
    assert_eq!(gap.number("count"), Some(0));
    let others: BTreeMap<String, u64> = gap.value("others").unwrap().decode().unwrap();
    let wanted =
        [("failed", 1), ("shadow", 2), ("undelivered", 1)].map(|(kind, lost)| (kind.to_owned(), lost));
    assert_eq!(others, BTreeMap::from(wanted));
    assert_eq!(verified(folder.path()), [] as [String; 0]);
}

#[test]
fn a_decision_whose_client_hung_up_and_whose_record_is_lost_stands_in_a_gap() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let journal = opened_on(&disk, folder.path()).unwrap();
    let lane = journal.lane(0);
    let held = disk.1.lock().unwrap();
    disk.plan(Some(Plan::Every { calls: 1, failing: Failing::Io }));
    let (left, waited_for) = (offer(&*lane, 1, true).unwrap(), offer(&*lane, 2, true).unwrap());
    lane.orphan(left);
    drop(held);
    assert!(kept(&*lane, waited_for).is_err());
    disk.plan(None);
    let ticket = loop {
        if let Ok(ticket) = offer(&*lane, 3, true) {
            break ticket;
        }
        thread::yield_now();
    };
    assert_eq!(kept(&*lane, ticket), Ok(()));
    lane.orphan(ticket);
    journal.close();
    assert_eq!(gaps(&records(folder.path())), 1);
    assert_eq!(of_kind(&records(folder.path()), "decision").len(), 1);
}

fn served(document: u8) -> Served {
    let digest = flyball_core::Digest::of(&[document]);
    Served {
        decision: "d".to_owned(),
        document: digest,
        policy: digest,
        schema: digest,
        deployment: vec![document],
        base: String::new(),
        runtime: vec![0],
    }
}

#[test]
fn how_a_decision_serves_is_written_again_until_it_is_on_the_disk() {
    for first in 1..14 {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(FaultyDisk::default());
        let journal = opened_on(&disk, folder.path()).unwrap();
        // From some call on, while two documents of one decision come and go.
        disk.plan(Some(Plan::Span { first, calls: u64::MAX, failing: Failing::Io }));
        (1..3).for_each(|document| journal.served(served(document)));
        disk.plan(None);
        Story::default().until_kept(&*journal.lane(0), 400);
        journal.close();
        let all = of_kind(&records(folder.path()), "served");
        let documents: HashSet<Vec<u8>> =
            all.iter().map(|record| record.value("document").unwrap().bytes().unwrap().to_vec()).collect();
        assert_eq!(documents.len(), 2, "from call {first} on");
    }
}

#[test]
fn which_event_of_a_registry_serves_is_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(JournalSettings::new(folder.path(), 1)).unwrap();
    let hash = flyball_core::Digest::of(b"an event");
    let environment = "production".to_owned();
    journal.registered(Registered { sequence: 41, hash, generation: 6, environment });
    journal.close();
    let told = of_kind(&records(folder.path()), "registry");
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].value("sequence").unwrap().u64().unwrap(), 41);
    assert_eq!(told[0].value("generation").unwrap().u64().unwrap(), 6);
    assert_eq!(told[0].value("hash").unwrap().bytes().unwrap(), hash.bytes());
    assert_eq!(told[0].value("environment").unwrap().str().unwrap(), "production");
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < STUCK, "{what}");
        thread::yield_now();
    }
}

#[test]
fn without_room_for_keys_to_come_records_are_refused_before_one_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    disk.plan(Some(Plan::Every { calls: 1, failing: Failing::NoRoomAhead }));
    let journal = opened_on(&disk, folder.path()).unwrap();
    let lane = journal.lane(0);
    until("it is not known that there is no room", || lane.reserve(0) == Err(Unavailable::Full));
    disk.plan(None);
    Story::default().until_kept(&*lane, 400);
    journal.close();
    let facts = fs::metadata(folder.path().join("subjects")).unwrap();
    assert_eq!(facts.len(), 2 * 128, "readers see no room");
    assert_eq!(gaps(&records(folder.path())), 0);
}

#[test]
fn a_journal_without_lanes_takes_what_is_appended() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(JournalSettings::new(folder.path(), 0)).unwrap();
    for number in 1..=3 {
        let mut entry = JournalRecord::default();
        Encoder::new(&mut entry.pairs).str("at").unwrap().u64(number).unwrap();
        entry.pairs_count = 1;
        assert_eq!(journal.append(entry).unwrap(), number);
    }
}

#[test]
fn while_long_inputs_cannot_be_written_the_journal_does_not_say_that_it_keeps_records() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let journal = opened_on(&disk, folder.path()).unwrap();
    let lane = journal.lane(0);
    let mut story = Story::default();
    story.until_kept(&*lane, 4);
    disk.plan(Some(Plan::Every { calls: 1, failing: Failing::SideFilesFull }));
    story.decide(&*lane, 8);
    until("it is not known that nothing can be kept", || lane.reserve(0) == Err(Unavailable::Full));
    let failed = disk.failed();
    until("nothing is tried again", || {
        assert_eq!(lane.reserve(0), Err(Unavailable::Full));
        disk.failed() > failed + 3
    });
    disk.plan(None);
    story.until_kept(&*lane, 400);
    journal.close();
    story.check(folder.path(), "long inputs");
}

#[test]
fn with_as_many_subjects_as_there_may_be_nothing_more_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let journal = opened(folder.path());
    let lane = journal.lane(0);
    let mut offered = 0;
    until("there is no end of subjects", || {
        let refused = lane.reserve(1);
        if refused.is_ok() {
            let mut entry = lane.blank();
            fill(&mut entry, offered, false);
            entry.subject.extend_from_slice(&offered.to_be_bytes());
            lane.offer(entry);
            offered += 1;
        }
        refused == Err(Unavailable::Broken)
    });
    // Longer than the retry interval.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(100) {
        assert_eq!(lane.reserve(1), Err(Unavailable::Broken));
        thread::yield_now();
    }
    journal.close();
    let all = records(folder.path());
    assert_eq!((of_kind(&all, "decision").len() as u64 + gaps(&all), gaps(&all) > 0), (offered, true));
}
