//! Whatever disk call fails: no acknowledged record is lost, the counts add up, the writer goes on.

use super::*;
use crate::disk::tests::{Failing, FaultyDisk, Plan};
use crate::payload::INPUT_BYTES_MAX;
use std::collections::HashSet;

const FAILINGS: [Failing; 3] = [Failing::Io, Failing::Space, Failing::Short];

pub(super) fn small(folder: &Path) -> JournalSettings {
    let sync = Duration::from_millis(5);
    JournalSettings { segment_bytes: 160 << 10, sync, ..JournalSettings::new(folder, 2) }
}

pub(super) fn opened_on(disk: &Arc<FaultyDisk>, folder: &Path) -> Result<Arc<Journal>, JournalError> {
    Journal::open_on(Arc::clone(disk) as Arc<dyn Disk>, small(folder))
}

/// A lane's actions and their results.
#[derive(Default)]
pub(super) struct Story {
    /// Records reported as durable.
    pub(super) acknowledged: Vec<u64>,
    /// Decided and answered without waiting: offered or missed.
    answered: u64,
}

impl Story {
    pub(super) fn decide(&mut self, lane: &dyn LaneRecorder, number: u64) {
        let sync = number.is_multiple_of(4);
        if let Err(why) = lane.reserve(1) {
            if !sync {
                lane.missed(1, why);
                self.answered += 1;
            }
            return;
        }
        let mut entry = lane.blank();
        fill(&mut entry, number, sync);
        entry.pairs.clear();
        Encoder::new(&mut entry.pairs).str("filling").unwrap().bytes(&[1; 3000]).unwrap();
        if number.is_multiple_of(8) {
            // Too long for the record: stored as a blob.
            entry.input.clear();
            let long = format!("{number} ").repeat(8 << 10);
            Encoder::new(&mut entry.input).map(1).unwrap().str("long").unwrap().str(&long).unwrap();
        }
        let ticket = lane.offer(entry);
        if !sync {
            self.answered += 1;
        } else if kept(lane, ticket).is_ok() {
            self.acknowledged.push(number);
        }
    }

    /// Retries until one is durable.
    pub(super) fn until_kept(&mut self, lane: &dyn LaneRecorder, number: u64) {
        let begun = Instant::now();
        let before = self.acknowledged.len();
        while self.acknowledged.len() == before {
            assert!(begun.elapsed() < STUCK, "the journal takes nothing any more");
            self.decide(lane, number);
            thread::yield_now();
        }
    }

    pub(super) fn check(&self, folder: &Path, told: &str) {
        let all = records(folder);
        let ids: Vec<u128> = of_kind(&all, "decision").iter().map(|record| record.id).collect();
        let found: HashSet<u128> = ids.iter().copied().collect();
        assert_eq!(ids.len(), found.len(), "{told}: a record is there twice");
        for number in &self.acknowledged {
            assert!(found.contains(&id(*number).0), "{told}: {number} was acknowledged and is lost");
        }
        let recorded = ids.len() as u64 - self.acknowledged.len() as u64;
        assert_eq!(recorded + gaps(&all), self.answered, "{told}: recorded and in gaps, of those answered");
        assert_eq!(verified(folder), [] as [String; 0], "{told}");
        side_files::check(folder, &all, told);
    }
}

/// A closing record replaces the open one with the same start.
pub(super) fn gaps(records: &[Record]) -> u64 {
    let mut counts = BTreeMap::new();
    for gap in of_kind(records, "gap") {
        counts.insert(gap.number("from").unwrap(), gap.number("count").unwrap());
    }
    counts.values().sum()
}

/// A workload on a disk that fails as planned, recovers, and is closed.
fn survives(plan: Plan) {
    let told = format!("{plan:?}");
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    disk.plan(Some(plan));
    let journal = opened_on(&disk, folder.path()).or_else(|_| {
        disk.plan(None);
        opened_on(&disk, folder.path())
    });
    let journal = journal.unwrap_or_else(|error| panic!("{told}: {error}"));
    let lane = journal.lane(0);
    let mut story = Story::default();
    (1..120).for_each(|number| story.decide(&*lane, number));
    disk.plan(None);
    story.until_kept(&*lane, 400);
    journal.close();
    let counts = journal.counts();
    assert_eq!(
        counts.gap_decisions.iter().map(|(_, count)| count).sum::<u64>(),
        gaps(&records(folder.path())),
        "{told}"
    );
    assert_eq!(counts.of("decision"), of_kind(&records(folder.path()), "decision").len() as u64, "{told}");
    story.check(folder.path(), &told);
    // It can be opened again.
    let journal = opened_on(&disk, folder.path()).unwrap_or_else(|error| panic!("{told}: {error}"));
    story.until_kept(&*journal.lane(1), 404);
    journal.close();
    story.check(folder.path(), &told);
}

/// Uses several threads, since most of the time is waiting.
fn all_survive(plans: impl IntoIterator<Item = Plan>) {
    let plans: Vec<Plan> = plans.into_iter().collect();
    thread::scope(|scope| {
        for part in plans.chunks(plans.len().div_ceil(6)) {
            scope.spawn(|| part.iter().copied().for_each(survives));
        }
    });
}

#[test]
fn whichever_call_fails_nothing_acknowledged_is_lost_and_the_counts_add_up() {
    all_survive((1..160).map(|first| {
        let (failing, calls) = (FAILINGS[first as usize % 3], [1, 2, 5, 30][first as usize / 3 % 4]);
        Plan::Span { first, calls, failing }
    }));
}

#[test]
fn however_often_calls_fail_nothing_acknowledged_is_lost_and_the_counts_add_up() {
    all_survive((2..40).map(|calls| Plan::Every { calls, failing: FAILINGS[calls as usize % 3] }));
}

#[test]
fn on_a_disk_that_stays_broken_the_journal_closes_and_opens_again_once_it_is_mended() {
    for first in [1, 12, 20, 33, 60] {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(FaultyDisk::default());
        let journal = opened_on(&disk, folder.path()).unwrap();
        let lane = journal.lane(0);
        let mut story = Story::default();
        disk.plan(Some(Plan::Span { first, calls: u64::MAX, failing: Failing::Io }));
        (1..60).for_each(|number| story.decide(&*lane, number));
        journal.close();
        assert!(disk.failed() > 0);
        disk.plan(None);
        let journal = opened_on(&disk, folder.path()).unwrap();
        story.until_kept(&*journal.lane(0), 400);
        journal.close();
        let found: HashSet<u128> = records(folder.path()).iter().map(|record| record.id).collect();
        assert!(story.acknowledged.iter().all(|number| found.contains(&id(*number).0)), "{first}");
        assert_eq!(verified(folder.path()), [] as [String; 0]);
    }
}

#[test]
fn without_room_for_the_next_segment_records_are_refused_while_the_open_one_still_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let journal = opened_on(&disk, folder.path()).unwrap();
    let lane = journal.lane(0);
    let mut story = Story::default();
    disk.plan(Some(Plan::Every { calls: 1, failing: Failing::NoNewFile }));
    let mut number = 0;
    let begun = Instant::now();
    while journal.counts().available != Some(Unavailable::Full) {
        assert!(begun.elapsed() < STUCK);
        number += 4;
        story.decide(&*lane, number);
    }
    assert_eq!(lane.reserve(1), Err(Unavailable::Full));
    assert!(story.acknowledged.len() as u64 >= number / 4 - 1, "one was refused before the journal was full");
    for number in (1..40).filter(|number| number % 4 != 0) {
        story.decide(&*lane, number);
    }
    // Uses the space reserved for it.
    while of_kind(&records(folder.path()), "gap").is_empty() {
        assert!(begun.elapsed() < STUCK, "no gap record was written");
    }
    assert!(of_kind(&records(folder.path()), "gap")[0].open_gap());
    disk.plan(None);
    story.until_kept(&*lane, 4000);
    journal.close();
    story.check(folder.path(), "full");
    assert_eq!(gaps(&records(folder.path())), 30);
}

#[test]
fn of_entries_that_were_offered_together_each_is_told_whether_it_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let journal = opened_on(&disk, folder.path()).unwrap();
    let lane = journal.lane(0);
    disk.plan(Some(Plan::Every { calls: 1, failing: Failing::NoNewFile }));
    // More than the open segment and one prepared segment can hold.
    let numbers = 1..=200;
    lane.reserve(200).unwrap();
    let offered: Vec<_> = numbers
        .map(|number| {
            let mut entry = lane.blank();
            fill(&mut entry, number, true);
            entry.pairs.clear();
            Encoder::new(&mut entry.pairs).str("filling").unwrap().bytes(&[1; 3000]).unwrap();
            (number, lane.offer(entry))
        })
        .collect();
    let told = offered.into_iter().filter(|(_, ticket)| kept(&*lane, *ticket).is_ok());
    let told: HashSet<u128> = told.map(|(number, _)| id(number).0).collect();
    assert!((1..200).contains(&told.len()), "{} of 200 were kept", told.len());
    disk.plan(None);
    journal.close();
    let all = records(folder.path());
    let found: HashSet<u128> = of_kind(&all, "decision").iter().map(|record| record.id).collect();
    assert_eq!((found, gaps(&all)), (told, 0));
}

#[test]
fn once_the_next_segment_may_be_there_nothing_more_is_acknowledged_from_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let settings = JournalSettings { segment_age: Duration::from_millis(1), ..small(folder.path()) };
    let journal = Journal::open_on(Arc::clone(&disk) as Arc<dyn Disk>, settings).unwrap();
    let lane = journal.lane(0);
    let mut story = Story::default();
    disk.plan(Some(Plan::Every { calls: 1, failing: Failing::NoName }));
    (1..100).for_each(|number| story.decide(&*lane, 4 * number));
    assert!(disk.failed() > 0, "no segment was begun");
    // The header of the next segment states how many frames of this one count.
    let copy = left::killed(folder.path());
    drop(opened(copy.path()));
    let found: HashSet<u128> = records(copy.path()).iter().map(|record| record.id).collect();
    let lost: Vec<&u64> =
        story.acknowledged.iter().filter(|number| !found.contains(&id(**number).0)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
}

#[test]
fn a_disk_that_does_not_answer_bounds_what_can_be_lost() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let settings = JournalSettings { loss_max: Duration::from_millis(50), ..small(folder.path()) };
    let journal = Journal::open_on(Arc::clone(&disk) as Arc<dyn Disk>, settings).unwrap();
    let lane = journal.lane(0);
    let mut story = Story::default();
    let held = disk.1.lock().unwrap();
    let begun = Instant::now();
    let mut number = 1;
    while lane.reserve(1) != Err(Unavailable::Behind) {
        lane.release(1);
        assert!(begun.elapsed() < STUCK, "everything is taken");
        story.decide(&*lane, number);
        number += 4;
    }
    // A ring may have been full earlier.
    while journal.counts().unsynced_ns <= journal.counts().loss_max_ns {
        assert!(begun.elapsed() < STUCK);
        thread::yield_now();
    }
    assert_eq!(lane.reserve(1), Err(Unavailable::Behind));
    assert!(journal.counts().unsynced_records > 0);
    drop(held);
    story.until_kept(&*lane, 400_000);
    journal.close();
    story.check(folder.path(), "behind");
}

#[test]
fn a_record_is_counted_as_unsynced_while_the_writer_stores_its_long_input() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let journal = opened_on(&disk, folder.path()).unwrap();
    let lane = journal.lane(0);
    // The writer has nothing else to do with the disk then.
    let ticket = offer(&*lane, 1, true).unwrap();
    assert_eq!(kept(&*lane, ticket), Ok(()));
    thread::sleep(Duration::from_millis(20));
    let held = disk.1.lock().unwrap();
    lane.reserve(1).unwrap();
    let mut entry = lane.blank();
    fill(&mut entry, 2, false);
    entry.input.clear();
    Encoder::new(&mut entry.input).str(&"x".repeat(INPUT_BYTES_MAX + 1)).unwrap();
    lane.offer(entry);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(100) {
        let counts = journal.counts();
        assert!(counts.unsynced_records > 0 && counts.unsynced_ns > 0, "{counts:?}");
    }
    drop(held);
    journal.close();
    assert_eq!(journal.counts().unsynced_records, 0);
}
