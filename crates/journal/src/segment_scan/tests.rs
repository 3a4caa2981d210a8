//! Segments after a crash, and segments with damage.

use super::*;
use crate::format::{FRAME_HEAD_BYTES, StartReason, frame_into};
use proptest::prelude::*;

fn header() -> Header {
    Header {
        node: [1; 16],
        boot: [2; 16],
        key: [3; 32],
        segment: 1,
        first_seq: 100,
        prev: Hash::default(),
        prev_root: Hash::default(),
        prev_frames: 0,
        created_unix_ns: 0,
        began: StartReason::First,
    }
}

/// A segment of this many frames, and their offsets; the last is the end.
fn segment(frames: u64) -> (Vec<u8>, Vec<u64>) {
    let mut bytes = header().encode().to_vec();
    let mut places = vec![bytes.len() as u64];
    let mut prev = header().leaf();
    for frame in 0..frames {
        prev = frame_into(&mut bytes, 100 + frame, &prev, &vec![frame as u8; 10 * frame as usize]);
        places.push(bytes.len() as u64);
    }
    (bytes, places)
}

fn scanned(bytes: &[u8]) -> Scan {
    scan(bytes).unwrap().unwrap()
}

#[test]
fn a_whole_segment_has_no_fault_with_and_without_the_zeros_behind_it() {
    let (mut bytes, places) = segment(5);
    let sealed = scanned(&bytes);
    assert_eq!((sealed.frames, sealed.end, sealed.next_seq, sealed.fault), (5, places[5], 105, None));
    bytes.resize(bytes.len() + 1_000_000, 0);
    assert_eq!(scanned(&bytes), sealed);
}

#[test]
fn a_header_that_does_not_hold_is_told_and_nothing_behind_it_is_read() {
    let (mut bytes, _) = segment(1);
    bytes[40] ^= 1;
    assert_eq!(scan(&bytes[..]).unwrap(), Err(FormatError::HeaderBroken));
    assert_eq!(scan(&b""[..]).unwrap(), Err(FormatError::NoSegment));
}

#[test]
fn a_hole_of_zeros_before_a_frame_is_damage_and_not_the_end() {
    let (mut bytes, places) = segment(5);
    bytes[places[2] as usize..places[3] as usize].fill(0);
    let scan = scanned(&bytes);
    let fault = ScanFault::Corrupt { at: places[2], next_valid: Some(places[3]), why: Broken::Hole };
    assert_eq!((scan.frames, scan.end, scan.fault), (2, places[2], Some(fault)));
}

#[test]
fn a_frame_in_a_wrong_place_is_damage() {
    let (bytes, places) = segment(5);
    let cut = |from: usize, to: usize| places[from] as usize..places[to] as usize;
    let removed = [&bytes[..places[2] as usize], &bytes[places[3] as usize..]].concat();
    let why = Broken::Sequence { expected: 102, found: 103 };
    let fault = ScanFault::Corrupt { at: places[2], next_valid: Some(places[2]), why };
    assert_eq!(scanned(&removed).fault, Some(fault));
    let mut relinked = bytes[..places[4] as usize].to_vec();
    let payload = &bytes[cut(4, 5)][FRAME_HEAD_BYTES..];
    frame_into(&mut relinked, 104, &Hash([9; 32]), payload);
    let fault = ScanFault::Corrupt { at: places[4], next_valid: Some(places[4]), why: Broken::Link };
    assert_eq!(scanned(&relinked).fault, Some(fault));
}

proptest! {
    #[test]
    fn a_tail_cut_anywhere_is_torn_and_keeps_every_frame_before_it(cut in 1u64..200, zeros in 0usize..300) {
        let (bytes, places) = segment(8);
        let end = places[8] - cut;
        let mut torn = bytes[..end as usize].to_vec();
        torn.resize(torn.len() + zeros, 0);
        let scan = scanned(&torn);
        let kept = places.iter().filter(|place| **place <= end).count() as u64 - 1;
        prop_assert_eq!((scan.frames, scan.end), (kept, places[kept as usize]));
        let is_torn = matches!(scan.fault, Some(ScanFault::Torn { at, .. }) if at == scan.end);
        // A cut between two frames, or inside the zeros of a head, leaves no trace.
        let left = torn[scan.end as usize..].iter().any(|byte| *byte != 0);
        prop_assert_eq!(is_torn, left);
        prop_assert!(left || scan.fault.is_none());
    }

    #[test]
    fn a_flipped_bit_before_the_last_frame_is_damage_at_its_frame(
        place in any::<prop::sample::Index>(), bit in 0u32..8,
    ) {
        let (mut bytes, places) = segment(8);
        let place = 256 + place.index(places[7] as usize - 256);
        bytes[place] ^= 1 << bit;
        let frame = places.iter().rposition(|start| *start <= place as u64).unwrap();
        let scan = scanned(&bytes);
        prop_assert_eq!(scan.frames, frame as u64);
        let at_it = matches!(
            scan.fault,
            Some(ScanFault::Corrupt { at, next_valid: Some(next), .. })
                if at == places[frame] && next == places[frame + 1]
        );
        prop_assert!(at_it, "{:?}", scan.fault);
    }
}
