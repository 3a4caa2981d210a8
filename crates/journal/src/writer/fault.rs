//! The writer's handling of disk failures.
//!
//! A file whose fsync failed is final at its last durable byte; the rest is written again into a new segment.
//! If that fails too, the records are abandoned, counted and reported.

use super::{GAP_ROOM_BYTES, RETRY, ROUND_RECORDS, Writer};
use crate::blobs::BlobError;
use crate::format::StartReason;
use crate::gap_signature;
use crate::keys::KeyError;
use crate::payload::PayloadError;
use crate::ring::RING_RECORDS;
use crate::writer::segment::Segment;
use flyball_core::nanos;
use flyball_core::{JournalRecord, Unavailable};
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Space for records in flight when the next segment cannot be allocated.
const MARGIN_BYTES_MAX: u64 = 16 << 20;

#[derive(Debug, Default)]
pub(super) struct Fault {
    /// The file can no longer be written, and there is no other.
    pub(super) given_up: Option<Unavailable>,
    /// There is no next segment.
    pub(super) rotation: Option<Unavailable>,
    /// Keys or blobs cannot be written.
    side_files: Option<Unavailable>,
    /// And never will be.
    side_files_ended: bool,
    retry_ns: u64,
    /// When the directory was last checked.
    pub(super) looked_ns: u64,
    loud_ns: u64,
    /// The last logged state.
    published: Option<Unavailable>,
}

impl Fault {
    pub(super) fn state(&self, segment: &Segment, next: bool) -> Option<Unavailable> {
        let margin = (segment.capacity / 4).min(MARGIN_BYTES_MAX) + GAP_ROOM_BYTES;
        let cramped = !next && segment.room() < margin;
        self.given_up.or(self.side_files).or(self.rotation.filter(|_| cramped))
    }
}

pub(super) fn why(error: &io::Error) -> Unavailable {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Unavailable::Full,
        _ => Unavailable::Broken,
    }
}

impl Writer {
    pub(super) fn retry_due(&self) -> bool {
        self.shared.now_ns() >= self.fault.retry_ns
    }

    pub(super) fn retry_later(&mut self) {
        self.fault.retry_ns = self.shared.now_ns() + nanos(RETRY);
    }

    /// Whether to log now: repeated failures are logged once a second.
    fn should_log(&mut self) -> bool {
        let now = self.shared.now_ns();
        let should_log = now >= self.fault.loud_ns;
        if should_log {
            self.fault.loud_ns = now + nanos(Duration::from_secs(1));
        }
        should_log
    }

    /// Abandons the failed file and writes its unsynced records into a new segment.
    ///
    /// Side files are synced first. Returns false if the records are lost.
    pub(super) fn abandon(&mut self, error: &io::Error) -> bool {
        if self.should_log() {
            let segment = self.segment.header.segment;
            tracing::error!(%error, segment, "the disk failed; abandoning a segment of the journal");
        }
        self.shared.counters.abandoned.fetch_add(1, Ordering::Relaxed);
        if self.group.side_files
            && let Err(error) = self.side_files.sync()
        {
            let why = self.note_side_fault(&error);
            self.give_up(why);
            return false;
        }
        if let Err(error) = self.begin_next(StartReason::Abandoned).and_then(|()| self.write_again()) {
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
                gap_signature::sign_again(&mut payload, &self.segment.reach.last, |bytes| key.sign(bytes));
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
    pub(super) fn give_up(&mut self, why: Unavailable) {
        self.fault.given_up = Some(why);
        self.retry_later();
        self.lose_group(why);
    }

    /// Drops records whose keys or blobs cannot be written. The file itself can still take a gap record.
    pub(super) fn drop_dependent(&mut self, error: &PayloadError) {
        let why = self.note_side_fault(error);
        // The part already in the file must not precede later records.
        let zeros = vec![0; self.group.written];
        match self.disk.write_all_at(&self.segment.file, &zeros, self.segment.durable.bytes) {
            Ok(()) => self.lose_group(why),
            Err(_) => self.give_up(why),
        }
    }

    fn lose_group(&mut self, why: Unavailable) {
        self.segment.forget();
        if self.group.answered > 0 {
            self.shared.miss(self.group.answered, why);
        }
        self.shared.miss_others(&self.group.others);
        for (_, reply) in self.group.replies.drain(..) {
            let _ = reply.try_send(Err(why));
        }
        let served = std::mem::take(&mut self.group.served);
        self.defer_served(served);
        self.group.clear();
        self.publish();
        // Rejects from here on, before the notified callers return.
        self.publish_state();
        for (lane, taken) in self.shared.lanes.iter().zip(&self.taken) {
            self.shared.lose_tickets(lane, *taken, why);
        }
    }

    /// Drops one record; the lane's earlier records are still written.
    pub(super) fn lose_one(&mut self, lane: usize, record: &JournalRecord, why: Unavailable) {
        self.commit();
        self.taken[lane] += 1;
        self.shared.lose(record, why);
        // As above: the notified callers must see the current state.
        self.publish_state();
        self.shared.lose_tickets(&self.shared.lanes[lane], self.taken[lane], why);
    }

    /// Notes that a key or blob could not be written, or that a record is too long.
    pub(super) fn note_side_fault(&mut self, error: &PayloadError) -> Unavailable {
        if self.should_log() {
            tracing::error!(%error, "cannot store a record");
        }
        let why = match error {
            PayloadError::Keys(KeyError::Io { cause, .. })
            | PayloadError::Blobs(BlobError::Io { cause, .. }) => why(cause),
            _ => Unavailable::Broken,
        };
        self.fault.side_files_ended |= matches!(error, PayloadError::Keys(KeyError::TooMany(_)));
        if !matches!(error, PayloadError::Long(_)) {
            self.fault.side_files = Some(why);
            self.retry_later();
        }
        why
    }

    pub(super) fn note_fault(&mut self, error: &io::Error) {
        if self.should_log() {
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
        if self.fault.given_up == Some(Unavailable::Gone) && !self.in_place() {
            self.retry_later();
            return;
        }
        let ended = self.fault.side_files_ended;
        if self.fault.side_files.is_some() && !ended {
            match self.side_files.probe(self.subjects_ahead()) {
                Ok(()) => self.fault.side_files = None,
                Err(_) => self.retry_later(),
            }
        }
        if self.fault.given_up.is_some() && (self.fault.side_files.is_none() || ended) {
            match self.begin_next(StartReason::Abandoned) {
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
        if self.fault.side_files.is_none()
            && self.fault.given_up != Some(Unavailable::Gone)
            && let Err(error) = self.side_files.keys.make_room(self.subjects_ahead())
        {
            self.note_side_fault(&error.into());
        }
    }

    /// The maximum number of new subjects in the rings and in one round.
    fn subjects_ahead(&self) -> u32 {
        u32::try_from(self.settings.lanes * (RING_RECORDS + ROUND_RECORDS)).unwrap_or(u32::MAX / 4)
    }

    /// Publishes availability: lanes reject or accept from here on.
    pub(super) fn publish_state(&mut self) {
        let state = self.fault.state(&self.segment, self.next.is_some());
        if state != self.fault.published {
            match state {
                Some(why) => tracing::error!(
                    why = why.label(),
                    "the journal cannot store records; it retries every second"
                ),
                None => tracing::info!("the journal stores records again"),
            }
            self.fault.published = state;
        }
        if !self.shared.closing.load(Ordering::Relaxed) {
            self.shared.set_unavailable(state);
        }
    }
}
