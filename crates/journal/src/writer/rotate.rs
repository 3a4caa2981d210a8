//! From one segment to the next. The file of the next is made ahead, so that a full disk is known while there is still room.
//! A segment appears under its name only once its header is on the disk.

use super::fault::why;
use super::{Before, Segment, Writer};
use crate::disk::Disk;
use crate::folder::Folder;
use crate::format::{Began, Hash, Header};
use crate::merkle::leaf_of_segment;
use crate::shared::nanoseconds;
use flyball_core::Unkept;
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

pub(super) fn create(disk: &dyn Disk, folder: &Folder, bytes: u64) -> io::Result<File> {
    disk.create(&folder.next(), bytes)
}

pub(super) fn begun(
    disk: &dyn Disk,
    folder: &Folder,
    file: File,
    header: Header,
    capacity: u64,
    now_ns: u64,
) -> io::Result<Segment> {
    disk.write_all_at(&file, &header.encode(), 0)?;
    disk.fdatasync(&file)?;
    disk.rename(&folder.next(), &folder.segment(header.segment))?;
    disk.sync_dir(&folder.segments())?;
    Ok(Segment::new(file, header, capacity, now_ns))
}

impl Writer {
    /// The open one was full: all of it is on the disk before the next one begins. Where there can be none, it stays.
    pub(super) fn rotate(&mut self) {
        let number = self.segment.header.segment;
        let kept = self.commit();
        // The disk may have failed, and a new one is here already.
        if !kept
            || self.segment.header.segment != number
            || (self.fault.rotation.is_some() && !self.retry_due())
        {
            return;
        }
        match self.begin_next(Began::Rotated) {
            Ok(()) => self.checkpoints.due = true,
            Err(error) => self.note_fault(&error),
        }
    }

    pub(super) fn rotate_by_age(&mut self) {
        let age = self.shared.now_ns().saturating_sub(self.segment.begun_ns);
        if age >= nanoseconds(self.settings.segment_age)
            && !self.segment.is_empty()
            && self.fault.given_up.is_none()
        {
            self.rotate();
        }
    }

    /// Begins a segment behind what is on the disk of this one, which is cut there.
    pub(super) fn begin_next(&mut self, began: Began) -> io::Result<()> {
        let before = self.segment.as_before();
        let next = self.next_behind(&before, began).inspect_err(|error| {
            // Its header may be there, and says where this one ends: nothing more is written here.
            if self.folder.segment(before.segment + 1).try_exists().unwrap_or(true) {
                self.fault.given_up = Some(why(error));
            }
        })?;
        let old = std::mem::replace(&mut self.segment, next);
        if let Err(error) = self.note_sealed(before.segment, &before.root) {
            tracing::warn!(%error, "a segment's root was not noted; the next header has it");
        }
        self.fault.rotation = None;
        self.shared.counters.segment.store(self.segment.header.segment, Ordering::Relaxed);
        self.note_durable();
        self.cut(&old);
        Ok(())
    }

    fn next_behind(&mut self, before: &Before, began: Began) -> io::Result<Segment> {
        let file = match self.next.take() {
            Some(file) => file,
            None => create(&*self.disk, &self.folder, self.settings.segment_bytes)?,
        };
        let header = before.header(began, &self.node, self.shared.wall.now_ns());
        let (capacity, now) = (self.settings.segment_bytes, self.shared.now_ns());
        begun(&*self.disk, &self.folder, file, header, capacity, now)
    }

    /// Roots outlive their segments: checkpoints are over all of them.
    pub(super) fn note_sealed(&mut self, segment: u64, root: &Hash) -> io::Result<()> {
        self.sealed.push(&leaf_of_segment(root));
        self.disk.write_all_at(&self.roots, &root.0, (segment - 1) * root.0.len() as u64)
    }

    /// What a segment does not need is given back. Where that fails, the next header still says where it ends.
    fn cut(&self, segment: &Segment) {
        if let Err(error) = self.disk.truncate(&segment.file, segment.durable.bytes) {
            tracing::warn!(%error, segment = segment.header.segment, "a journal's segment was not cut to its length");
        }
    }

    pub(super) fn prepare_next(&mut self) {
        if self.next.is_some()
            || self.fault.given_up == Some(Unkept::Gone)
            || (self.fault.rotation.is_some() && !self.retry_due())
        {
            return;
        }
        match create(&*self.disk, &self.folder, self.settings.segment_bytes) {
            Ok(file) => {
                self.next = Some(file);
                self.fault.rotation = None;
            }
            Err(error) => {
                if self.fault.rotation.is_none() {
                    tracing::warn!(%error, "the journal's next segment cannot be made; the open one is used up");
                }
                self.fault.rotation = Some(why(&error));
                self.retry_later();
            }
        }
    }

    /// At the end: whatever was recorded stands in sealed segments, before one that is empty.
    pub(super) fn seal_last(&mut self) {
        if !self.segment.is_empty()
            && self.fault.given_up.is_none()
            && let Err(error) = self.begin_next(Began::Rotated)
        {
            tracing::warn!(%error, "the journal's last segment is not sealed; the next process does it");
        }
    }

    /// What was made ahead is given back. Cut to its length, the open one says that it was closed, and not left.
    pub(super) fn cut_last(&mut self) {
        self.next = None;
        if self.fault.given_up == Some(Unkept::Gone) {
            return;
        }
        if let Err(error) = self.disk.remove(&self.folder.next())
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "a journal's unused segment was not removed");
        }
        if self.fault.given_up.is_none() {
            self.cut(&self.segment);
            if let Err(error) = self.disk.fdatasync(&self.segment.file) {
                tracing::warn!(%error, "whether the journal was closed is not on the disk");
            }
        }
    }
}
