//! Verifies one segment: its header, frames and end.
//!
//! The header is checked against the previous segment, frames against each other, the end against the next
//! header and the checkpoints that sign its frames.

use super::{Finding, FindingKind, Run};
use crate::format::{Frame, HEADER_BYTES, Hash, Header, StartReason};
use crate::frames::{Found, Frames, Step};
use crate::gap_signature;
use crate::log::{LogError, frames_at, segment_path};
use crate::merkle::MerkleTree;
use crate::record_facts::RecordFacts;
use crate::segment_scan::{Broken, seqs_of};
use std::fs::File;
use std::io;
use std::ops::Range;

/// The state of reading a segment.
#[derive(Default)]
struct Walk {
    segment: u64,
    first_seq: u64,
    seqs: Range<u64>,
    key: Option<[u8; 32]>,
    /// Frames after this many do not count.
    counted: Option<u64>,
    /// Data from here on was never acknowledged. None: all was.
    promised: Option<u64>,
    /// The number of the next frame. None: the header is lost, and the first frame states it.
    expected: Option<u64>,
    /// The leaf of the previous frame. None: it is invalid.
    last: Option<Hash>,
    tree: MerkleTree,
    /// A finding was reported.
    broken: bool,
    /// No valid frame follows the finding.
    tail_broken: bool,
    /// The offset where valid frames end.
    end: u64,
}

impl Walk {
    fn index(&self, seq: u64) -> u64 {
        seq.saturating_sub(self.first_seq)
    }

    /// A finding at the position of the next frame.
    fn here(&self, offset: u64, what: FindingKind) -> Finding {
        let frame = self.expected.map(|seq| self.index(seq));
        Finding { frame, seq: self.expected, offset: Some(offset), ..Finding::of_segment(self.segment, what) }
    }
}

impl Run<'_> {
    pub(super) fn segment(&mut self, place: usize) -> Result<(), LogError> {
        let listed = &self.log.listing.segments[place];
        let path = segment_path(self.log.folder(), listed.number);
        let synced = self.log.listing.durable_bytes(place);
        let mut frames = frames_at(&path, synced.filter(|_| self.live))?;
        let bytes = frames.end();
        self.verified.segments += 1;
        let mut walk = match &listed.header {
            Ok(header) => {
                self.check_header(listed.number, header);
                self.walk_of(header, bytes)
            }
            Err(error) => {
                let finding = Finding::of_segment(listed.number, FindingKind::Header(*error));
                self.verified.add(Finding { offset: Some(0), ..finding });
                headless(listed.number)
            }
        };
        walk.promised = synced;
        self.walk(&mut walk, &mut frames).map_err(LogError::at(&path))?;
        self.check_end(&walk);
        if !walk.broken {
            self.walked = Some((walk.segment, walk.tree.root()));
        }
        Ok(())
    }

    fn walk_of(&mut self, header: &Header, bytes: u64) -> Walk {
        let segment = header.segment;
        let abandoned =
            self.log.listing.header_after(segment).filter(|next| next.began == StartReason::Abandoned);
        let leaf = header.leaf();
        self.compare_notes(segment, 0, Some(&leaf));
        Walk {
            segment,
            first_seq: header.first_seq,
            seqs: seqs_of(header, bytes),
            key: Some(header.key),
            counted: abandoned.map(|next| next.prev_frames),
            expected: Some(header.first_seq),
            last: Some(leaf),
            tree: [leaf].iter().collect(),
            end: HEADER_BYTES as u64,
            ..Walk::default()
        }
    }

    fn check_header(&mut self, number: u64, header: &Header) {
        let mut add =
            |what| self.verified.add(Finding { offset: Some(0), ..Finding::of_segment(number, what) });
        if header.segment != number {
            add(FindingKind::OtherSegment(header.segment));
        }
        if self.log.node().is_some_and(|node| node != header.node) {
            add(FindingKind::OtherNode);
        }
        if header.segment != number {
            return;
        }
        let (zero, first) = (Hash::default(), number == 1);
        if first && (header.prev_frames, header.prev, header.prev_root) != (0, zero, zero) {
            add(FindingKind::HeaderLink);
        }
        // If the previous segment's file exists, its own pass checks the end.
        if let Some(before) = self.log.listing.retired(number.wrapping_sub(1)) {
            let says = (header.prev_frames, header.prev_root, header.prev);
            if self.log.listing.segment(before.segment).is_none()
                && says != (before.frames, before.root, before.last)
            {
                add(FindingKind::HeaderLink);
            }
        }
    }

    fn walk(&mut self, walk: &mut Walk, frames: &mut Frames<File>) -> io::Result<()> {
        loop {
            if walk.counted.is_some_and(|counted| walk.expected.is_some_and(|seq| walk.index(seq) >= counted))
            {
                return Ok(());
            }
            let (at, why) = match frames.step()? {
                Step::Frame { at, frame } => {
                    self.frame(walk, at, &frame);
                    walk.end = frames.at();
                    continue;
                }
                Step::Bad { at, error } => (at, Broken::Format(error)),
                Step::End { at } => match frames.not_zero(at)? {
                    None => return Ok(()),
                    Some(_) => (at, Broken::Hole),
                },
            };
            // Its pages may have reached the disk out of order: whole frames after it mean nothing.
            if walk.promised.is_some_and(|promised| at >= promised) {
                self.verified.unfinished = Some(walk.here(at, FindingKind::Frame(why)));
                return Ok(());
            }
            let found = frames.search(at + 1, walk.seqs.clone())?;
            // All frames of a sealed segment are present: data was added.
            let all = self
                .log
                .listing
                .end_of(walk.segment)
                .map(|(frames, ..)| walk.first_seq.saturating_add(frames));
            let what = if all.is_some() && all == walk.expected {
                FindingKind::Trailing
            } else {
                FindingKind::Frame(why)
            };
            self.verified.add(walk.here(at, what));
            (walk.broken, walk.last) = (true, None);
            match found {
                Found::At(next) => frames.move_to(next),
                Found::Nothing | Found::GaveUp => {
                    if found == Found::GaveUp {
                        self.verified.add(walk.here(at, FindingKind::Unsearchable));
                    }
                    walk.tail_broken = true;
                    return Ok(());
                }
            }
        }
    }

    /// Checks that a whole frame is the expected one.
    fn frame(&mut self, walk: &mut Walk, at: u64, frame: &Frame<'_>) {
        let expected = *walk.expected.get_or_insert_with(|| {
            walk.first_seq = frame.seq;
            frame.seq
        });
        // If the previous frame is invalid, its number is lost too.
        let follows =
            frame.seq == expected || (walk.last.is_none() && frame.seq.checked_sub(1) == Some(expected));
        let mut what = None;
        if !follows {
            what = Some(FindingKind::Sequence { expected, found: frame.seq });
        } else if walk.last.is_some_and(|last| last != frame.prev) {
            what = Some(FindingKind::Link);
        }
        let index = walk.index(frame.seq);
        let found = what.is_some();
        if let Some(what) = what {
            walk.broken = true;
            self.verified.add(Finding { seq: Some(frame.seq), ..walk.here(at, what) });
        }
        if frame.seq < expected {
            // It is too late; the next frame is still linked to the one before it.
            return;
        }
        if let Some(key) = &walk.key
            && gap_signature::is_gap(frame.payload)
            && !gap_signature::is_signed(frame.payload, &frame.prev, key)
        {
            self.verified.add(Finding { seq: Some(frame.seq), ..walk.here(at, FindingKind::GapSignature) });
        }
        if self.whole
            && let Some(record) = RecordFacts::of(frame.payload, frame.seq, walk.segment)
        {
            self.note_facts(record);
        }
        let leaf = frame.leaf();
        walk.tree.push(&leaf);
        self.verified.frames += u64::from(!found);
        self.verified.unsigned += 1;
        walk.expected = Some(frame.seq.saturating_add(1));
        walk.last = Some(leaf);
        self.compare_notes(walk.segment, index + 1, Some(&leaf));
    }

    /// Compares the notes that sign up to here. None: the frames are invalid, which was reported.
    fn compare_notes(&mut self, segment: u64, frames: u64, leaf: Option<&Hash>) {
        while let Some((place, note)) = self.notes.pop_up_to(segment, frames, &mut self.verified) {
            let here = (note.open, note.open_frames) == (segment, frames);
            if here && leaf.is_some_and(|leaf| *leaf != note.open_last) {
                self.verified.add(Finding::of_note(&note, place, FindingKind::NoteLast));
            }
            self.check_roots(place, &note);
        }
    }

    fn check_end(&mut self, walk: &Walk) {
        let frames = walk.expected.map_or(0, |seq| walk.index(seq));
        let here = |what| Finding { frame: Some(frames), ..walk.here(walk.end, what) };
        let ends = self.log.listing.end_of(walk.segment);
        if let Some((expected, root, last)) = ends
            && !walk.tail_broken
            && walk.expected.is_some()
        {
            if frames < expected {
                self.verified.add(here(FindingKind::Short { expected, found: frames }));
            } else if !walk.broken && frames > expected {
                self.verified.add(Finding { frame: Some(expected), ..here(FindingKind::Extra { expected }) });
            } else if !walk.broken && (walk.tree.root() != root || walk.last != Some(last)) {
                self.verified.add(Finding { frame: frames.checked_sub(1), ..here(FindingKind::Root) });
            }
        }
        let next = self.log.listing.header_after(walk.segment);
        if let (Some(next), Some(expected)) = (next, walk.expected)
            && next.first_seq != expected
            && !walk.broken
            && Some(frames) == ends.map(|(frames, ..)| frames)
        {
            let what = FindingKind::FirstSeq { expected, found: next.first_seq };
            self.verified.add(Finding { offset: Some(0), ..Finding::of_segment(walk.segment + 1, what) });
        }
        let durable = self.log.durable().filter(|durable| durable.segment == walk.segment);
        if let Some(durable) = durable.filter(|durable| durable.bytes > walk.end && !walk.tail_broken) {
            self.verified.add(here(FindingKind::Durable(durable.bytes)));
        }
        self.notes_beyond(walk, frames);
    }

    /// Reports notes that sign more frames than there are.
    fn notes_beyond(&mut self, walk: &Walk, found: u64) {
        let mut reported = walk.tail_broken || walk.expected.is_none();
        while let Some((place, note)) = self.notes.pop_up_to(walk.segment, u64::MAX, &mut self.verified) {
            if note.open == walk.segment && !reported {
                // Once: later notes sign the same and more.
                reported = true;
                let what = FindingKind::NoteFrames { expected: note.open_frames, found };
                self.verified.add(Finding {
                    note: Some(place),
                    frame: Some(found),
                    ..walk.here(walk.end, what)
                });
            }
            self.check_roots(place, &note);
        }
    }
}

/// State for a segment whose header is lost.
fn headless(segment: u64) -> Walk {
    Walk { segment, seqs: 0..u64::MAX, broken: true, end: HEADER_BYTES as u64, ..Walk::default() }
}
