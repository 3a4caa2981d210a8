//! What a journal counts, and how it is read. Nobody waits for a count: each is an atomic of its own.

use flyball_core::{EntryKind, Unkept};
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of records that are the journal's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnKind {
    Recovered,
    Gap,
    Quarantined,
}

impl OwnKind {
    pub const ALL: [OwnKind; 3] = [OwnKind::Recovered, OwnKind::Gap, OwnKind::Quarantined];

    pub const fn label(self) -> &'static str {
        match self {
            OwnKind::Recovered => "recovered",
            OwnKind::Gap => "gap",
            OwnKind::Quarantined => "quarantined",
        }
    }
}

pub(crate) const KINDS: usize = EntryKind::ALL.len() + OwnKind::ALL.len();

/// Upper bounds of the buckets that fdatasync's durations are counted in; one more bucket is for what takes longer.
pub const SYNC_BOUNDS_NS: [u64; 15] = [
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    5_000_000_000,
];

/// A journal at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalCounts {
    /// On the disk, since the journal was opened; labels as in the log.
    pub records: Vec<(&'static str, u64)>,
    /// Of frames, on the disk.
    pub bytes: u64,
    /// Decisions that were answered without a record, by why.
    pub gap_decisions: [(Unkept, u64); Unkept::ALL.len()],
    /// Records of other kinds that were lost.
    pub lost_others: u64,
    /// Taken, and not on the disk yet: as many as could be lost now.
    pub unsynced_records: u64,
    /// How long the oldest of them waits.
    pub unsynced_ns: u64,
    /// From when on nothing more is taken.
    pub loss_max_ns: u64,
    pub segment: u64,
    /// Segments that were given up because the disk failed.
    pub abandoned: u64,
    pub syncs: u64,
    /// Of `SYNC_BOUNDS_NS`, not cumulative.
    pub sync_buckets: [u64; SYNC_BOUNDS_NS.len() + 1],
    pub sync_ns_sum: u64,
    /// Why nothing is kept just now.
    pub available: Option<Unkept>,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) kinds: [AtomicU64; KINDS],
    pub(crate) bytes: AtomicU64,
    pub(crate) gap_decisions: [AtomicU64; Unkept::ALL.len()],
    pub(crate) lost_others: AtomicU64,
    /// Taken from the rings and not on the disk.
    pub(crate) pending: AtomicU64,
    pub(crate) segment: AtomicU64,
    pub(crate) abandoned: AtomicU64,
    pub(crate) syncs: AtomicU64,
    sync_buckets: [AtomicU64; SYNC_BOUNDS_NS.len() + 1],
    sync_ns_sum: AtomicU64,
}

impl Counters {
    pub(crate) fn synced(&self, ns: u64) {
        let bucket = SYNC_BOUNDS_NS.partition_point(|bound| *bound < ns);
        self.sync_buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sync_ns_sum.fetch_add(ns, Ordering::Relaxed);
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }

    /// What only the caller knows is left at nothing.
    pub(crate) fn read(&self) -> JournalCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let labels = EntryKind::ALL.map(EntryKind::label).into_iter().chain(OwnKind::ALL.map(OwnKind::label));
        JournalCounts {
            records: labels.zip(self.kinds.iter().map(read)).collect(),
            bytes: read(&self.bytes),
            gap_decisions: Unkept::ALL.map(|why| (why, read(&self.gap_decisions[why.index()]))),
            lost_others: read(&self.lost_others),
            unsynced_records: read(&self.pending),
            unsynced_ns: 0,
            loss_max_ns: 0,
            segment: read(&self.segment),
            abandoned: read(&self.abandoned),
            syncs: read(&self.syncs),
            sync_buckets: std::array::from_fn(|bucket| read(&self.sync_buckets[bucket])),
            sync_ns_sum: read(&self.sync_ns_sum),
            available: None,
        }
    }
}

impl JournalCounts {
    pub fn of(&self, label: &str) -> u64 {
        self.records.iter().find(|(kind, _)| *kind == label).map_or(0, |(_, count)| *count)
    }
}
