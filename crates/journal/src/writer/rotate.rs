//! Rotation from one segment to the next.
//!
//! The next file is allocated ahead, so that a full disk is detected while there is still space. A segment
//! gets its name only once its header is on disk.

use super::fault::why;
use super::{PreviousSegment, Segment, Writer};
use crate::disk::Disk;
use crate::folder::Folder;
use crate::format::{Hash, Header, StartReason};
use crate::merkle::leaf_of_segment;
use flyball_core::Unavailable;
use flyball_core::nanos;
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
    /// Brings the full segment to disk before the next one starts. Without a next one, it stays open.
    pub(super) fn rotate(&mut self) {
        let number = self.segment.header.segment;
        let kept = self.commit();
        // The disk may have failed, and a new segment is already open.
        if !kept
            || self.segment.header.segment != number
            || (self.fault.rotation.is_some() && !self.retry_due())
        {
            return;
        }
        match self.begin_next(StartReason::Rotated) {
            Ok(()) => self.checkpoints.due = true,
            Err(error) => self.note_fault(&error),
        }
    }

    pub(super) fn rotate_by_age(&mut self) {
        let age = self.shared.now_ns().saturating_sub(self.segment.begun_ns);
        if age >= nanos(self.settings.segment_age)
            && !self.segment.is_empty()
            && self.fault.given_up.is_none()
        {
            self.rotate();
        }
    }

    /// Starts a segment after the durable part of this one, which is cut there.
    pub(super) fn begin_next(&mut self, began: StartReason) -> io::Result<()> {
        let before = self.segment.as_previous();
        let next = self.next_behind(&before, began).inspect_err(|error| {
            // The next header may exist and state where this one ends, so nothing more is written here.
            if self.folder.segment(before.segment + 1).try_exists().unwrap_or(true) {
                self.fault.given_up = Some(why(error));
            }
        })?;
        let old = std::mem::replace(&mut self.segment, next);
        if let Err(error) = self.note_sealed(before.segment, &before.root) {
            tracing::warn!(%error, "cannot note a segment's root; the next header has it");
        }
        self.fault.rotation = None;
        self.shared.counters.segment.store(self.segment.header.segment, Ordering::Relaxed);
        self.note_durable();
        self.cut(&old);
        Ok(())
    }

    fn next_behind(&mut self, before: &PreviousSegment, began: StartReason) -> io::Result<Segment> {
        let file = match self.next.take() {
            Some(file) => file,
            None => create(&*self.disk, &self.folder, self.settings.segment_bytes)?,
        };
        let header = before.header(began, &self.node, self.shared.wall.now_ns());
        let (capacity, now) = (self.settings.segment_bytes, self.shared.now_ns());
        begun(&*self.disk, &self.folder, file, header, capacity, now)
    }

    /// Stores the root. Roots outlive their segments: checkpoints cover all of them.
    pub(super) fn note_sealed(&mut self, segment: u64, root: &Hash) -> io::Result<()> {
        self.sealed.push(&leaf_of_segment(root));
        self.disk.write_all_at(&self.roots, &root.0, (segment - 1) * root.0.len() as u64)
    }

    /// Truncates unused space. If that fails, the next header still states the end.
    fn cut(&self, segment: &Segment) {
        if let Err(error) = self.disk.truncate(&segment.file, segment.durable.bytes) {
            tracing::warn!(%error, segment = segment.header.segment, "cannot truncate a segment of the journal");
        }
    }

    pub(super) fn prepare_next(&mut self) {
        if self.next.is_some()
            || self.fault.given_up == Some(Unavailable::Gone)
            || (self.fault.rotation.is_some() && !self.retry_due())
            // The periodic check may be a quarter of a second old: nothing is created in a folder that replaced ours.
            || !self.in_place()
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
                    tracing::warn!(%error, "cannot create the next segment of the journal; using the rest of the open one");
                }
                self.fault.rotation = Some(why(&error));
                self.retry_later();
            }
        }
    }

    /// At close: all records are in sealed segments, followed by an empty one.
    pub(super) fn seal_last(&mut self) {
        if !self.segment.is_empty()
            && self.fault.given_up.is_none()
            && let Err(error) = self.begin_next(StartReason::Rotated)
        {
            tracing::warn!(%error, "cannot seal the last segment of the journal; the next process does it");
        }
    }

    /// Removes the prepared file. An open segment without spare space marks a clean close.
    pub(super) fn cut_last(&mut self) {
        self.next = None;
        if self.fault.given_up == Some(Unavailable::Gone) {
            return;
        }
        if let Err(error) = self.disk.remove(&self.folder.next())
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "cannot remove an unused segment of the journal");
        }
        if self.fault.given_up.is_none() {
            self.cut(&self.segment);
            if let Err(error) = self.disk.fdatasync(&self.segment.file) {
                tracing::warn!(%error, "cannot mark the journal as closed on disk");
            }
        }
    }
}
