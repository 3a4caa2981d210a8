//! Finds all records of one decision: its own and later annotations.

use super::{LocatedFrame, Log, LogError, frames_at, segment_path};
use crate::format::Hash;
use crate::frames::{Found, Step};
use crate::segment_scan::seqs_of;
use flyball_core::DecisionId;
use minicbor::Decoder;
use std::ops::ControlFlow;

/// More records than one decision can reasonably have.
const FINDS_MAX: usize = 10_000;
/// An id contains its creation time; clocks are set back by less than this.
const CLOCK_SLACK_NS: i64 = 3_600_000_000_000;

/// A frame that outlives the visit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFrame {
    pub segment: u64,
    pub index: u64,
    pub offset: u64,
    pub seq: u64,
    pub prev: Hash,
    pub leaf: Hash,
    pub payload: Vec<u8>,
}

impl From<&LocatedFrame<'_>> for StoredFrame {
    fn from(placed: &LocatedFrame<'_>) -> StoredFrame {
        let LocatedFrame { segment, index, offset, frame, leaf } = *placed;
        let (seq, prev, payload) = (frame.seq, frame.prev, frame.payload.to_vec());
        StoredFrame { segment, index, offset, seq, prev, leaf, payload }
    }
}

#[derive(Debug, Default)]
pub struct FoundRecords {
    /// In log order.
    pub records: Vec<StoredFrame>,
    /// Unreadable positions: there may be more records. Valid records after them are included.
    pub broken: Vec<LogError>,
}

/// The kind and id at the start of a record.
pub fn head_of_record(payload: &[u8]) -> Option<(&str, DecisionId)> {
    let mut decoder = Decoder::new(payload);
    decoder.map().ok()?;
    let kind = (decoder.str().ok()? == "kind").then(|| decoder.str().ok())??;
    let id = (decoder.str().ok()? == "id").then(|| decoder.bytes().ok())??;
    Some((kind, DecisionId(u128::from_be_bytes(id.try_into().ok()?))))
}

/// The time of a record, reading only its start.
pub fn time_of_record(payload: &[u8]) -> Option<i64> {
    let mut decoder = Decoder::new(payload);
    for _ in 0..decoder.map().ok()??.min(3) {
        if decoder.str().ok()? == "at" {
            return decoder.i64().ok();
        }
        decoder.skip().ok()?;
    }
    None
}

impl Log {
    /// Finds a decision's records. Reads segments older than the id only if the others have none.
    pub fn find(&self, id: DecisionId) -> FoundRecords {
        let made_ns = ((id.0 >> 80) as i64).saturating_mul(1_000_000);
        let ended = |place: usize| {
            let next = self.listing.next(place);
            next.is_some_and(|next| next.created_unix_ns.saturating_add(CLOCK_SLACK_NS) < made_ns)
        };
        let (before, after): (Vec<usize>, Vec<usize>) =
            (0..self.listing.segments.len()).partition(|place| ended(*place));
        let mut finds = FoundRecords::default();
        for places in [after, before] {
            places.into_iter().for_each(|place| self.find_in(place, id, &mut finds));
            if !finds.records.is_empty() {
                break;
            }
        }
        finds
    }

    fn find_in(&self, place: usize, id: DecisionId, finds: &mut FoundRecords) {
        let FoundRecords { records, broken } = finds;
        let mut visit = |placed: &LocatedFrame<'_>| {
            if head_of_record(placed.frame.payload).is_some_and(|(_, found)| found == id) {
                records.push(placed.into());
            }
            if records.len() >= FINDS_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        broken.extend(self.read_around(place, &mut visit));
    }

    /// Visits all whole frames of a segment, including those after damage; returns what could not be read.
    pub(crate) fn read_around(
        &self,
        place: usize,
        visit: &mut dyn FnMut(&LocatedFrame<'_>) -> ControlFlow<()>,
    ) -> Vec<LogError> {
        let read = self.read_segment(place, 0, false, visit);
        let Err(error) = read.and_then(|reached| match reached.stopped {
            true => Ok(()),
            false => self.hole_after(place, &reached),
        }) else {
            return Vec::new();
        };
        let behind = match error {
            LogError::Broken { offset, .. } => self.behind_damage(place, offset, visit),
            _ => Ok(()),
        };
        [Some(error), behind.err()].into_iter().flatten().collect()
    }

    /// Whole frames after a damaged position, whose links to earlier frames are lost.
    fn behind_damage(
        &self,
        place: usize,
        offset: u64,
        visit: &mut dyn FnMut(&LocatedFrame<'_>) -> ControlFlow<()>,
    ) -> Result<(), LogError> {
        let listed = &self.listing.segments[place];
        let (segment, header) = (listed.number, listed.header()?);
        let path = segment_path(self.folder(), segment);
        let mut frames = frames_at(&path, None)?;
        let mut seqs = seqs_of(header, frames.end());
        // The next segment repeats these frames.
        seqs.end = self.listing.next(place).map_or(seqs.end, |next| seqs.end.min(next.first_seq));
        frames.move_to(offset);
        loop {
            let at = match frames.step().map_err(LogError::at(&path))? {
                Step::Frame { at, frame } if seqs.contains(&frame.seq) => {
                    let (index, leaf) = (frame.seq - header.first_seq, frame.leaf());
                    if visit(&LocatedFrame { segment, index, offset: at, frame, leaf }).is_break() {
                        return Ok(());
                    }
                    continue;
                }
                Step::Frame { .. } => continue,
                Step::End { at } | Step::Bad { at, .. } => at,
            };
            match frames.search(at + 1, seqs.clone()).map_err(LogError::at(&path))? {
                Found::At(next) => frames.move_to(next),
                Found::Nothing | Found::GaveUp => return Ok(()),
            }
        }
    }
}
