//! The counters of a journal. Each is an atomic, so that reading never waits.

use flyball_core::{RecordKind, Unavailable};
use std::sync::atomic::{AtomicU64, Ordering};

flyball_core::labelled! {
    /// Record kinds that the journal writes itself.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum InternalKind {
        Recovered => "recovered",
        Gap => "gap",
        Quarantined => "quarantined",
    }
}

pub(crate) const KINDS: usize = RecordKind::ALL.len() + InternalKind::ALL.len();

/// Upper bounds of the fdatasync duration buckets; one more bucket counts longer calls.
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

/// The counts of a journal at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalCounts {
    /// Records on disk since the journal was opened, by the labels of the log.
    pub records: Vec<(&'static str, u64)>,
    /// Bytes of frames on disk.
    pub bytes: u64,
    /// Decisions answered without a record, by reason.
    pub gap_decisions: [(Unavailable, u64); Unavailable::ALL.len()],
    /// Lost records of other kinds.
    pub lost_others: u64,
    /// Accepted records that are not on disk yet: the most that could be lost now.
    pub unsynced_records: u64,
    /// The age of the oldest of them.
    pub unsynced_ns: u64,
    /// The age from which the journal rejects new records.
    pub loss_max_ns: u64,
    pub segment: u64,
    /// Segments abandoned after a disk failure.
    pub abandoned: u64,
    pub syncs: u64,
    /// Counts for `SYNC_BOUNDS_NS`, not cumulative.
    pub sync_buckets: [u64; SYNC_BOUNDS_NS.len() + 1],
    pub sync_ns_sum: u64,
    /// The reason why the journal cannot store records now.
    pub available: Option<Unavailable>,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) kinds: [AtomicU64; KINDS],
    pub(crate) bytes: AtomicU64,
    pub(crate) gap_decisions: [AtomicU64; Unavailable::ALL.len()],
    pub(crate) lost_others: AtomicU64,
    /// Records taken from the rings that are not on disk.
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

    /// Reads the counters; leaves the caller's fields at zero.
    pub(crate) fn read(&self) -> JournalCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let labels = RecordKind::ALL
            .map(RecordKind::label)
            .into_iter()
            .chain(InternalKind::ALL.map(InternalKind::label));
        JournalCounts {
            records: labels.zip(self.kinds.iter().map(read)).collect(),
            bytes: read(&self.bytes),
            gap_decisions: Unavailable::ALL.map(|why| (why, read(&self.gap_decisions[why.index()]))),
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
