//! Tampered logs: each change is located.

use super::*;
use crate::format::{HEADER_BYTES, StartReason, frame_into};
use crate::log::{Sample, record, segment_path};
use flyball_core::DecisionId;
use proptest::prelude::*;
use std::fs;

fn verify(log: &Log) -> Verified {
    log.verify(&VerifyOptions::default(), &mut |_, _| ControlFlow::Continue(())).unwrap()
}

/// One segment for each count, with that many frames, and a checkpoint after each segment's last frame.
fn sample(counts: &[usize]) -> Sample {
    let mut sample = Sample::new();
    for (place, count) in counts.iter().enumerate() {
        if place > 0 {
            sample.begin(StartReason::Rotated, 0);
        }
        for frame in 0..*count {
            sample.push(&record("decision", DecisionId(frame as u128), 7 * frame + place));
        }
        sample.checkpoint();
    }
    sample
}

/// Segment, frame and kind.
fn found(verified: &Verified) -> Vec<(Option<u64>, Option<u64>, FindingKind)> {
    verified.findings.iter().map(|finding| (finding.segment, finding.frame, finding.what.clone())).collect()
}

#[test]
fn a_log_as_it_was_written_holds() {
    let mut sample = sample(&[3, 0, 3]);
    sample.push(b"not on the disk");
    sample.push(b"nor this one");
    sample.begin(StartReason::Abandoned, 2);
    sample.push(b"again");
    sample.checkpoint();
    let verified = verify(&sample.log());
    assert_eq!(found(&verified), []);
    assert_eq!((verified.frames, verified.segments, verified.checkpoints), (7, 4, 4));
    assert_eq!((verified.signed, verified.unsigned), (Some(Signed { segment: 4, frames: 1 }), 0));
}

#[test]
fn segments_that_no_checkpoint_signs_are_a_finding_and_the_open_ones_frames_are_counted() {
    let mut sample = sample(&[3, 3, 3, 3]);
    sample.push(b"behind the last checkpoint");
    let verified = verify(&sample.log());
    assert_eq!((found(&verified), verified.unsigned), (vec![], 1));
    // A writer may have been stopped before it signed the sealed segment.
    sample.notes.truncate(3);
    let verified = verify(&sample.log());
    let signed = Some(Signed { segment: 3, frames: 3 });
    assert_eq!((found(&verified), verified.signed, verified.unsigned), (vec![], signed, 4));
    sample.notes.truncate(2);
    assert_eq!(found(&verify(&sample.log())), [(Some(2), None, FindingKind::Unsigned { until: 3 })]);
    sample.notes.clear();
    let verified = verify(&sample.log());
    assert_eq!(found(&verified), [(Some(1), None, FindingKind::Unsigned { until: 3 })]);
    assert_eq!((verified.signed, verified.unsigned), (None, 13));
}

#[test]
fn zeros_behind_the_frames_are_no_finding_and_other_bytes_are() {
    let mut sample = sample(&[3, 3]);
    for made in &mut sample.segments {
        made.bytes.resize(made.bytes.len() + 500, 0);
    }
    assert_eq!(found(&verify(&sample.log())), []);
    sample.segments[0].bytes[900] = 1;
    let verified = verify(&sample.log());
    assert_eq!(found(&verified), [(Some(1), Some(3), FindingKind::Trailing)]);
}

#[test]
fn a_frame_that_was_rewritten_with_its_checksum_is_found_by_its_link() {
    let mut sample = sample(&[4, 4]);
    let made = &mut sample.segments[0];
    let (start, end) = (made.places[1], made.places[2]);
    let mut forged = Vec::new();
    let length = end - start - crate::FRAME_HEAD_BYTES;
    frame_into(&mut forged, 2, &made.leaves[1], &vec![9; length]);
    made.bytes[start..end].copy_from_slice(&forged);
    assert_eq!(found(&verify(&sample.log())), [(Some(1), Some(2), FindingKind::Link)]);
}

#[test]
fn a_log_rewritten_from_somewhere_on_is_found_by_its_checkpoints() {
    let honest = sample(&[3, 3, 3]);
    let mut forged = sample(&[3]);
    for place in 1..3 {
        forged.begin(StartReason::Rotated, 0);
        for frame in 0..3 {
            forged.push(&record("decision", DecisionId(frame + 100), 7 * frame as usize + place));
        }
    }
    forged.notes = honest.notes;
    let verified = verify(&forged.log());
    let places: Vec<(Option<u64>, Option<u64>)> =
        verified.findings.iter().map(|finding| (finding.segment, finding.frame)).collect();
    assert_eq!(places, [(Some(2), Some(2)), (Some(3), Some(2)), (Some(2), None)]);
    assert_eq!(verified.findings[2].what, FindingKind::NoteRoot { fits: 1, sealed: 2 });
}

#[test]
fn a_checkpoint_from_elsewhere_finds_a_log_whose_own_were_removed_with_its_tail() {
    let mut sample = sample(&[3, 3]);
    let outside = sample.notes.pop().unwrap().1;
    sample.notes.clear();
    let end = sample.segments[1].places[1];
    sample.segments[1].bytes.truncate(end);
    let log = sample.log();
    assert_eq!(found(&verify(&log)), [(Some(1), None, FindingKind::Unsigned { until: 1 })]);
    let options = VerifyOptions { checkpoint: Some(outside), ..VerifyOptions::default() };
    let verified = log.verify(&options, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(found(&verified), [(Some(2), Some(1), FindingKind::NoteFrames { expected: 3, found: 1 })]);
    assert!(verified.findings[0].note.unwrap().outside);
    fs::remove_file(segment_path(log.folder(), 2)).unwrap();
    let verified =
        Log::open(log.folder()).unwrap().verify(&options, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(found(&verified), [(Some(2), None, FindingKind::Missing { until: 2, quarantined: false })]);
}

#[test]
fn checkpoints_of_another_key_or_journal_or_out_of_order_are_named() {
    let mut sample = sample(&[1, 1, 1]);
    let log = sample.log();
    let options = VerifyOptions { key: Some([9; 32]), ..VerifyOptions::default() };
    let verified = log.verify(&options, &mut |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!(verified.findings.len(), 4);
    assert_eq!(verified.findings[3].what, FindingKind::Unsigned { until: 2 });
    assert!(matches!(verified.findings[0].what, FindingKind::Note(crate::NoteError::OtherKey(_))));
    sample.notes.swap(0, 2);
    let verified = verify(&sample.log());
    let orders = verified.findings.iter().filter(|finding| finding.what == FindingKind::NoteOrder);
    assert_eq!(orders.map(|finding| finding.segment).collect::<Vec<_>>(), [Some(2), Some(1)]);
    sample.notes.swap(0, 2);
    sample.notes[1].0.node = [1; 16];
    sample.notes[1].1 = sample.notes[1].0.sign(&sample.key);
    assert_eq!(found(&verify(&sample.log())), [(Some(2), Some(0), FindingKind::NoteNode)]);
}

#[test]
fn segments_that_are_retired_are_not_missing_and_their_roots_are_checked() {
    let sample = sample(&[2, 2, 2, 2]);
    let log = sample.log();
    let facts = log.segments().unwrap();
    let retire = |changed: bool| {
        let mut listed = facts[..2].to_vec();
        if changed {
            listed[0].root = Hash([1; 32]);
        }
        list_retired(&log, &listed);
        verify(&Log::open(log.folder()).unwrap())
    };
    for number in [1, 2] {
        fs::remove_file(segment_path(log.folder(), number)).unwrap();
    }
    let verified = retire(false);
    assert_eq!((found(&verified), verified.retired, verified.frames), (vec![], 2, 4));
    let what = FindingKind::NoteRoot { fits: 0, sealed: 1 };
    assert_eq!(found(&retire(true)), [(Some(1), None, what)]);
}

fn list_retired(log: &Log, retired: &[crate::SegmentFacts]) {
    let line = |facts: &crate::SegmentFacts| {
        let crate::SegmentFacts { segment, first_seq, frames, root, last, .. } = facts;
        format!(
            "{{\"segment\":{segment},\"first_seq\":{first_seq},\"frames\":{frames},\"root\":\"{root}\",\"last\":\"{last}\",\"gone_unix_ns\":1}}\n"
        )
    };
    fs::create_dir_all(log.folder().join("state")).unwrap();
    let lines: String = retired.iter().map(line).collect();
    fs::write(log.folder().join("state/retired.json"), lines).unwrap();
}

#[test]
fn a_list_of_retired_segments_hides_no_hole_in_the_log_and_no_missing_end() {
    let sample = sample(&[2, 2, 2, 2]);
    for removed in [2, 4] {
        let log = sample.log();
        let facts = log.segments().unwrap();
        fs::remove_file(segment_path(log.folder(), removed)).unwrap();
        // All earlier ones are listed too, though their files exist.
        list_retired(&log, &facts[..removed as usize]);
        let verified = verify(&Log::open(log.folder()).unwrap());
        assert_eq!(found(&verified), [(Some(removed), None, FindingKind::RetiredInside { before: 1 })]);
    }
    let log = sample.log();
    let mut facts = log.segments().unwrap();
    facts[0].first_seq = 7;
    fs::remove_file(segment_path(log.folder(), 1)).unwrap();
    list_retired(&log, &facts[..1]);
    let what = FindingKind::RetiredSeq { listed: 9, found: 3 };
    assert_eq!(found(&verify(&Log::open(log.folder()).unwrap())), [(Some(1), None, what)]);
}

#[test]
fn a_list_of_retired_segments_may_be_of_any_length_and_half_a_last_line_does_not_count() {
    let sample = sample(&[2, 2]);
    let log = sample.log();
    let facts = log.segments().unwrap();
    // More than 64 MiB: the last line of a segment counts.
    list_retired(&log, &vec![facts[0].clone(); 400_000]);
    let path = log.folder().join("state/retired.json");
    assert!(fs::metadata(&path).unwrap().len() > 64 << 20);
    assert_eq!(Log::open(log.folder()).unwrap().retired().len(), 1);
    list_retired(&log, &facts);
    let mut bytes = fs::read(&path).unwrap();
    bytes.truncate(bytes.len() - 1);
    fs::write(&path, bytes).unwrap();
    assert_eq!(Log::open(log.folder()).unwrap().retired().len(), 1);
}

#[test]
fn a_torn_tail_behind_what_is_on_the_disk_is_unfinished_and_before_it_a_finding() {
    let mut sample = sample(&[2, 3]);
    sample.push(b"never synced");
    let (kept, end) = (sample.segments[1].places[3], sample.segments[1].places[4]);
    sample.segments[1].bytes.truncate(end - 1);
    sample.note_durable(2, kept as u64);
    let verified = verify(&sample.log());
    assert_eq!(found(&verified), []);
    assert_eq!(verified.unfinished.unwrap().frame, Some(3));
    sample.note_durable(2, end as u64);
    assert_eq!(found(&verify(&sample.log())).len(), 1);
}

#[test]
fn a_gap_record_is_signed_for_the_place_where_it_stands() {
    let gap = |signature: &[u8]| {
        let mut map = minicbor::Encoder::new(Vec::new());
        map.map(if signature.is_empty() { 3 } else { 4 }).unwrap();
        map.str("kind").unwrap().str("gap").unwrap().str("id").unwrap().bytes(&[0; 16]).unwrap();
        map.str("count").unwrap().u8(3).unwrap();
        if !signature.is_empty() {
            map.str("signature").unwrap().bytes(signature).unwrap();
        }
        map.into_writer()
    };
    let mut sample = Sample::new();
    let signed = |sample: &mut Sample| {
        let last = *sample.open().leaves.last().unwrap();
        gap(sample.key.sign(&[gap(&[]), last.0.to_vec()].concat()).as_ref())
    };
    let first = signed(&mut sample);
    sample.push(&first);
    let second = signed(&mut sample);
    sample.push(&second);
    assert_eq!(found(&verify(&sample.log())), []);
    sample.push(&gap(&[1; 64]));
    // One that was signed for another position covers nothing here.
    sample.push(&first);
    let wrong = |place| (Some(1), Some(place), FindingKind::GapSignature);
    assert_eq!(found(&verify(&sample.log())), [wrong(2), wrong(3)]);
}

#[test]
fn frames_from_elsewhere_are_checked_against_their_root() {
    let sample = sample(&[4]);
    let log = sample.log();
    let (header, root) = (log.header(1).unwrap(), log.segments().unwrap()[0].root);
    let mut kept: Vec<crate::StoredFrame> = Vec::new();
    log.read(0, false, |placed| {
        kept.push(placed.into());
        ControlFlow::Continue(())
    })
    .unwrap();
    let check = |kept: &[crate::StoredFrame]| {
        let frames = kept.iter().map(|kept| Frame { seq: kept.seq, prev: kept.prev, payload: &kept.payload });
        verify_frames(&header, frames, &root)
            .unwrap()
            .into_iter()
            .map(|finding| (finding.frame, finding.what))
            .collect::<Vec<_>>()
    };
    assert_eq!(check(&kept), []);
    assert_eq!(check(&kept[..3]), [(None, FindingKind::Root)]);
    kept.swap(1, 2);
    assert_eq!(check(&kept)[0], (Some(1), FindingKind::Sequence { expected: 2, found: 3 }));
}

/// A manipulation of a log.
#[derive(Clone, Debug)]
enum Tampering {
    Flip(prop::sample::Index, u8),
    FlipNote(prop::sample::Index, u8),
    DeleteFrame(prop::sample::Index),
    SwapFrames(prop::sample::Index),
    DeleteSegment(prop::sample::Index),
    Truncate(prop::sample::Index),
}

fn tampering() -> impl Strategy<Value = Tampering> {
    use prop::sample::Index;
    prop_oneof![
        (any::<Index>(), 0u8..8).prop_map(|(place, bit)| Tampering::Flip(place, bit)),
        (any::<Index>(), 0u8..8).prop_map(|(place, bit)| Tampering::FlipNote(place, bit)),
        any::<Index>().prop_map(Tampering::DeleteFrame),
        any::<Index>().prop_map(Tampering::SwapFrames),
        any::<Index>().prop_map(Tampering::DeleteSegment),
        any::<Index>().prop_map(Tampering::Truncate),
    ]
}

/// Selects a frame over all segments: segment and frame.
fn frame_at(sample: &Sample, place: &prop::sample::Index, spare: usize) -> Option<(usize, usize)> {
    let frames: Vec<(usize, usize)> = sample
        .segments
        .iter()
        .enumerate()
        .flat_map(|(segment, made)| {
            (0..(made.frames() as usize).saturating_sub(spare)).map(move |frame| (segment, frame))
        })
        .collect();
    (!frames.is_empty()).then(|| *place.get(&frames))
}

/// The segment and frame that the first finding must name; no finding may come earlier.
fn tamper(sample: &mut Sample, tampering: &Tampering) -> Option<(u64, Option<u64>)> {
    match tampering {
        Tampering::Flip(place, bit) => {
            let segment = place.index(sample.segments.len());
            let made = &mut sample.segments[segment];
            let byte = place.index(made.bytes.len());
            made.bytes[byte] ^= 1 << bit;
            let frame = made.places.iter().rposition(|start| *start <= byte);
            Some((segment as u64 + 1, frame.map(|frame| frame as u64)))
        }
        Tampering::DeleteFrame(place) => {
            let (segment, frame) = frame_at(sample, place, 0)?;
            let made = &mut sample.segments[segment];
            made.bytes.drain(made.places[frame]..made.places[frame + 1]);
            Some((segment as u64 + 1, Some(frame as u64)))
        }
        Tampering::SwapFrames(place) => {
            let (segment, frame) = frame_at(sample, place, 1)?;
            let made = &mut sample.segments[segment];
            let [first, second, end] = [0, 1, 2].map(|more| made.places[frame + more]);
            made.bytes[first..end].rotate_left(second - first);
            Some((segment as u64 + 1, Some(frame as u64)))
        }
        Tampering::Truncate(place) => {
            let (segment, frame) = frame_at(sample, place, 0)?;
            let made = &mut sample.segments[segment];
            made.bytes.truncate(made.places[frame]);
            Some((segment as u64 + 1, Some(frame as u64)))
        }
        Tampering::FlipNote(..) | Tampering::DeleteSegment(_) => None,
    }
}

proptest! {
    #[test]
    fn whatever_is_done_to_a_log_is_found_at_its_place(
        counts in prop::collection::vec(0usize..7, 1..5), done in tampering(),
    ) {
        let mut sample = sample(&counts);
        let expected = tamper(&mut sample, &done);
        let log = sample.log();
        match &done {
            Tampering::FlipNote(place, bit) => {
                let path = notes_path(log.folder());
                let mut bytes = fs::read(&path).unwrap();
                let byte = place.index(bytes.len());
                bytes[byte] ^= 1 << bit;
                fs::write(&path, bytes).unwrap();
                let lengths = sample.notes.iter().scan(0, |end, (_, note)| {
                    *end += note.len();
                    Some(*end)
                });
                let number = lengths.filter(|end| *end <= byte).count() as u64 + 1;
                let verified = verify(&Log::open(log.folder()).unwrap());
                let named = verified.findings.iter().filter_map(|finding| finding.note).any(|note| {
                    // A destroyed first line belongs to the note before it.
                    note.number == number || note.number + 1 == number
                });
                prop_assert!(named, "note {}: {:?}", number, verified.findings);
            }
            Tampering::DeleteSegment(place) => {
                let number = place.index(sample.segments.len()) as u64 + 1;
                fs::remove_file(segment_path(log.folder(), number)).unwrap();
                let verified = verify(&Log::open(log.folder()).unwrap());
                let what = FindingKind::Missing { until: number, quarantined: false };
                prop_assert_eq!(found(&verified), [(Some(number), None, what)]);
            }
            _ => {
                // A log without frames has nothing to delete.
                let Some((segment, frame)) = expected else { return Ok(()) };
                let verified = verify(&log);
                let first = verified.findings.first().map(|finding| (finding.segment, finding.frame));
                prop_assert_eq!(first, Some((Some(segment), frame)), "{:?}", verified.findings);
                prop_assert!(verified.findings.iter().all(|finding| finding.segment == Some(segment)), "{:?}", verified.findings);
            }
        }
    }

    #[test]
    fn any_bytes_in_place_of_a_segment_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut sample = sample(&[2, 2]);
        sample.segments[0].bytes.truncate(HEADER_BYTES);
        sample.segments[0].bytes.extend(&bytes);
        sample.segments[1].bytes = bytes;
        prop_assert!(!verify(&sample.log()).holds());
    }
}
