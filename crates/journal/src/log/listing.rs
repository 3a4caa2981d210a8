//! The contents of a journal's directory: segments, retired segments, durable end.

use super::{LogError, frames_at};
use crate::disk::found;
use crate::folder::{segment_numbers, segment_path};
use crate::format::{FormatError, HEADER_BYTES, Hash, Header, StartReason};
use crate::frames::Source;
use crate::note::unhex;
use crate::segment_scan::scan;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// Maximum size of `node.json` and of a line in the list of retired segments.
const SMALL_BYTES_MAX: u64 = 64 << 10;

/// The durable end of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    pub segment: u64,
    /// The durable length of the segment's file.
    pub bytes: u64,
}

/// A segment as described by its own header and the next one's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentFacts {
    pub segment: u64,
    pub first_seq: u64,
    /// Frames that count.
    pub frames: u64,
    /// The file's size with preallocated space.
    pub bytes: u64,
    pub began: StartReason,
    pub created_unix_ns: i64,
    /// Another segment follows it.
    pub sealed: bool,
    pub root: Hash,
    pub last: Hash,
}

/// A segment that compaction removed, as listed in `state/retired.json`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Retired {
    pub segment: u64,
    pub first_seq: u64,
    pub frames: u64,
    pub root: Hash,
    pub last: Hash,
    /// When its records were deleted. None: they are in Parquet.
    pub gone_unix_ns: Option<i64>,
}

pub(crate) struct Listed {
    pub(crate) number: u64,
    pub(crate) header: Result<Header, FormatError>,
}

impl Listed {
    pub(crate) fn header(&self) -> Result<&Header, LogError> {
        self.header.as_ref().map_err(|cause| LogError::Header { segment: self.number, cause: *cause })
    }
}

/// The journal's id, and the signing key.
type Node = ([u8; 16], [u8; 32]);

#[derive(Default)]
pub(crate) struct Listing {
    pub(crate) node: Option<Node>,
    /// The length of the checkpoint file. Read first: everything that checkpoints cover is on disk by then.
    pub(crate) notes_bytes: u64,
    pub(crate) durable: Option<Durable>,
    pub(crate) segments: Vec<Listed>,
    pub(crate) retired: Vec<Retired>,
}

pub(crate) fn notes_path(folder: &Path) -> PathBuf {
    folder.join("checkpoints")
}

impl Listing {
    pub(crate) fn read(folder: &Path) -> Result<Listing, LogError> {
        if !folder.join("segments").is_dir() {
            return Err(LogError::NoJournal(folder.to_owned()));
        }
        let mut listing = Listing { node: node(folder)?, ..Listing::default() };
        listing.refresh(folder)?;
        Ok(listing)
    }

    /// Reloads the listing. Headers never change, so known ones are not read again.
    pub(crate) fn refresh(&mut self, folder: &Path) -> Result<(), LogError> {
        let notes = notes_path(folder);
        self.notes_bytes =
            found(notes.metadata()).map_err(LogError::at(&notes))?.map_or(0, |facts| facts.len());
        self.durable = durable(folder)?;
        let mut known = std::mem::take(&mut self.segments).into_iter().peekable();
        for number in numbers(folder)? {
            while known.next_if(|listed| listed.number < number).is_some() {}
            let listed = match known.next_if(|listed| listed.number == number && listed.header.is_ok()) {
                Some(listed) => listed,
                None => Listed { number, header: header(folder, number)? },
            };
            self.segments.push(listed);
        }
        // After the files: compaction lists a segment before it removes its file, so a file that is already
        // gone is listed.
        self.retired = retired(folder)?;
        Ok(())
    }

    pub(crate) fn segment(&self, number: u64) -> Option<&Listed> {
        let place = self.segments.binary_search_by_key(&number, |listed| listed.number).ok()?;
        self.segments.get(place)
    }

    pub(crate) fn retired(&self, number: u64) -> Option<&Retired> {
        let place = self.retired.binary_search_by_key(&number, |retired| retired.segment).ok()?;
        self.retired.get(place)
    }

    /// The header of the segment after this number.
    pub(crate) fn header_after(&self, number: u64) -> Option<&Header> {
        self.segment(number + 1)?.header.as_ref().ok()
    }

    /// A segment's frames, root and last leaf: by the next header, or by the list of retired segments.
    pub(crate) fn end_of(&self, number: u64) -> Option<(u64, Hash, Hash)> {
        let next = self.header_after(number).map(|next| (next.prev_frames, next.prev_root, next.prev));
        next.or_else(|| self.retired(number).map(|retired| (retired.frames, retired.root, retired.last)))
    }

    /// The next segment's header, which states how this segment ended.
    pub(crate) fn next(&self, place: usize) -> Option<&Header> {
        let (listed, next) = (self.segments.get(place)?, self.segments.get(place + 1)?);
        next.header.as_ref().ok().filter(|_| listed.number + 1 == next.number)
    }

    /// How many frames of the segment count. None: unknown.
    pub(crate) fn counted(&self, place: usize) -> Option<u64> {
        self.next(place).map(|next| next.prev_frames)
    }

    /// The durable length of the segment. None: all of it, as always before the next one starts.
    pub(crate) fn durable_bytes(&self, place: usize) -> Option<u64> {
        let (durable, number) = (self.durable?, self.segments[place].number);
        if place + 1 < self.segments.len() {
            return None;
        }
        match number.cmp(&durable.segment) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some(durable.bytes),
            std::cmp::Ordering::Greater => Some(HEADER_BYTES as u64),
        }
    }

    /// Whether the segment's frames may end here: no source contradicts it.
    pub(crate) fn may_end(&self, place: usize, at: u64) -> bool {
        self.next(place).is_none() && self.durable_bytes(place).is_none_or(|bytes| at >= bytes)
    }

    /// Whether a partial frame is possible here: the offset is not known to be on disk.
    pub(crate) fn may_be_torn(&self, place: usize, at: u64) -> bool {
        self.next(place).is_none() && self.durable_bytes(place).is_some_and(|bytes| at >= bytes)
    }

    /// The last segment that starts at this number or before.
    pub(crate) fn first_with(&self, seq: u64) -> usize {
        let after = |listed: &Listed| listed.header.as_ref().is_ok_and(|header| header.first_seq > seq);
        let end = self.segments.iter().position(after).unwrap_or(self.segments.len());
        end.saturating_sub(1)
    }

    /// Fails if an earlier segment with frames from `from_seq` on is absent.
    pub(crate) fn gap_before(&self, place: usize, from_seq: u64) -> Result<(), LogError> {
        let listed = &self.segments[place];
        let first = listed.header()?.first_seq;
        let Some(before) = listed.number.checked_sub(1).filter(|number| *number > 0) else { return Ok(()) };
        let there = place > 0 && self.segments[place - 1].number == before;
        if there || first <= from_seq {
            return Ok(());
        }
        // Skipping it would lose its records for a reader that continues from here.
        Err(if self.retired(before).is_some() { LogError::Moved(before) } else { LogError::Missing(before) })
    }

    pub(crate) fn facts(&self, folder: &Path) -> Result<Vec<SegmentFacts>, LogError> {
        let mut facts = Vec::with_capacity(self.segments.len());
        for (place, listed) in self.segments.iter().enumerate() {
            let header = listed.header()?;
            let path = segment_path(folder, listed.number);
            let file = File::open(&path).map_err(LogError::at(&path))?;
            let bytes = file.metadata().map_err(LogError::at(&path))?.len();
            let (frames, root, last) = match self.next(place) {
                Some(next) => (next.prev_frames, next.prev_root, next.prev),
                None => {
                    let scan = scan(file).map_err(LogError::at(&path))?;
                    let scan = scan.map_err(|cause| LogError::Header { segment: listed.number, cause })?;
                    (scan.frames, scan.root, scan.last)
                }
            };
            facts.push(SegmentFacts {
                segment: listed.number,
                first_seq: header.first_seq,
                frames,
                bytes,
                began: header.began,
                created_unix_ns: header.created_unix_ns,
                // Also if the next one is in quarantine: nothing is ever added to this one.
                sealed: place + 1 < self.segments.len(),
                root,
                last,
            });
        }
        Ok(facts)
    }
}

fn numbers(folder: &Path) -> Result<Vec<u64>, LogError> {
    let path = folder.join("segments");
    segment_numbers(&path).map_err(LogError::at(&path))
}

fn header(folder: &Path, number: u64) -> Result<Result<Header, FormatError>, LogError> {
    let path = segment_path(folder, number);
    frames_at(&path, Some(HEADER_BYTES as u64))?.header().map_err(LogError::at(&path))
}

fn small(path: &Path) -> Result<Option<Vec<u8>>, LogError> {
    let facts = found(path.metadata()).map_err(LogError::at(path))?;
    if facts.is_some_and(|facts| facts.len() > SMALL_BYTES_MAX) {
        return Err(LogError::File {
            path: path.to_owned(),
            why: format!("it has more than {SMALL_BYTES_MAX} bytes"),
        });
    }
    found(fs::read(path)).map_err(LogError::at(path))
}

fn durable(folder: &Path) -> Result<Option<Durable>, LogError> {
    let path = folder.join("durable");
    let Some(file) = found(File::open(&path)).map_err(LogError::at(&path))? else { return Ok(None) };
    let read = || -> Result<[u8; 16], LogError> {
        let mut bytes = [0; 16];
        Source::read_at(&file, 0, &mut bytes).map_err(LogError::at(&path))?;
        Ok(bytes)
    };
    // The writer may be changing it now; two equal reads did not see a partial write.
    let mut bytes = read()?;
    for _ in 0..8 {
        let again = read()?;
        if again == bytes {
            break;
        }
        bytes = again;
    }
    let half = |place: usize| u64::from_le_bytes(*bytes[place..].first_chunk().expect("it has 16 bytes"));
    let durable = Durable { segment: half(0), bytes: half(8) };
    // Nothing was written to it yet.
    Ok(Some(durable).filter(|durable| durable.segment > 0))
}

fn node(folder: &Path) -> Result<Option<Node>, LogError> {
    #[derive(Deserialize)]
    struct NodeFile {
        node: String,
        key: String,
    }
    let path = folder.join("node.json");
    let Some(bytes) = small(&path)? else { return Ok(None) };
    let wrong = |why: String| LogError::File { path: path.clone(), why };
    let file: NodeFile = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    match (unhex(&file.node), unhex(&file.key)) {
        (Some(node), Some(key)) => Ok(Some((node, key))),
        _ => Err(wrong("its id or key is not lower-case hex of 16 and 32 bytes".to_owned())),
    }
}

/// Reads the list of retired segments: one JSON object a line, in order of writing.
///
/// A later line for a segment replaces an earlier one. A last line without newline was not written completely
/// and does not count.
fn retired(folder: &Path) -> Result<Vec<Retired>, LogError> {
    let path = folder.join("state").join("retired.json");
    let Some(file) = found(File::open(&path)).map_err(LogError::at(&path))? else { return Ok(Vec::new()) };
    let mut lines = BufReader::new(file);
    let (mut line, mut retired) = (Vec::new(), BTreeMap::new());
    loop {
        line.clear();
        lines.by_ref().take(SMALL_BYTES_MAX).read_until(b'\n', &mut line).map_err(LogError::at(&path))?;
        if line.last() != Some(&b'\n') {
            if line.len() as u64 == SMALL_BYTES_MAX {
                let why = format!("a line has more than {SMALL_BYTES_MAX} bytes");
                return Err(LogError::File { path, why });
            }
            return Ok(retired.into_values().collect());
        }
        let listed: Retired = serde_json::from_slice(&line)
            .map_err(|error| LogError::File { path: path.clone(), why: error.to_string() })?;
        retired.insert(listed.segment, listed);
    }
}
