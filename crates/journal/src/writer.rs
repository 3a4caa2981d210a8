//! The writer thread. Start reading at `run`.
//!
//! Each round takes the lanes' records, appends them, and fsyncs when a caller waits or the oldest has waited
//! long enough. Whatever the disk does, a round ends: records that cannot be stored are counted and reported,
//! and the writer retries a second later.

mod checkpoint;
mod fault;
pub(crate) mod folder_check;
mod gap;
mod group;
mod rotate;
mod seal;
mod segment;

pub(crate) use seal::SealCallback;
pub use seal::Sealed;
pub(crate) use segment::PreviousSegment;

use crate::counts::InternalKind;
use crate::disk::Disk;
use crate::folder::Folder;
use crate::format::{FRAME_HEAD_BYTES, StartReason};
use crate::merkle::MerkleTree;
use crate::node::Node;
use crate::payload::SideFiles;
use crate::settings::JournalSettings;
use crate::shared::{Lane, Shared, WriterRequest};
use checkpoint::Checkpoints;
use fault::Fault;
use flyball_core::{JournalRecord, RecordKind, Served, Unavailable, nanos};
use gap::Gap;
use group::{Group, Reply};
use segment::Segment;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum delay until unsynced records are in the file.
const NAP: Duration = Duration::from_millis(2);
/// Idle rounds before the writer sleeps until woken, which costs the waking lane a system call.
const NAPS_MAX: u32 = 100;
/// Maximum sleep: periodic work is checked then.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// Maximum records from one lane in one round, so that every lane gets a turn.
const ROUND_RECORDS: usize = 2048;
/// Maximum bytes held in memory for rewriting after a disk failure.
const GROUP_BYTES_MAX: usize = 16 << 20;
/// The end of a segment is reserved for gap records.
const GAP_ROOM_BYTES: u64 = 64 << 10;
/// Maximum documents that wait while nothing can be written.
const UNSERVED_MAX: usize = 256;
/// Shorter in tests.
const RETRY: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(1) };

pub(crate) struct Writer {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    folder: Folder,
    settings: JournalSettings,
    node: Node,
    side_files: SideFiles,
    segment: Segment,
    /// The tree over the roots of all earlier segments.
    sealed: MerkleTree,
    roots: File,
    /// The next segment's file, if there was space for it.
    next: Option<File>,
    group: Group,
    /// Records taken from each lane.
    taken: Vec<u64>,
    /// When the oldest record of the current round came.
    since_ns: u64,
    /// The same while records move from a ring to the group, else zero.
    in_hand_ns: u64,
    payload: Vec<u8>,
    checkpoints: Checkpoints,
    durable: File,
    fault: Fault,
    gap: Option<Gap>,
    /// Serving documents without a record yet.
    unserved: Vec<Served>,
    /// Held for the writer's lifetime.
    lock: File,
}

/// The writer's initial state.
pub(crate) struct Start {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) folder: Folder,
    pub(crate) node: Node,
    pub(crate) side_files: SideFiles,
    pub(crate) before: PreviousSegment,
    pub(crate) began: StartReason,
    pub(crate) sealed: MerkleTree,
    pub(crate) roots: File,
    pub(crate) checkpoints_bytes: u64,
    /// Records that report the recovery.
    pub(crate) reports: Vec<(InternalKind, Vec<u8>)>,
    pub(crate) lock: File,
}

impl Writer {
    /// Starts a new segment with the recovery's reports.
    pub(crate) fn begin(start: Start, settings: JournalSettings, shared: Arc<Shared>) -> io::Result<Writer> {
        let (disk, folder, before) = (start.disk, start.folder, start.before);
        let file = rotate::create(&*disk, &folder, settings.segment_bytes)?;
        let header = before.header(start.began, &start.node, shared.wall.now_ns());
        let segment = rotate::begun(&*disk, &folder, file, header, settings.segment_bytes, shared.now_ns())?;
        let checkpoints = Checkpoints::open(&*disk, &folder, start.checkpoints_bytes, &settings)?;
        let durable = disk.open(&folder.file("durable"))?;
        let taken = vec![0; settings.lanes];
        shared.counters.segment.store(segment.header.segment, Ordering::Relaxed);
        let mut writer = Writer {
            shared,
            disk,
            folder,
            settings,
            node: start.node,
            side_files: start.side_files,
            segment,
            sealed: start.sealed,
            roots: start.roots,
            next: None,
            group: Group::default(),
            taken,
            since_ns: 0,
            in_hand_ns: 0,
            payload: Vec::new(),
            checkpoints,
            durable,
            fault: Fault::default(),
            gap: None,
            unserved: Vec::new(),
            lock: start.lock,
        };
        if before.segment > 0 {
            writer.note_sealed(before.segment, &before.root)?;
        }
        writer.note_durable();
        writer.report(&start.reports)?;
        Ok(writer)
    }

    fn report(&mut self, reports: &[(InternalKind, Vec<u8>)]) -> io::Result<()> {
        for (kind, payload) in reports {
            // The segment is new and has space.
            let _ = self.add_internal(*kind, payload);
        }
        let failed = || io::Error::other("the disk failed while opening the journal");
        self.commit().then_some(()).ok_or_else(failed)
    }

    pub(crate) fn run(mut self) {
        self.shared.writer.write_here();
        self.prepare_keys();
        let mut naps = 0;
        loop {
            self.shared.writer.begin_round();
            let closing = self.shared.closing.load(Ordering::Acquire);
            let taken = self.take_rings() + self.take_requests();
            self.write_or_commit();
            self.run_periodic();
            if taken >= ROUND_RECORDS {
                continue;
            }
            if taken == 0 && closing {
                break;
            }
            naps = if taken == 0 { naps + 1 } else { 0 };
            let unseen = |lane: &&Lane| lane.tickets.unseen();
            let any_unseen = self.shared.lanes.iter().any(|lane| unseen(&lane));
            if naps < NAPS_MAX || !self.group.is_empty() || any_unseen {
                self.shared.writer.nap(NAP);
            } else {
                self.shared.sleep(SLEEP_MAX);
            }
            if any_unseen {
                self.shared.lanes.iter().filter(unseen).for_each(|lane| lane.tickets.wake_one());
            }
        }
        self.finish();
    }

    fn take_rings(&mut self) -> usize {
        let shared = Arc::clone(&self.shared);
        let mut most = 0;
        for (number, lane) in shared.lanes.iter().enumerate() {
            let Some(since_ns) = lane.ring.since_ns() else { continue };
            self.since_ns = since_ns;
            // Published before the ring shrinks: no record ever seems durable too early.
            self.in_hand_ns = since_ns;
            self.publish();
            let taken = lane.ring.drain(ROUND_RECORDS, shared.now_ns(), |record| {
                match self.add(&record, None) {
                    // Not earlier: a commit on the way must not include it.
                    Ok(()) => self.taken[number] += 1,
                    Err(why) => self.lose_one(number, &record, why),
                }
                if self.group.frames.len() > GROUP_BYTES_MAX {
                    self.commit();
                }
                lane.ring.give_back(record);
            });
            self.in_hand_ns = 0;
            most = most.max(taken);
        }
        self.publish();
        most
    }

    fn take_requests(&mut self) -> usize {
        let mut taken = 0;
        while taken < ROUND_RECORDS
            && let Some(letter) = self.shared.take_request()
        {
            taken += 1;
            self.since_ns = self.shared.now_ns();
            match letter {
                WriterRequest::Append(record, reply) => {
                    if let Err(why) = self.add(&record, Some(reply.clone())) {
                        let _ = reply.try_send(Err(why));
                    }
                }
                WriterRequest::Seal(then) => then(self.seal()),
                WriterRequest::Flush(reply) => {
                    self.take_rings();
                    let kept = self.commit();
                    let _ = reply.try_send(if kept { Ok(0) } else { Err(Unavailable::Broken) });
                }
                WriterRequest::Served(served, reply) => {
                    if let Err(why) = self.add_served(*served, Some(reply.clone())) {
                        let _ = reply.try_send(Err(why));
                    }
                }
            }
        }
        self.publish();
        taken
    }

    /// The group keeps it until it is on the disk; what cannot be taken now is written later.
    fn add_served(&mut self, served: Served, reply: Option<Reply>) -> Result<(), Unavailable> {
        let record = self.side_files.served(&served, self.shared.wall.now_ns());
        let added = match record {
            Ok(record) => self.add(&record, reply),
            Err(error) => Err(self.note_side_fault(&error)),
        };
        match added {
            Ok(()) => self.group.served.push(served),
            Err(_) => self.defer_served([served]),
        }
        added
    }

    /// Records also refer to documents that no longer serve, so each is written.
    fn defer_served(&mut self, served: impl IntoIterator<Item = Served>) {
        for served in served {
            let named = |served: &Served| (served.decision.clone(), served.document);
            self.unserved.retain(|other| named(other) != named(&served));
            self.unserved.push(served);
        }
        while self.unserved.len() > UNSERVED_MAX {
            let Served { decision, .. } = self.unserved.remove(0);
            tracing::error!(decision, "the journal will not contain a decision's serving document");
        }
    }

    /// Adds a record as a frame.
    fn add(&mut self, record: &JournalRecord, reply: Option<Reply>) -> Result<(), Unavailable> {
        if let Some(why) = self.fault.given_up {
            return Err(why);
        }
        let mut payload = std::mem::take(&mut self.payload);
        let made = self.side_files.payload(record, &mut payload);
        self.payload = payload;
        made.map_err(|error| self.note_side_fault(&error))?;
        self.make_room(self.payload.len(), GAP_ROOM_BYTES)?;
        let seq = self.segment.push(&mut self.group.frames, &self.payload);
        self.group.note_record(record, self.since_ns);
        if let Some(reply) = reply {
            self.group.urgent = true;
            self.group.replies.push((seq, reply));
        }
        Ok(())
    }

    /// Adds a record of the journal itself.
    fn add_internal(&mut self, kind: InternalKind, payload: &[u8]) -> Result<(), Unavailable> {
        if let Some(why) = self.fault.given_up {
            return Err(why);
        }
        self.make_room(payload.len(), 0)?;
        self.segment.push(&mut self.group.frames, payload);
        self.group.note(RecordKind::ALL.len() + kind as usize, self.shared.now_ns());
        self.group.urgent = true;
        Ok(())
    }

    /// Ensures a segment with space for the payload and `spare` more bytes. An empty one accepts any size.
    fn make_room(&mut self, payload: usize, spare: u64) -> Result<(), Unavailable> {
        let fits = |segment: &Segment| {
            segment.is_empty() || segment.room() >= (FRAME_HEAD_BYTES + payload) as u64 + spare
        };
        if fits(&self.segment) {
            return Ok(());
        }
        self.rotate();
        match self.fault.given_up {
            Some(why) => Err(why),
            None if fits(&self.segment) => Ok(()),
            None => Err(self.fault.rotation.unwrap_or(Unavailable::Full)),
        }
    }

    /// Publishes the group's state to lanes and gauges.
    fn publish(&self) {
        let since_ns = if self.group.since_ns == 0 { self.in_hand_ns } else { self.group.since_ns };
        let in_hand = u64::from(self.in_hand_ns > 0);
        self.shared.pending_since_ns.store(since_ns, Ordering::Relaxed);
        self.shared.counters.pending.store(self.group.records + in_hand, Ordering::Relaxed);
    }

    fn write_or_commit(&mut self) {
        let now = self.shared.now_ns();
        let due = now.saturating_sub(self.group.since_ns) >= nanos(self.settings.sync);
        if self.group.is_empty() {
        } else if self.group.urgent || due {
            self.commit();
        } else if let Err(error) = self.side_files.flush() {
            self.drop_dependent(&error);
        } else if let Err(error) = self.write_out() {
            self.abandon(&error);
        }
    }

    fn write_out(&mut self) -> io::Result<()> {
        let Group { frames, written, .. } = &mut self.group;
        if *written < frames.len() {
            let at = self.segment.durable.bytes + *written as u64;
            self.disk.write_all_at(&self.segment.file, &frames[*written..], at)?;
            *written = frames.len();
        }
        Ok(())
    }

    /// Brings the group to disk and notifies the callers. False: it is lost, and they get that result.
    fn commit(&mut self) -> bool {
        if self.group.is_empty() {
            return true;
        }
        // After an error, pending keys are written again, so a second attempt is meaningful. A gap needs
        // none.
        if self.group.side_files
            && let Err(error) = self.side_files.sync().or_else(|_| self.side_files.sync())
        {
            self.drop_dependent(&error);
            return false;
        }
        match self.write_out().and_then(|()| self.sync_segment()) {
            Ok(()) if self.in_place() => {
                self.settle();
                true
            }
            Ok(()) => {
                self.leave();
                false
            }
            Err(error) => self.abandon(&error),
        }
    }

    fn sync_segment(&mut self) -> io::Result<()> {
        let begun = self.shared.now_ns();
        let synced = self.disk.fdatasync(&self.segment.file);
        self.shared.counters.synced(self.shared.now_ns() - begun);
        synced
    }

    /// The group is on disk.
    fn settle(&mut self) {
        self.segment.keep();
        self.note_durable();
        let counters = &self.shared.counters;
        counters.bytes.fetch_add(self.group.frames.len() as u64, Ordering::Relaxed);
        for (count, kind) in counters.kinds.iter().zip(self.group.kinds) {
            count.fetch_add(kind, Ordering::Relaxed);
        }
        for (seq, reply) in self.group.replies.drain(..) {
            let _ = reply.try_send(Ok(seq));
        }
        self.group.clear();
        self.publish();
        for (lane, taken) in self.shared.lanes.iter().zip(&self.taken) {
            lane.tickets.keep(*taken);
        }
    }

    /// Notes the durable position. Never ahead of the disk and not fsynced: a stale one only states less.
    fn note_durable(&mut self) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.segment.header.segment.to_le_bytes());
        bytes[8..].copy_from_slice(&self.segment.durable.bytes.to_le_bytes());
        if let Err(error) = self.disk.write_all_at(&self.durable, &bytes, 0) {
            tracing::debug!(%error, "cannot note the durable position of the journal");
        }
    }

    /// Runs periodic work.
    fn run_periodic(&mut self) {
        self.check_folder();
        self.retry();
        self.rotate_by_age();
        self.prepare_next();
        self.prepare_keys();
        self.write_due_gap(false);
        self.write_due_checkpoint(false);
        self.write_deferred();
        self.publish_state();
    }

    fn write_deferred(&mut self) {
        if self.unserved.is_empty() || self.fault.state(&self.segment, self.next.is_some()).is_some() {
            return;
        }
        self.since_ns = self.shared.now_ns();
        for served in std::mem::take(&mut self.unserved) {
            let _ = self.add_served(served, None);
        }
        self.commit();
    }

    /// Finishes. The lanes are gone or will see that the journal is closed.
    fn finish(mut self) {
        self.shared.set_unavailable(Some(Unavailable::Closed));
        self.take_rings();
        self.commit();
        self.retry_now();
        self.write_deferred();
        self.write_due_gap(true);
        self.seal_last();
        self.write_due_checkpoint(true);
        self.cut_last();
    }
}
