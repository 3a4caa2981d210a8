//! Recovery: finds the end of the log and how the last writer left it.
//!
//! Cuts an unacknowledged tail. Copies earlier damage to quarantine and leaves it in place for `verify` to
//! report. In both cases the log continues in a new segment.

mod notes;
mod report;

use crate::disk::{Disk, found, write_whole};
use crate::error::JournalError;
use crate::folder::Folder;
use crate::format::{FRAME_HEAD_BYTES, FormatError, HEADER_BYTES, Hash, Header, StartReason};
use crate::frames::{Found, Frames, Step};
use crate::log::Log;
use crate::merkle::{MerkleTree, leaf_of_segment};
use crate::segment_scan::{Broken, Scan, ScanFault, scan, seqs_of};
use crate::writer::PreviousSegment;
pub(crate) use notes::Notes;
use report::Cut;
pub(crate) use report::Report;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// While this file exists, a tail was cut and has no record yet.
const CUT: &str = "recovery";
/// More than any segment contains.
const FRAMES_MAX: u64 = SEGMENT_BYTES_MAX / FRAME_HEAD_BYTES as u64;
const SEGMENT_BYTES_MAX: u64 = 4 << 30;

/// The end of the log.
#[derive(Debug)]
pub(crate) struct Tail {
    pub(crate) before: PreviousSegment,
    pub(crate) began: StartReason,
    pub(crate) reports: Vec<Report>,
}

/// How far the log was known to be on disk.
#[derive(Clone, Copy, Debug, Default)]
struct DurableEnd {
    segment: u64,
    bytes: u64,
    frames: u64,
}

pub(crate) fn find_tail(disk: &dyn Disk, folder: &Folder, notes: &Notes) -> Result<Tail, JournalError> {
    let numbers = folder.segment_numbers().map_err(JournalError::at(&folder.segments()))?;
    let known = Known::read(disk, folder, notes);
    let Some(last) = numbers.last().copied() else {
        let nothing =
            Tail { before: PreviousSegment::nothing(), began: StartReason::First, reports: Vec::new() };
        return Ok(behind(nothing, known));
    };
    let path = folder.segment(last);
    let tail = || {
        let file = File::open(&path)?;
        let length = file.metadata()?.len();
        match scan(file)? {
            Ok(found) => left(disk, folder, &found, length, promised(disk, folder, notes, last)),
            Err(error @ FormatError::Newer(_)) => Err(io::Error::other(error)),
            Err(error) => headless(disk, folder, &numbers, error),
        }
    };
    Ok(behind(tail().map_err(JournalError::at(&path))?, known))
}

/// How far the log is known to have come, from sources other than the segments.
#[derive(Clone, Copy, Debug)]
struct Known {
    segment: u64,
    next_seq: u64,
}

impl Known {
    fn read(disk: &dyn Disk, folder: &Folder, notes: &Notes) -> Known {
        let durable = durable(disk, folder).map_or(0, |(segment, _)| segment);
        let noted = notes.last.as_ref().map_or(0, |note| note.open);
        let mut known = Known { segment: durable.max(noted), next_seq: 1 };
        match Log::open(folder.path()) {
            Ok(log) => {
                for retired in log.retired() {
                    known.segment = known.segment.max(retired.segment);
                    known.next_seq = known.next_seq.max(retired.first_seq.saturating_add(retired.frames));
                }
            }
            // The writer does not need the list, and readers report the error.
            Err(error) => tracing::warn!(%error, "cannot read the journal's list of retired segments"),
        }
        known
    }
}

/// Skips the numbers of segments that existed and are missing now, and of their records.
fn behind(mut tail: Tail, known: Known) -> Tail {
    let last = tail.before.segment;
    tail.before.next_seq = tail.before.next_seq.max(known.next_seq);
    if known.segment > last {
        let why = format!("segments {} to {} are missing", last + 1, known.segment);
        tracing::error!(%why, "segments of the journal are missing; it continues after them");
        let most = (known.segment - last).saturating_mul(FRAMES_MAX);
        let next_seq = tail.before.next_seq.saturating_add(most);
        tail.before = PreviousSegment { segment: known.segment, next_seq, ..PreviousSegment::nothing() };
        tail.began = StartReason::Recovered;
        tail.reports.push(Report::Quarantined { segment: known.segment, why });
    }
    tail
}

/// Removes the mark once the cut has its record.
pub(crate) fn forget_cut(disk: &dyn Disk, folder: &Folder) -> io::Result<()> {
    found(disk.remove(&folder.file(CUT))).map(drop)
}

/// A segment and its durable bytes.
fn durable(disk: &dyn Disk, folder: &Folder) -> Option<(u64, u64)> {
    let bytes = disk.read(&folder.file("durable")).ok()?;
    let ([segment, bytes], _) = bytes.as_chunks::<8>().0.split_first_chunk::<2>()?;
    Some((u64::from_le_bytes(*segment), u64::from_le_bytes(*bytes)))
}

fn promised(disk: &dyn Disk, folder: &Folder, notes: &Notes, segment: u64) -> DurableEnd {
    let bytes = durable(disk, folder).filter(|(of, _)| *of == segment).map_or(0, |(_, bytes)| bytes);
    let frames = notes.last.as_ref().filter(|note| note.open == segment).map_or(0, |note| note.open_frames);
    DurableEnd { segment, bytes, frames }
}

fn left(
    disk: &dyn Disk,
    folder: &Folder,
    found: &Scan,
    length: u64,
    promised: DurableEnd,
) -> io::Result<Tail> {
    let segment = found.header.segment;
    let mut tail = Tail { before: before(found), began: StartReason::Recovered, reports: Vec::new() };
    let whole = found.end >= promised.bytes && found.frames >= promised.frames;
    let cut_before = Cut::read(disk, &folder.file(CUT)).filter(|cut| cut.segment == promised.segment);
    match found.fault {
        None if whole && length == found.end && cut_before.is_none() => tail.began = StartReason::Reopened,
        None if whole => tail.reports.push(Report::Recovered(cut(disk, folder, found, 0, cut_before)?)),
        Some(
            fault @ (ScanFault::Torn { .. }
            | ScanFault::Corrupt { why: Broken::Hole | Broken::Format(_), .. }),
        ) if whole => {
            if let ScanFault::Corrupt { at, .. } = fault {
                // Pages reached the disk out of order when the machine stopped. `durable` may be older than
                // the data, so the part after the hole goes to quarantine.
                tracing::warn!(
                    segment,
                    at,
                    "the journal's tail has a hole; it is cut, with a copy in quarantine"
                );
                set_aside(disk, folder, segment)?;
            }
            let bytes = used_bytes(&folder.segment(segment), found.end)?;
            tail.reports.push(Report::Recovered(cut(disk, folder, found, bytes, cut_before)?));
        }
        fault => {
            let why = describe(fault, found, promised);
            tracing::error!(segment, %why, "a segment of the journal is damaged; a copy is in quarantine");
            set_aside(disk, folder, segment)?;
            tail.reports.push(Report::Quarantined { segment, why });
            if whole {
                // After everything that was acknowledged, and not the result of a crash.
                let bytes = used_bytes(&folder.segment(segment), found.end)?;
                tail.reports.push(Report::Recovered(cut(disk, folder, found, bytes, cut_before)?));
            } else {
                tail.before.next_seq = behind_all(&folder.segment(segment), found, promised)?;
            }
        }
    }
    Ok(tail)
}

fn before(found: &Scan) -> PreviousSegment {
    let Scan { header, frames, next_seq, last, root, .. } = found;
    PreviousSegment {
        segment: header.segment,
        last: *last,
        root: *root,
        frames: *frames,
        next_seq: *next_seq,
    }
}

fn describe(fault: Option<ScanFault>, found: &Scan, promised: DurableEnd) -> String {
    let lost = || format!("{} of its frames are valid and {} were on disk", found.frames, promised.frames);
    match fault {
        Some(ScanFault::Corrupt { at, why, .. }) => format!("at byte {at}: {why}"),
        Some(ScanFault::Torn { at, error, .. }) => {
            format!("at byte {at}: {}", error.map_or_else(lost, |error| error.to_string()))
        }
        None => lost(),
    }
}

/// Writes the mark first, so that a crash in between does not hide the cut.
fn cut(disk: &dyn Disk, folder: &Folder, found: &Scan, bytes: u64, before: Option<Cut>) -> io::Result<Cut> {
    let segment = found.header.segment;
    let bytes = bytes + before.map_or(0, |before| before.cut_bytes);
    let cut = Cut { segment, kept_frames: found.frames, cut_bytes: bytes };
    write_whole(disk, &folder.file(CUT), &cut.text())?;
    let file = disk.open(&folder.segment(segment))?;
    disk.truncate(&file, found.end)?;
    disk.fdatasync(&file)?;
    Ok(cut)
}

fn set_aside(disk: &dyn Disk, folder: &Folder, segment: u64) -> io::Result<()> {
    let aside = folder.quarantined(segment);
    if let Some(parent) = aside.parent() {
        flyball_core::private_folder(parent)?;
        disk.copy(&folder.segment(segment), &aside)?;
        disk.sync_dir(parent)?;
    }
    Ok(())
}

/// The bytes from `from` to the last non-zero one.
fn used_bytes(path: &Path, from: u64) -> io::Result<u64> {
    let file = File::open(path)?;
    let mut end = file.metadata()?.len();
    let mut piece = vec![0; 64 << 10];
    while end > from {
        let start = end.saturating_sub(piece.len() as u64).max(from);
        let part = &mut piece[..(end - start) as usize];
        file.read_exact_at(part, start)?;
        if let Some(place) = part.iter().rposition(|byte| *byte != 0) {
            return Ok(start + place as u64 + 1 - from);
        }
        end = start;
    }
    Ok(0)
}

/// The first unused number after all records of the segment.
///
/// Counts valid records, those after damage, and those that were acknowledged and are lost: the next
/// segment's first number reveals them.
fn behind_all(path: &Path, found: &Scan, promised: DurableEnd) -> io::Result<u64> {
    let mut frames = Frames::new(File::open(path)?, None)?;
    let seqs = seqs_of(&found.header, frames.end());
    let (mut next, mut end) = (found.next_seq, found.end);
    frames.move_to(found.end);
    loop {
        match frames.step()? {
            Step::Frame { frame, .. } => {
                next = next.max(frame.seq.saturating_add(1).min(seqs.end));
                end = frames.at();
            }
            Step::End { at } | Step::Bad { at, .. } => match frames.search(at + 1, seqs.clone())? {
                Found::At(at) => frames.move_to(at),
                Found::Nothing => break,
                Found::GaveUp => {
                    next = seqs.end;
                    break;
                }
            },
        }
    }
    // No frame is shorter than its head.
    let lost = promised.bytes.saturating_sub(end).div_ceil(FRAME_HEAD_BYTES as u64);
    let noted = found.header.first_seq.saturating_add(promised.frames);
    Ok(next.saturating_add(lost).max(noted))
}

/// Moves a segment with a damaged header aside; the log continues after a hole that `verify` reports.
fn headless(disk: &dyn Disk, folder: &Folder, numbers: &[u64], error: FormatError) -> io::Result<Tail> {
    let Some((&segment, earlier)) = numbers.split_last() else { return Err(io::Error::other(error)) };
    tracing::error!(segment, %error, "a segment of the journal is damaged and was moved to quarantine");
    set_aside(disk, folder, segment)?;
    let path = folder.segment(segment);
    let length = std::fs::metadata(&path)?.len();
    disk.remove(&path)?;
    disk.sync_dir(&folder.segments())?;
    let mut next_seq = 1;
    if let Some(number) = earlier.last()
        && let Ok(found) = scan(File::open(folder.segment(*number))?)?
    {
        // It cannot have contained more frames than that.
        next_seq = seqs_of(&Header { first_seq: found.next_seq, ..found.header }, length).end;
    }
    let (last, root) = (Hash::default(), Hash::default());
    let before = PreviousSegment { segment, last, root, frames: 0, next_seq };
    let why = error.to_string();
    Ok(Tail { before, began: StartReason::Recovered, reports: vec![Report::Quarantined { segment, why }] })
}

/// The roots of all segments before the last: from headers, or from the root file if those are missing.
pub(crate) fn roots(disk: &dyn Disk, folder: &Folder, before: &PreviousSegment) -> io::Result<MerkleTree> {
    let noted = found(disk.read(&folder.file("roots")))?.unwrap_or_default();
    let mut roots: Vec<Hash> = noted.as_chunks::<32>().0.iter().map(|root| Hash(*root)).collect();
    roots.resize(before.segment.saturating_sub(1) as usize, Hash::default());
    for number in folder.segment_numbers()? {
        let mut bytes = [0; HEADER_BYTES];
        File::open(folder.segment(number))?.read_exact_at(&mut bytes, 0)?;
        if let Ok(header) = Header::decode(&bytes)
            && let Some(root) = number.checked_sub(2).and_then(|place| roots.get_mut(place as usize))
        {
            *root = header.prev_root;
        }
    }
    Ok(roots.iter().map(leaf_of_segment).collect())
}
