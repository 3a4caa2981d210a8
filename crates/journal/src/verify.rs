//! Verifies a log: every frame, link, segment and checkpoint.
//!
//! Reports every failure, not only the first. Reads each byte once, in order, and stores only a few hashes.
//! Changes nothing.

mod finding;
mod notes;
mod segment;
mod side_files;

pub use finding::{Finding, FindingKind, NoteOrigin};
pub(crate) use notes::NoteReader;

use crate::format::{FormatError, Frame, Hash, Header};
use crate::log::{Log, LogError, notes_path};
use crate::merkle::{MerkleTree, leaf_of_segment};
use notes::Streams;
use serde::Serialize;
use side_files::SideFiles;
use std::fs::File;
use std::ops::ControlFlow;
use std::path::Path;

/// Findings beyond this are counted, not stored.
const FINDINGS_MAX: usize = 1000;

#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// Only this segment, without side files. Checkpoints are still checked against all segments' roots.
    pub segment: Option<u64>,
    /// A note from outside the journal.
    pub checkpoint: Option<String>,
    /// The key that must have signed every checkpoint.
    ///
    /// None: the one named in the headers, which an attacker who can rewrite the whole log can replace.
    pub key: Option<[u8; 32]>,
    /// The log is a copy without the key file.
    pub without_keys: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Valid frames.
    pub frames: u64,
    pub segments: u64,
    /// Segments that left the directory; their roots were checked.
    pub retired: u64,
    /// Checked notes, including the outside one.
    pub checkpoints: u64,
    /// How far checkpoints sign the log. None: nothing is signed.
    pub signed: Option<Signed>,
    /// Frames after that: only a later checkpoint can reveal a change.
    pub unsigned: u64,
    /// Side files: referenced blobs, and subjects with personal data or erasures.
    pub blobs: u64,
    pub subjects: u64,
    pub findings: Vec<Finding>,
    /// Further findings that are not stored.
    pub findings_beyond: u64,
    /// The unacknowledged remains of a stopped writer; the next one cuts them.
    pub unfinished: Option<Finding>,
}

/// All segments before this one, and this many of its frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Signed {
    pub segment: u64,
    pub frames: u64,
}

impl Verified {
    pub fn holds(&self) -> bool {
        self.findings.is_empty()
    }

    /// A valid note. Notes come in the order of what they sign.
    fn note(&mut self, note: &crate::Checkpoint) {
        let signs = Signed { segment: note.open, frames: note.open_frames };
        self.signed = self.signed.max(Some(signs));
        self.unsigned = 0;
    }

    fn add(&mut self, finding: Finding) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.findings_beyond += 1;
        }
    }
}

impl Log {
    /// Verifies the log. `progress` receives the number of finished segments and the total; it may stop the run.
    pub fn verify(
        &self,
        options: &VerifyOptions,
        progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Verified, LogError> {
        let mut run = Run::begin(self, options)?;
        run.check_retired();
        if run.whole {
            run.note_indexed();
        }
        let total = self.listing.segments.len() as u64;
        for place in 0..self.listing.segments.len() {
            run.missing_before(place);
            if options.segment.is_none_or(|segment| segment == self.listing.segments[place].number) {
                run.segment(place)?;
            }
            if progress(place as u64 + 1, total).is_break() {
                return Ok(run.verified);
            }
        }
        run.after_last();
        if run.whole && !options.without_keys {
            run.check_subjects()?;
        }
        match run.notes.failed() {
            Some(error) => Err(LogError::at(&notes_path(self.folder()))(error)),
            None => Ok(run.verified),
        }
    }
}

struct Run<'a> {
    log: &'a Log,
    verified: Verified,
    notes: Streams,
    /// The tree over the first segments' roots. None: one of them is unknown.
    roots: Option<MerkleTree>,
    /// The writer's root file, for segments that are missing.
    noted_roots: Option<File>,
    /// The last fully read segment, and its root.
    walked: Option<(u64, Hash)>,
    /// A writer has the log open.
    live: bool,
    /// Also check side files: not if a single segment is selected.
    whole: bool,
    side_files: SideFiles,
}

impl<'a> Run<'a> {
    fn begin(log: &'a Log, options: &VerifyOptions) -> Result<Run<'a>, LogError> {
        let mut verified = Verified { retired: log.retired().len() as u64, ..Verified::default() };
        let notes = Streams::open(log, options, &mut verified)?;
        let noted_roots = File::open(log.folder().join("roots")).ok();
        let (roots, walked) = (Some(MerkleTree::default()), None);
        let (live, side_files) = (is_live(log.folder()), SideFiles::default());
        let whole = options.segment.is_none();
        Ok(Run { log, verified, notes, roots, noted_roots, walked, live, whole, side_files })
    }

    /// Reports missing numbers between this segment and the previous one.
    fn missing_before(&mut self, place: usize) {
        let listing = &self.log.listing;
        let number = listing.segments[place].number;
        let first = place.checked_sub(1).map_or(1, |before| listing.segments[before].number + 1);
        self.missing(first, number);
        self.pass_before(number);
    }

    /// Reports segments from `first` up to `end`, except retired ones.
    fn missing(&mut self, first: u64, end: u64) {
        let log = self.log;
        let retired = log.retired().iter().map(|retired| retired.segment);
        let inside = retired.filter(|number| (first..end).contains(number));
        let mut from = first;
        for number in inside.chain([end]) {
            if from < number {
                let what =
                    FindingKind::Missing { until: number - 1, quarantined: quarantined(log.folder(), from) };
                self.verified.add(Finding::of_segment(from, what));
            }
            from = number + 1;
        }
    }

    /// Checks what the log states beyond the last existing segment.
    fn after_last(&mut self) {
        let last = self.log.listing.segments.last().map_or(0, |listed| listed.number);
        let retired = self.log.retired().last().map_or(0, |retired| retired.segment);
        let durable = self.log.durable().map_or(0, |durable| durable.segment);
        let known = last.max(retired).max(durable);
        self.missing(last + 1, known + 1);
        self.pass_before(known + 1);
        let mut until = known;
        while let Some((place, note)) = self.notes.pop_before(u64::MAX, &mut self.verified) {
            self.verified.note(&note);
            if note.open > until {
                let what = FindingKind::Missing { until: note.open, quarantined: false };
                self.verified.add(Finding { note: Some(place), ..Finding::of_segment(until + 1, what) });
                until = note.open;
            }
        }
        self.unsigned(known);
    }

    /// Reports sealed segments that no note signs.
    ///
    /// The last of them may still wait for its note: it is written right after the next header, and a writer
    /// may have been stopped, or be working, between the two.
    fn unsigned(&mut self, last: u64) {
        let signed = self.verified.signed.map_or(0, |signed| signed.segment);
        if signed + 1 < last {
            let what = FindingKind::Unsigned { until: last - 1 };
            self.verified.add(Finding::of_segment(signed.max(1), what));
        }
    }

    /// Checks the roots signed by notes whose open segment is before this one.
    fn pass_before(&mut self, number: u64) {
        while let Some((place, note)) = self.notes.pop_before(number, &mut self.verified) {
            self.check_roots(place, &note);
        }
    }

    fn check_roots(&mut self, place: NoteOrigin, note: &crate::Checkpoint) {
        if note.sealed.checked_add(1) != Some(note.open) {
            self.verified.add(Finding::of_note(note, place, FindingKind::NoteShape));
            return;
        }
        self.verified.note(note);
        self.grow_to(note.sealed);
        let Some(roots) = &self.roots else { return };
        if roots.root() == note.root {
            self.notes.fits = self.notes.fits.max(note.sealed);
        } else {
            let (fits, sealed) = (self.notes.fits, note.sealed);
            // Once: every later note has the same fault.
            self.roots = None;
            let what = FindingKind::NoteRoot { fits, sealed };
            self.verified.add(Finding { note: Some(place), ..Finding::of_segment(fits + 1, what) });
        }
    }

    fn grow_to(&mut self, count: u64) {
        while self.roots.as_ref().is_some_and(|roots| roots.count() < count) {
            let number = self.roots.as_ref().map_or(0, MerkleTree::count) + 1;
            match (self.root_of(number), &mut self.roots) {
                (Some(root), Some(roots)) => roots.push(&leaf_of_segment(&root)),
                (_, roots) => *roots = None,
            }
        }
    }

    /// The segment's root from the next header, or from another source.
    fn root_of(&self, number: u64) -> Option<Hash> {
        let walked = || self.walked.filter(|(walked, _)| *walked == number).map(|(_, root)| root);
        let stated = self.log.listing.end_of(number).map(|(_, root, _)| root).or_else(walked);
        stated.or_else(|| noted_root(self.noted_roots.as_ref()?, number))
    }

    /// Checks that the list of retired segments can be compaction's work.
    ///
    /// Anyone who can write to the directory can write that list, so it excuses only what compaction does:
    /// removing the start of a log, in order.
    fn check_retired(&mut self) {
        let listing = &self.log.listing;
        let first = listing.segments.first().map(|listed| listed.number);
        for (place, retired) in listing.retired.iter().enumerate() {
            let number = retired.segment;
            if listing.segment(number).is_some() {
                // Compaction was stopped before it could remove the file.
                continue;
            }
            let mut add = |what| self.verified.add(Finding::of_segment(number, what));
            if let Some(before) = first.filter(|first| *first < number) {
                add(FindingKind::RetiredInside { before });
            }
            let listed = retired.first_seq.saturating_add(retired.frames);
            let next = listing.retired.get(place + 1).filter(|next| next.segment == number + 1);
            let header = || listing.header_after(number).map(|header| header.first_seq);
            if let Some(found) = next.map(|next| next.first_seq).or_else(header)
                && found != listed
            {
                add(FindingKind::RetiredSeq { listed, found });
            }
        }
    }
}

/// Verifies that these frames, such as those of a Parquet file, are all of a segment, in order, under this root.
pub fn verify_frames<'a>(
    header: &[u8],
    frames: impl IntoIterator<Item = Frame<'a>>,
    root: &Hash,
) -> Result<Vec<Finding>, FormatError> {
    let header = Header::decode(header)?;
    let mut last = header.leaf();
    let mut tree: MerkleTree = [last].iter().collect();
    let mut findings = Vec::new();
    let mut expected = header.first_seq;
    for (index, frame) in frames.into_iter().enumerate() {
        let what = if frame.seq != expected {
            Some(FindingKind::Sequence { expected, found: frame.seq })
        } else {
            (frame.prev != last).then_some(FindingKind::Link)
        };
        if let Some(what) = what
            && findings.len() < FINDINGS_MAX
        {
            let of_segment = Finding::of_segment(header.segment, what);
            findings.push(Finding { frame: Some(index as u64), seq: Some(frame.seq), ..of_segment });
        }
        expected = frame.seq.saturating_add(1);
        last = frame.leaf();
        tree.push(&last);
    }
    if findings.is_empty() && tree.root() != *root {
        findings.push(Finding::of_segment(header.segment, FindingKind::Root));
    }
    Ok(findings)
}

pub(crate) fn noted_root(file: &File, number: u64) -> Option<Hash> {
    let mut root = Hash::default();
    let at = number.checked_sub(1)?.checked_mul(32)?;
    let read = crate::frames::Source::read_at(file, at, &mut root.0).ok()?;
    (read == 32 && root != Hash::default()).then_some(root)
}

fn quarantined(folder: &Path, number: u64) -> bool {
    folder.join("quarantine").join(format!("{number:016}.fbj")).exists()
}

/// Whether a writer holds the lock.
fn is_live(folder: &Path) -> bool {
    use rustix::fs::{FlockOperation, flock};
    let Ok(file) = File::open(folder.join("lock")) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
}

#[cfg(test)]
mod tests;
