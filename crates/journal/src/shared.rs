//! State shared by lanes, other threads and the writer.
//!
//! It has the rings, tickets, availability, and what wakes the writer. Lanes use atomics only; the inbox of
//! other threads has a lock that lanes never take.

use crate::counts::{Counters, JournalCounts};
use crate::ring::Ring;
use crate::settings::JournalSettings;
use crate::sleep::WriterSleep;
use crate::tickets::Tickets;
use crate::writer::SealCallback;
use flyball_core::{JournalRecord, RecordKind, Served, Unavailable, WallClock, nanos};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// For threads other than lanes; each waits for its own request.
const INBOX_MAX: usize = 1024;

#[derive(Default)]
pub(crate) struct Lane {
    pub(crate) ring: Ring,
    pub(crate) tickets: Tickets,
}

/// A request of another thread to the writer.
pub(crate) enum WriterRequest {
    Append(Box<JournalRecord>, SyncSender<Result<u64, Unavailable>>),
    Served(Box<Served>, SyncSender<Result<u64, Unavailable>>),
    Flush(SyncSender<Result<u64, Unavailable>>),
    Seal(SealCallback),
}

pub(crate) struct Shared {
    pub(crate) lanes: Vec<Lane>,
    pub(crate) counters: Counters,
    pub(crate) wall: WallClock,
    pub(crate) loss_max_ns: u64,
    begun: Instant,
    /// One more than the index of the reason; zero: available.
    unavailable: AtomicU8,
    /// The arrival of the oldest record taken from a ring and not on disk; zero: none.
    pub(crate) pending_since_ns: AtomicU64,
    pub(crate) closing: AtomicBool,
    /// The writer has ended.
    pub(crate) ended: AtomicBool,
    inbox: Mutex<VecDeque<WriterRequest>>,
    inbox_length: AtomicUsize,
    pub(crate) writer: WriterSleep,
    missed: [AtomicU64; Unavailable::ALL.len()],
    missed_others: [AtomicU64; RecordKind::ALL.len()],
    missed_first: AtomicI64,
    missed_last: AtomicI64,
}

/// Decisions without a record, and other lost records, since the last query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Missed {
    pub(crate) by_why: [u64; Unavailable::ALL.len()],
    pub(crate) others: [u64; RecordKind::ALL.len()],
    pub(crate) first_unix_ns: i64,
    pub(crate) last_unix_ns: i64,
}

impl Shared {
    pub(crate) fn new(settings: &JournalSettings) -> Shared {
        Shared {
            lanes: (0..settings.lanes).map(|_| Lane::default()).collect(),
            counters: Counters::default(),
            wall: settings.wall.clone(),
            loss_max_ns: nanos(settings.loss_max),
            begun: Instant::now(),
            unavailable: AtomicU8::new(0),
            pending_since_ns: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            inbox: Mutex::default(),
            inbox_length: AtomicUsize::new(0),
            writer: WriterSleep::default(),
            missed: Default::default(),
            missed_others: Default::default(),
            missed_first: AtomicI64::new(0),
            missed_last: AtomicI64::new(0),
        }
    }

    /// Never zero.
    pub(crate) fn now_ns(&self) -> u64 {
        nanos(self.begun.elapsed()) + 1
    }

    pub(crate) fn unavailable(&self) -> Option<Unavailable> {
        let index = self.unavailable.load(Ordering::Relaxed).checked_sub(1)?;
        Unavailable::ALL.get(usize::from(index)).copied()
    }

    pub(crate) fn set_unavailable(&self, unavailable: Option<Unavailable>) {
        let state = unavailable.map_or(0, |why| why.index() as u8 + 1);
        self.unavailable.store(state, Ordering::Relaxed);
    }

    /// Whether a record in the file or in this ring waits longer than allowed.
    pub(crate) fn behind(&self, ring: &Ring) -> bool {
        let pending = self.pending_since_ns.load(Ordering::Relaxed);
        let waits = ring.since_ns();
        if pending == 0 && waits.is_none() {
            return false;
        }
        let oldest = waits.unwrap_or(u64::MAX).min(if pending == 0 { u64::MAX } else { pending });
        self.now_ns().saturating_sub(oldest) > self.loss_max_ns
    }

    pub(crate) fn counts(&self) -> JournalCounts {
        let now = self.now_ns();
        let rings = self.lanes.iter().filter_map(|lane| lane.ring.since_ns());
        let pending = Some(self.pending_since_ns.load(Ordering::Relaxed)).filter(|since| *since > 0);
        let oldest = rings.chain(pending).min();
        // Before the writer's count: a record that moves between the two is counted twice rather than never.
        let in_rings = self.lanes.iter().map(|lane| lane.ring.len() as u64).sum::<u64>();
        let mut counts = self.counters.read();
        counts.unsynced_records += in_rings;
        counts.unsynced_ns = oldest.map_or(0, |since| now.saturating_sub(since));
        counts.loss_max_ns = self.loss_max_ns;
        counts.available = self.unavailable();
        counts
    }
}

/// Decisions answered without a record.
impl Shared {
    pub(crate) fn miss(&self, decisions: u64, why: Unavailable) {
        self.miss_now();
        self.counters.gap_decisions[why.index()].fetch_add(decisions, Ordering::Relaxed);
        self.missed[why.index()].fetch_add(decisions, Ordering::Release);
        self.wake(false);
    }

    /// Records other than decisions.
    pub(crate) fn miss_others(&self, others: &[u64; RecordKind::ALL.len()]) {
        let count = others.iter().sum();
        if count == 0 {
            return;
        }
        self.miss_now();
        self.counters.lost_others.fetch_add(count, Ordering::Relaxed);
        for (missed, lost) in self.missed_others.iter().zip(others) {
            missed.fetch_add(*lost, Ordering::Release);
        }
        self.wake(false);
    }

    fn miss_now(&self) {
        let now = self.wall.now_ns();
        let _ = self.missed_first.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
        self.missed_last.store(now, Ordering::Relaxed);
    }

    fn any_missed(&self) -> bool {
        self.missed.iter().chain(&self.missed_others).any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// A record is lost. A waiting caller is notified and counts it; otherwise it is counted here.
    pub(crate) fn lose(&self, record: &JournalRecord, why: Unavailable) {
        if record.sync {
            return;
        }
        if is_decision(record.kind) {
            self.miss(1, why);
        } else {
            let mut others = [0; RecordKind::ALL.len()];
            others[record.kind as usize] = 1;
            self.miss_others(&others);
        }
    }

    /// Marks all unsettled records of a lane up to `last` as lost, and counts the orphans.
    pub(crate) fn lose_tickets(&self, lane: &Lane, last: u64, why: Unavailable) {
        let orphans = lane.tickets.lose(last, why);
        if orphans > 0 {
            self.miss(orphans, why);
        }
    }

    pub(crate) fn take_missed(&self) -> Option<Missed> {
        if !self.any_missed() {
            return None;
        }
        let by_why = self.missed.each_ref().map(|count| count.swap(0, Ordering::Acquire));
        let others = self.missed_others.each_ref().map(|count| count.swap(0, Ordering::Acquire));
        let last_unix_ns = self.missed_last.load(Ordering::Relaxed);
        let first = self.missed_first.swap(0, Ordering::Relaxed);
        // Another count may have taken the first time with it.
        let first_unix_ns = if first == 0 { last_unix_ns } else { first };
        Some(Missed { by_why, others, first_unix_ns, last_unix_ns })
    }
}

/// Requests of other threads than lanes.
impl Shared {
    pub(crate) fn post(&self, letter: WriterRequest) -> Result<(), Unavailable> {
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        if self.closing.load(Ordering::Acquire) {
            return Err(Unavailable::Closed);
        }
        if inbox.len() >= INBOX_MAX {
            return Err(Unavailable::Behind);
        }
        inbox.push_back(letter);
        self.inbox_length.store(inbox.len(), Ordering::Relaxed);
        drop(inbox);
        self.wake(true);
        Ok(())
    }

    pub(crate) fn take_request(&self) -> Option<WriterRequest> {
        if self.inbox_length.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        let letter = inbox.pop_front();
        self.inbox_length.store(inbox.len(), Ordering::Relaxed);
        letter
    }

    /// The writer ended, normally or not: notifies waiting threads and rejects new requests.
    pub(crate) fn end(&self) {
        self.close();
        self.set_unavailable(Some(Unavailable::Closed));
        self.ended.store(true, Ordering::SeqCst);
        for lane in &self.lanes {
            lane.ring.drain(usize::MAX, 0, |record| self.lose(&record, Unavailable::Closed));
            self.lose_tickets(lane, lane.ring.offered(), Unavailable::Closed);
        }
        while let Some(letter) = self.take_request() {
            match letter {
                WriterRequest::Append(_, reply)
                | WriterRequest::Served(_, reply)
                | WriterRequest::Flush(reply) => {
                    let _ = reply.try_send(Err(Unavailable::Closed));
                }
                WriterRequest::Seal(then) => then(Err(Unavailable::Closed)),
            }
        }
    }

    /// Rejects requests from here on.
    pub(crate) fn close(&self) {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        self.closing.store(true, Ordering::Release);
        drop(inbox);
        self.wake(true);
    }
}

impl Shared {
    /// `urgent` wakes the writer at once, not only from a deep sleep.
    pub(crate) fn wake(&self, urgent: bool) {
        self.writer.wake(urgent);
    }

    /// The writer sleeps until a wake-up, unless there is something to record.
    pub(crate) fn sleep(&self, at_most: Duration) {
        self.writer.sleep(at_most, || self.lanes.iter().any(|lane| lane.ring.len() > 0) || self.any_missed());
    }
}

/// Gap records count these; failed rows are not decisions and are counted among the others.
pub(crate) fn is_decision(kind: RecordKind) -> bool {
    kind == RecordKind::Decision
}
