//! The writer's handling of disk failures.
//!
//! A file whose fsync failed is final at its last durable byte; the rest is written again into a new segment.
//! If that fails too, the records are abandoned, counted and reported.

use super::{GAP_ROOM_BYTES, RETRY, ROUND_ENTRIES, Writer};
use crate::blobs::BlobError;
use crate::format::Began;
use crate::gap_signature;
use crate::keys::KeyError;
use crate::payload::PayloadError;
use crate::ring::RING_ENTRIES;
use crate::shared::nanoseconds;
use crate::writer::segment::Segment;
use flyball_core::{Entry, Unkept};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Space for records in flight when the next segment cannot be allocated.
const MARGIN_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, Default)]
pub(super) struct Fault {
    /// The file can no longer be written, and there is no other.
    pub(super) given_up: Option<Unkept>,
    /// There is no next segment.
    pub(super) rotation: Option<Unkept>,
    /// Keys or blobs cannot be written.
    beside: Option<Unkept>,
    /// And never will be.
    beside_ended: bool,
    retry_ns: u64,
    /// When the directory was last checked.
    pub(super) looked_ns: u64,
    loud_ns: u64,
    told: Option<Unkept>,
}

impl Fault {
    pub(super) fn state(&self, segment: &Segment, next: bool) -> Option<Unkept> {
        let margin = (segment.capacity / 4).min(MARGIN_BYTES_MAX) + GAP_ROOM_BYTES;
        let cramped = !next && segment.room() < margin;
        self.given_up.or(self.beside).or(self.rotation.filter(|_| cramped))
    }
}

pub(super) fn why(error: &io::Error) -> Unkept {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Unkept::Full,
        _ => Unkept::Broken,
    }
}

impl Writer {
    pub(super) fn retry_due(&self) -> bool {
        self.shared.now_ns() >= self.fault.retry_ns
    }

    pub(super) fn retry_later(&mut self) {
        self.fault.retry_ns = self.shared.now_ns() + nanoseconds(RETRY);
    }

    /// Whether to log now: repeated failures are logged once a second.
    fn loud(&mut self) -> bool {
        let now = self.shared.now_ns();
        let loud = now >= self.fault.loud_ns;
        if loud {
            self.fault.loud_ns = now + nanoseconds(Duration::from_secs(1));
        }
        loud
    }

    /// Abandons the failed file and writes its unsynced records into a new segment.
    ///
    /// Side files are synced first. Returns false if the records are lost.
    pub(super) fn abandon(&mut self, error: &io::Error) -> bool {
        if self.loud() {
            let segment = self.segment.header.segment;
            tracing::error!(%error, segment, "the disk failed; abandoning a segment of the journal");
        }
        self.shared.counters.abandoned.fetch_add(1, Ordering::Relaxed);
        if self.group.beside
            && let Err(error) = self.beside.sync()
        {
            let why = self.note_beside(&error);
            self.give_up(why);
            return false;
        }
        if let Err(error) = self.begin_next(Began::Abandoned).and_then(|()| self.write_again()) {
            self.note_fault(&error);
            self.give_up(why(&error));
            return false;
        }
        self.settle();
        true
    }

    fn write_again(&mut self) -> io::Result<()> {
        let mut frames = Vec::with_capacity(self.group.frames.len());
        for payload in self.group.payloads() {
            if gap_signature::is_gap(payload) {
                let mut payload = payload.to_vec();
                let key = &self.node.key;
                gap_signature::sign_anew(&mut payload, &self.segment.reach.last, |bytes| key.sign(bytes));
                self.segment.push(&mut frames, &payload);
            } else {
                self.segment.push(&mut frames, payload);
            }
        }
        self.group.frames = frames;
        self.group.written = 0;
        self.write_out()?;
        self.sync_segment()
    }

    /// Drops all records that are not on disk.
    pub(super) fn give_up(&mut self, why: Unkept) {
        self.fault.given_up = Some(why);
        self.retry_later();
        self.lose_group(why);
    }

    /// Drops records whose keys or blobs cannot be written. The file itself can still take a gap record.
    pub(super) fn forgo(&mut self, error: &PayloadError) {
        let why = self.note_beside(error);
        // The part already in the file must not precede later records.
        let zeros = vec![0; self.group.written];
        match self.disk.write_all_at(&self.segment.file, &zeros, self.segment.durable.bytes) {
            Ok(()) => self.lose_group(why),
            Err(_) => self.give_up(why),
        }
    }

    fn lose_group(&mut self, why: Unkept) {
        self.segment.forget();
        if self.group.answered > 0 {
            self.shared.miss(self.group.answered, why);
        }
        self.shared.miss_others(&self.group.others);
        for (_, reply) in self.group.replies.drain(..) {
            let _ = reply.try_send(Err(why));
        }
        let served = std::mem::take(&mut self.group.served);
        self.serve_later(served);
        self.group.clear();
        self.publish();
        // Rejects from here on, before the notified callers return.
        self.tell_state();
        for (lane, taken) in self.shared.lanes.iter().zip(&self.taken) {
            self.shared.lose_tickets(lane, *taken, why);
        }
    }

    /// Drops one record; the lane's earlier records are still written.
    pub(super) fn lose_one(&mut self, lane: usize, entry: &Entry, why: Unkept) {
        self.commit();
        self.taken[lane] += 1;
        self.shared.lose(entry, why);
        // As above: the notified callers must see the current state.
        self.tell_state();
        self.shared.lose_tickets(&self.shared.lanes[lane], self.taken[lane], why);
    }

    /// Notes that a key or blob could not be written, or that a record is too long.
    pub(super) fn note_beside(&mut self, error: &PayloadError) -> Unkept {
        if self.loud() {
            tracing::error!(%error, "cannot store a record");
        }
        let why = match error {
            PayloadError::Keys(KeyError::Io { cause, .. })
            | PayloadError::Blobs(BlobError::Io { cause, .. }) => why(cause),
            _ => Unkept::Broken,
        };
        self.fault.beside_ended |= matches!(error, PayloadError::Keys(KeyError::TooMany(_)));
        if !matches!(error, PayloadError::Long(_)) {
            self.fault.beside = Some(why);
            self.retry_later();
        }
        why
    }

    pub(super) fn note_fault(&mut self, error: &io::Error) {
        if self.loud() {
            tracing::error!(%error, "cannot create the next segment of the journal");
        }
        self.fault.rotation = Some(why(error));
        self.retry_later();
    }

    /// The last attempt.
    pub(super) fn retry_now(&mut self) {
        self.fault.retry_ns = 0;
        self.retry();
    }

    /// Retries failed work, once a second.
    pub(super) fn retry(&mut self) {
        if !self.retry_due() {
            return;
        }
        if self.fault.given_up == Some(Unkept::Gone) && !self.in_place() {
            self.retry_later();
            return;
        }
        let ended = self.fault.beside_ended;
        if self.fault.beside.is_some() && !ended {
            match self.beside.probe(self.subjects_ahead()) {
                Ok(()) => self.fault.beside = None,
                Err(_) => self.retry_later(),
            }
        }
        if self.fault.given_up.is_some() && (self.fault.beside.is_none() || ended) {
            match self.begin_next(Began::Abandoned) {
                Ok(()) => self.fault.given_up = None,
                Err(error) => {
                    self.fault.given_up = Some(why(&error));
                    self.retry_later();
                }
            }
        }
    }

    /// Detects a full disk before a new subject's key finds no space.
    pub(super) fn prepare_keys(&mut self) {
        if self.fault.beside.is_none()
            && self.fault.given_up != Some(Unkept::Gone)
            && let Err(error) = self.beside.keys.make_room(self.subjects_ahead())
        {
            self.note_beside(&error.into());
        }
    }

    /// The maximum number of new subjects in the rings and in one round.
    fn subjects_ahead(&self) -> u32 {
        u32::try_from(self.settings.lanes * (RING_ENTRIES + ROUND_ENTRIES)).unwrap_or(u32::MAX / 4)
    }

    /// Publishes availability: lanes reject or accept from here on.
    pub(super) fn tell_state(&mut self) {
        let state = self.fault.state(&self.segment, self.next.is_some());
        if state != self.fault.told {
            match state {
                Some(why) => tracing::error!(
                    why = why.label(),
                    "the journal cannot store records; it retries every second"
                ),
                None => tracing::info!("the journal stores records again"),
            }
            self.fault.told = state;
        }
        if !self.shared.closing.load(Ordering::Relaxed) {
            self.shared.set_unkept(state);
        }
    }
}
