//! The one thread that writes. Each round takes what the lanes have offered, writes it behind what is there, and brings it to
//! the disk as soon as somebody waits for it, or the oldest of it has waited long enough. Start reading at `run`.
//!
//! Whatever the disk does, a round ends: what cannot be kept is counted and told, and tried again a second later.

mod checkpoint;
mod fault;
mod gap;
pub(crate) mod gone;
mod group;
mod rotate;
mod seal;
mod segment;

pub(crate) use seal::SealThen;
pub use seal::Sealed;
pub(crate) use segment::Before;

use crate::counts::OwnKind;
use crate::disk::Disk;
use crate::folder::Folder;
use crate::format::{Began, FRAME_HEAD_BYTES};
use crate::merkle::Growing;
use crate::node::Node;
use crate::payload::Beside;
use crate::settings::JournalSettings;
use crate::shared::{Letter, Shared, nanoseconds};
use checkpoint::Checkpoints;
use fault::Fault;
use flyball_core::{Entry, EntryKind, Served, Unkept};
use gap::Gap;
use group::{Group, Reply};
use segment::Segment;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What nobody waits for is in the file after so long.
const NAP: Duration = Duration::from_millis(2);
/// Rounds without an entry before the writer sleeps until it is woken, which costs the lane that does it a system call.
const NAPS_MAX: u32 = 100;
/// How long it sleeps at most: times of other things are looked at then.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// From one lane in one round, so that every lane has its turn.
const ROUND_ENTRIES: usize = 2048;
/// More than this is not kept in memory for the case that the disk fails.
const GROUP_BYTES_MAX: usize = 16 << 20;
/// The last of a segment is for gap records alone.
const GAP_ROOM_BYTES: u64 = 64 << 10;
/// Documents that came while nothing could be written.
const UNSERVED_MAX: usize = 256;
/// Tests see the same, sooner.
const RETRY: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(1) };

pub(crate) struct Writer {
    shared: Arc<Shared>,
    disk: Arc<dyn Disk>,
    folder: Folder,
    settings: JournalSettings,
    node: Node,
    beside: Beside,
    segment: Segment,
    /// Of the roots of all segments before it.
    sealed: Growing,
    roots: File,
    /// The next one's file, if there was room for it.
    next: Option<File>,
    group: Group,
    /// Entries taken from each lane.
    taken: Vec<u64>,
    /// When the oldest of those that are being taken came.
    since_ns: u64,
    payload: Vec<u8>,
    checkpoints: Checkpoints,
    durable: File,
    fault: Fault,
    gap: Option<Gap>,
    /// How decisions serve, of which there is no record yet.
    unserved: Vec<Served>,
    /// Held as long as this lives.
    lock: File,
}

/// What the writer begins with.
pub(crate) struct Start {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) folder: Folder,
    pub(crate) node: Node,
    pub(crate) beside: Beside,
    pub(crate) before: Before,
    pub(crate) began: Began,
    pub(crate) sealed: Growing,
    pub(crate) roots: File,
    pub(crate) checkpoints_bytes: u64,
    /// Records of what was found.
    pub(crate) reports: Vec<(OwnKind, Vec<u8>)>,
    pub(crate) lock: File,
}

impl Writer {
    /// Begins a segment of its own, and says there what was found.
    pub(crate) fn begin(start: Start, settings: JournalSettings, shared: Arc<Shared>) -> io::Result<Writer> {
        let Start {
            disk,
            folder,
            node,
            beside,
            before,
            began,
            sealed,
            roots,
            checkpoints_bytes,
            reports,
            lock,
        } = start;
        let file = rotate::create(&*disk, &folder, settings.segment_bytes)?;
        let header = before.header(began, &node, shared.wall.now_ns());
        let segment = rotate::begun(&*disk, &folder, file, header, settings.segment_bytes, shared.now_ns())?;
        let checkpoints = Checkpoints::open(&*disk, &folder, checkpoints_bytes, &settings)?;
        let durable = disk.open(&folder.file("durable"))?;
        let taken = vec![0; settings.lanes];
        shared.counters.segment.store(segment.header.segment, Ordering::Relaxed);
        let mut writer = Writer {
            shared,
            disk,
            folder,
            settings,
            node,
            beside,
            segment,
            sealed,
            roots,
            next: None,
            group: Group::default(),
            taken,
            since_ns: 0,
            payload: Vec::new(),
            checkpoints,
            durable,
            fault: Fault::default(),
            gap: None,
            unserved: Vec::new(),
            lock,
        };
        if before.segment > 0 {
            writer.note_sealed(before.segment, &before.root)?;
        }
        writer.note_durable();
        writer.report(&reports)?;
        Ok(writer)
    }

    fn report(&mut self, reports: &[(OwnKind, Vec<u8>)]) -> io::Result<()> {
        for (kind, payload) in reports {
            // The segment is new and has room.
            let _ = self.add_own(*kind, payload);
        }
        if self.commit() {
            Ok(())
        } else {
            Err(io::Error::other("the disk failed while the journal was opened"))
        }
    }

    pub(crate) fn run(mut self) {
        self.shared.write_here();
        self.prepare_keys();
        let mut naps = 0;
        loop {
            self.shared.begin_round();
            let closing = self.shared.closing.load(Ordering::Acquire);
            let taken = self.take_rings() + self.take_letters();
            self.write_or_commit();
            self.tend();
            if taken >= ROUND_ENTRIES {
                continue;
            }
            if taken == 0 && closing {
                break;
            }
            naps = if taken == 0 { naps + 1 } else { 0 };
            let told = self.shared.lanes.iter().all(|lane| !lane.tickets.unseen());
            if naps < NAPS_MAX || !self.group.is_empty() || !told {
                self.shared.nap(NAP);
            } else {
                self.shared.sleep(SLEEP_MAX);
            }
            if !told {
                self.shared
                    .lanes
                    .iter()
                    .filter(|lane| lane.tickets.unseen())
                    .for_each(|lane| lane.tickets.wake_one());
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
            // Told before the ring is shorter: at no time does something seem to be on the disk that is not.
            if self.group.since_ns == 0 {
                shared.pending_since_ns.store(since_ns, Ordering::Relaxed);
            }
            let taken = lane.ring.drain(ROUND_ENTRIES, shared.now_ns(), |entry| {
                match self.add(&entry, None) {
                    // Not before: what is settled on the way does not include it.
                    Ok(()) => self.taken[number] += 1,
                    Err(why) => self.lose_one(number, &entry, why),
                }
                if self.group.frames.len() > GROUP_BYTES_MAX {
                    self.commit();
                }
                lane.ring.give_back(entry);
            });
            most = most.max(taken);
        }
        self.publish();
        most
    }

    fn take_letters(&mut self) -> usize {
        let mut taken = 0;
        while taken < ROUND_ENTRIES
            && let Some(letter) = self.shared.take_letter()
        {
            taken += 1;
            self.since_ns = self.shared.now_ns();
            match letter {
                Letter::Entry(entry, reply) => {
                    if let Err(why) = self.add(&entry, Some(reply.clone())) {
                        let _ = reply.try_send(Err(why));
                    }
                }
                Letter::Seal(then) => then.tell(self.seal()),
                Letter::Flush(reply) => {
                    self.take_rings();
                    let kept = self.commit();
                    let _ = reply.try_send(if kept { Ok(0) } else { Err(Unkept::Broken) });
                }
                Letter::Served(served, reply) => {
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
    fn add_served(&mut self, served: Served, reply: Option<Reply>) -> Result<(), Unkept> {
        let entry = self.beside.served(&served, self.shared.wall.now_ns());
        let added = match entry {
            Ok(entry) => self.add(&entry, reply),
            Err(error) => Err(self.note_beside(&error)),
        };
        match added {
            Ok(()) => self.group.served.push(served),
            Err(_) => self.serve_later([served]),
        }
        added
    }

    /// Records refer to a document that serves no more, too: each of them is written.
    fn serve_later(&mut self, served: impl IntoIterator<Item = Served>) {
        for served in served {
            let named = |served: &Served| (served.decision.clone(), served.document);
            self.unserved.retain(|other| named(other) != named(&served));
            self.unserved.push(served);
        }
        while self.unserved.len() > UNSERVED_MAX {
            let Served { decision, .. } = self.unserved.remove(0);
            tracing::error!(decision, "how a decision served is not in the journal, and will not be");
        }
    }

    /// Makes a frame of it.
    fn add(&mut self, entry: &Entry, reply: Option<Reply>) -> Result<(), Unkept> {
        if let Some(why) = self.fault.given_up {
            return Err(why);
        }
        let mut payload = std::mem::take(&mut self.payload);
        let made = self.beside.payload(entry, &mut payload);
        self.payload = payload;
        made.map_err(|error| self.note_beside(&error))?;
        self.make_room(self.payload.len(), GAP_ROOM_BYTES)?;
        let seq = self.segment.push(&mut self.group.frames, &self.payload);
        self.group.note_entry(entry, self.since_ns);
        if let Some(reply) = reply {
            self.group.urgent = true;
            self.group.replies.push((seq, reply));
        }
        Ok(())
    }

    /// A record of the journal's own, made by `pairs`.
    fn add_own(&mut self, kind: OwnKind, payload: &[u8]) -> Result<(), Unkept> {
        if let Some(why) = self.fault.given_up {
            return Err(why);
        }
        self.make_room(payload.len(), 0)?;
        self.segment.push(&mut self.group.frames, payload);
        self.group.note(EntryKind::ALL.len() + kind as usize, self.shared.now_ns());
        self.group.urgent = true;
        Ok(())
    }

    /// A segment that has room for it, and for `spare` bytes more. An empty one takes whatever comes.
    fn make_room(&mut self, payload: usize, spare: u64) -> Result<(), Unkept> {
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
            None => Err(self.fault.rotation.unwrap_or(Unkept::Full)),
        }
    }

    /// What lanes and gauges see of the group.
    fn publish(&self) {
        self.shared.pending_since_ns.store(self.group.since_ns, Ordering::Relaxed);
        self.shared.counters.pending.store(self.group.records, Ordering::Relaxed);
    }

    fn write_or_commit(&mut self) {
        let now = self.shared.now_ns();
        let due = now.saturating_sub(self.group.since_ns) >= nanoseconds(self.settings.sync);
        if self.group.is_empty() {
        } else if self.group.urgent || due {
            self.commit();
        } else if let Err(error) = self.beside.flush() {
            self.forgo(&error);
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

    /// Brings all that was taken to the disk, and tells those who wait for it. False: it is lost, and they are told that.
    fn commit(&mut self) -> bool {
        if self.group.is_empty() {
            return true;
        }
        // Keys that still wait are written anew after an error, so that a second try means something. A gap needs none.
        if self.group.beside
            && let Err(error) = self.beside.sync().or_else(|_| self.beside.sync())
        {
            self.forgo(&error);
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

    /// The group is on the disk.
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

    /// Never ahead of the disk, and not brought there itself: a stale one only says less.
    fn note_durable(&mut self) {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.segment.header.segment.to_le_bytes());
        bytes[8..].copy_from_slice(&self.segment.durable.bytes.to_le_bytes());
        if let Err(error) = self.disk.write_all_at(&self.durable, &bytes, 0) {
            tracing::debug!(%error, "the durable position of the journal was not noted");
        }
    }

    /// What is due beside the records themselves.
    fn tend(&mut self) {
        self.look_for_folder();
        self.retry();
        self.rotate_by_age();
        self.prepare_next();
        self.prepare_keys();
        self.tend_gap(false);
        self.tend_checkpoint(false);
        self.serve_unserved();
        self.tell_state();
    }

    fn serve_unserved(&mut self) {
        if self.unserved.is_empty() || self.fault.state(&self.segment, self.next.is_some()).is_some() {
            return;
        }
        self.since_ns = self.shared.now_ns();
        for served in std::mem::take(&mut self.unserved) {
            let _ = self.add_served(served, None);
        }
        self.commit();
    }

    /// The lanes are gone, or will be told that the journal is closed.
    fn finish(mut self) {
        self.shared.set_unkept(Some(Unkept::Closed));
        self.take_rings();
        self.commit();
        self.retry_now();
        self.serve_unserved();
        self.tend_gap(true);
        self.seal_last();
        self.tend_checkpoint(true);
        self.cut_last();
    }
}
