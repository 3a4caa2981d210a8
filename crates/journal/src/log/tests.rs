//! Reading of a journal built byte by byte from the format.

mod golden;

use super::*;
use crate::format::{HEADER_BYTES, Header, StartReason, frame_into};
use crate::merkle::{self, MerkleTree};
use crate::note::Checkpoint;
use flyball_core::DecisionId;
use minicbor::Encoder;
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::fs;

pub(crate) const NODE: [u8; 16] = [0xab; 16];
/// 2026-11-16 00:00 UTC.
pub(crate) const START_NS: i64 = 1_794_787_200_000_000_000;
const HOUR_NS: i64 = 3_600_000_000_000;

/// A segment of the sample.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) header: Header,
    pub(crate) bytes: Vec<u8>,
    /// The offset of each frame; the last is their end.
    pub(crate) places: Vec<usize>,
    pub(crate) leaves: Vec<Hash>,
}

impl Made {
    pub(crate) fn frames(&self) -> u64 {
        self.leaves.len() as u64 - 1
    }
}

pub(crate) struct Sample {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) segments: Vec<Made>,
    pub(crate) notes: Vec<(Checkpoint, String)>,
    pub(crate) key: Ed25519KeyPair,
    now_ns: i64,
}

impl Sample {
    pub(crate) fn new() -> Sample {
        let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut sample = Sample { folder, segments: Vec::new(), notes: Vec::new(), key, now_ns: START_NS };
        sample.begin(StartReason::First, 0);
        sample
    }

    pub(crate) fn public(&self) -> [u8; 32] {
        self.key.public_key().as_ref().try_into().unwrap()
    }

    pub(crate) fn open(&mut self) -> &mut Made {
        self.segments.last_mut().unwrap()
    }

    /// Starts the next segment. `dropped` frames at the end of the previous one do not count.
    pub(crate) fn begin(&mut self, began: StartReason, dropped: usize) {
        self.now_ns += HOUR_NS;
        let (mut prev, mut prev_root, mut prev_frames, mut first_seq) =
            (Hash::default(), Hash::default(), 0, 1);
        if let Some(before) = self.segments.last() {
            let leaves = &before.leaves[..before.leaves.len() - dropped];
            prev = *leaves.last().unwrap();
            prev_root = leaves.iter().collect::<MerkleTree>().root();
            prev_frames = leaves.len() as u64 - 1;
            first_seq = before.header.first_seq + prev_frames;
        }
        let header = Header {
            node: NODE,
            boot: [2; 16],
            key: self.public(),
            segment: self.segments.len() as u64 + 1,
            first_seq,
            prev,
            prev_root,
            prev_frames,
            created_unix_ns: self.now_ns,
            began,
        };
        let (bytes, leaves) = (header.encode().to_vec(), vec![header.leaf()]);
        self.segments.push(Made { header, bytes, places: vec![HEADER_BYTES], leaves });
    }

    pub(crate) fn push(&mut self, payload: &[u8]) -> u64 {
        let made = self.open();
        let seq = made.header.first_seq + made.frames();
        let prev = *made.leaves.last().unwrap();
        let leaf = frame_into(&mut made.bytes, seq, &prev, payload);
        made.leaves.push(leaf);
        made.places.push(made.bytes.len());
        seq
    }

    pub(crate) fn checkpoint(&mut self) {
        self.now_ns += 1_000_000_000;
        let mut roots = MerkleTree::default();
        let (open, sealed) = self.segments.split_last().unwrap();
        // As the headers state them: not all frames of an abandoned segment count.
        let stated = self.segments.iter().skip(1).map(|made| made.header.prev_root);
        stated.for_each(|root| roots.push(&merkle::leaf_of_segment(&root)));
        let checkpoint = Checkpoint {
            node: NODE,
            sealed: sealed.len() as u64,
            root: roots.root(),
            open: open.header.segment,
            open_frames: open.frames(),
            open_last: *open.leaves.last().unwrap(),
            unix_ms: self.now_ns / 1_000_000,
        };
        let note = checkpoint.sign(&self.key);
        self.notes.push((checkpoint, note));
    }

    /// Writes the sample and opens it.
    pub(crate) fn log(&self) -> Log {
        let folder = self.folder.path();
        fs::create_dir_all(folder.join("segments")).unwrap();
        let key = Hash(self.public());
        let node = format!(r#"{{"format":1,"node":"{}","key":"{key}"}}"#, "ab".repeat(16));
        fs::write(folder.join("node.json"), node).unwrap();
        for made in &self.segments {
            fs::write(segment_path(folder, made.header.segment), &made.bytes).unwrap();
        }
        let notes: String = self.notes.iter().map(|(_, note)| note.as_str()).collect();
        fs::write(notes_path(folder), notes).unwrap();
        Log::open(folder).unwrap()
    }

    pub(crate) fn note_durable(&self, segment: u64, bytes: u64) {
        let durable = [segment.to_le_bytes(), bytes.to_le_bytes()].concat();
        fs::write(self.folder.path().join("durable"), durable).unwrap();
    }
}

pub(crate) fn record(kind: &str, id: DecisionId, more: usize) -> Vec<u8> {
    let mut map = Encoder::new(Vec::new());
    map.map(3).unwrap().str("kind").unwrap().str(kind).unwrap().str("id").unwrap();
    map.bytes(&id.0.to_be_bytes()).unwrap().str("more").unwrap().bytes(&vec![5; more]).unwrap();
    map.into_writer()
}

fn id(number: u128) -> DecisionId {
    DecisionId::new((START_NS / 1_000_000) as u64, number)
}

/// Three segments; the last two frames of the second are repeated in the third.
fn sample() -> Sample {
    let mut sample = Sample::new();
    for number in 0..4 {
        sample.push(&record("decision", id(number), 20));
    }
    sample.begin(StartReason::Rotated, 0);
    for number in 4..8 {
        sample.push(&record("decision", id(number), 20));
    }
    sample.begin(StartReason::Abandoned, 2);
    for number in 6..9 {
        sample.push(&record("decision", id(number), 20));
    }
    sample.push(&record("outcome", id(1), 0));
    sample
}

fn read(log: &Log, from: u64, durable_only: bool) -> Vec<(u64, u64, u64)> {
    let mut read = Vec::new();
    log.read(from, durable_only, |placed| {
        read.push((placed.segment, placed.index, placed.frame.seq));
        ControlFlow::Continue(())
    })
    .unwrap();
    read
}

#[test]
fn frames_come_once_and_in_order_over_segments_that_were_given_up() {
    let sample = sample();
    let log = sample.log();
    let seqs: Vec<u64> = read(&log, 0, false).iter().map(|(.., seq)| *seq).collect();
    assert_eq!(seqs, (1..=10).collect::<Vec<u64>>());
    assert_eq!(read(&log, 6, false), [(2, 1, 6), (3, 0, 7), (3, 1, 8), (3, 2, 9), (3, 3, 10)]);
    assert_eq!(read(&log, 11, false), []);
    let frames: Vec<u64> = log.segments().unwrap().iter().map(|facts| facts.frames).collect();
    assert_eq!(frames, [4, 2, 4]);
}

#[test]
fn a_visitor_that_has_enough_is_told_where_to_read_on() {
    let sample = sample();
    let log = sample.log();
    let reached = log.read(3, false, |placed| {
        if placed.frame.seq == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let reached = reached.unwrap();
    assert_eq!((reached.next_seq, reached.stopped), (6, true));
}

#[test]
fn what_may_still_be_lost_is_left_out_on_demand_and_a_torn_tail_ends_the_log() {
    let mut sample = sample();
    let second = sample.open().places[2] as u64;
    sample.open().bytes.truncate(second as usize + 60);
    sample.note_durable(3, sample.segments[2].places[1] as u64);
    let log = sample.log();
    assert_eq!(read(&log, 6, true), [(2, 1, 6), (3, 0, 7)]);
    assert_eq!(read(&log, 6, false), [(2, 1, 6), (3, 0, 7), (3, 1, 8)]);
    sample.note_durable(2, 300);
    assert_eq!(read(&Log::open(log.folder()).unwrap(), 6, true), [(2, 1, 6)]);
}

#[test]
fn frames_that_are_added_are_there_after_a_refresh() {
    let mut sample = sample();
    let mut log = sample.log();
    sample.push(&record("undelivered", id(2), 0));
    sample.begin(StartReason::Rotated, 0);
    sample.push(&record("undelivered", id(3), 0));
    sample.log();
    log.refresh().unwrap();
    assert_eq!(read(&log, 10, false), [(3, 3, 10), (3, 4, 11), (4, 0, 12)]);
}

#[test]
fn broken_and_missing_places_are_errors_that_name_them() {
    let mut sample = sample();
    sample.segments[1].bytes[300] ^= 1;
    let log = sample.log();
    let error = log.read(0, false, |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, LogError::Broken { segment: 2, index: 0, offset: 256, .. }), "{error}");
    fs::remove_file(segment_path(log.folder(), 2)).unwrap();
    let log = Log::open(log.folder()).unwrap();
    let error = log.read(0, false, |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, LogError::Missing(2)), "{error}");
    assert_eq!(read(&log, 7, false).len(), 4);
    assert!(matches!(Log::open(&log.folder().join("segments")), Err(LogError::NoJournal(_))));
}

#[test]
fn records_that_were_moved_to_parquet_are_an_error_and_never_passed_over() {
    let sample = sample();
    let log = sample.log();
    let facts = log.segments().unwrap();
    let SegmentFacts { segment, first_seq, frames, root, last, .. } = &facts[0];
    let line = format!(
        "{{\"segment\":{segment},\"first_seq\":{first_seq},\"frames\":{frames},\"root\":\"{root}\",\"last\":\"{last}\"}}\n"
    );
    fs::create_dir_all(log.folder().join("state")).unwrap();
    fs::write(log.folder().join("state/retired.json"), line).unwrap();
    fs::remove_file(segment_path(log.folder(), 1)).unwrap();
    let log = Log::open(log.folder()).unwrap();
    let error = log.read(3, false, |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, LogError::Moved(1)), "{error}");
    assert_eq!(read(&log, 5, false).len(), 6);
}

#[test]
fn a_segment_before_one_in_quarantine_is_sealed() {
    let sample = sample();
    let log = sample.log();
    fs::remove_file(segment_path(log.folder(), 2)).unwrap();
    let facts = Log::open(log.folder()).unwrap().segments().unwrap();
    let sealed: Vec<(u64, u64, bool)> =
        facts.iter().map(|facts| (facts.segment, facts.frames, facts.sealed)).collect();
    assert_eq!(sealed, [(1, 4, true), (3, 4, false)]);
}

#[test]
fn a_decision_is_found_with_all_that_was_told_about_it() {
    let sample = sample();
    let log = sample.log();
    let finds = log.find(id(1));
    let found: Vec<(u64, u64)> = finds.records.iter().map(|kept| (kept.segment, kept.seq)).collect();
    assert_eq!(found, [(1, 2), (3, 10)]);
    assert!(finds.broken.is_empty());
}

#[test]
fn a_decision_of_a_clock_that_was_far_ahead_is_found_too() {
    let mut sample = sample();
    let ahead = DecisionId::new(START_NS as u64 / 1_000_000 + 1_000_000_000, 1);
    sample.segments.truncate(1);
    sample.push(&record("decision", ahead, 0));
    sample.begin(StartReason::Rotated, 0);
    assert_eq!(sample.log().find(ahead).records.len(), 1);
}
