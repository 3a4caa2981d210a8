//! The frame reader at the edges of its buffer, and the search after bad frames.

use super::*;
use crate::format::{Hash, frame_into};

fn bytes_of(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    let mut prev = Hash::default();
    for (place, payload) in payloads.iter().enumerate() {
        prev = frame_into(&mut bytes, place as u64 + 1, &prev, payload);
    }
    bytes
}

#[test]
fn frames_longer_than_the_buffer_and_across_its_edge_are_walked_whole() {
    let payloads: Vec<Vec<u8>> =
        [0, 200 << 10, 100 << 10, PAYLOAD_BYTES_MAX, 3].iter().map(|length| vec![7; *length]).collect();
    let mut bytes = bytes_of(&payloads);
    let end = bytes.len() as u64;
    bytes.extend_from_slice(&[0; 100]);
    let mut frames = Frames::new(&bytes[..], None).unwrap();
    for payload in &payloads {
        let Step::Frame { frame, .. } = frames.step().unwrap() else { panic!("a frame") };
        assert!(frame.payload == payload);
    }
    assert_eq!(frames.step().unwrap(), Step::End { at: end });
    assert!(frames.buffer.len() <= PAYLOAD_BYTES_MAX + FRAME_HEAD_BYTES);
}

#[test]
fn a_limit_inside_a_frame_makes_it_a_short_one() {
    let bytes = bytes_of(&[vec![1; 40], vec![2; 40]]);
    let limit = bytes.len() as u64 - 1;
    let mut frames = Frames::new(&bytes[..], Some(limit)).unwrap();
    assert!(matches!(frames.step().unwrap(), Step::Frame { .. }));
    let at = frames.at();
    assert_eq!(frames.step().unwrap(), Step::Bad { at, error: FormatError::Short });
}

#[test]
fn a_later_frame_is_found_at_its_very_place() {
    let mut bytes = bytes_of(&[vec![1; 300 << 10], vec![2; 40], vec![3; 40]]);
    let second = (HEADER_BYTES + FRAME_HEAD_BYTES + (300 << 10)) as u64;
    bytes[HEADER_BYTES + 100] ^= 1;
    let mut frames = Frames::new(&bytes[..], None).unwrap();
    assert!(matches!(frames.step().unwrap(), Step::Bad { at: 256, error: FormatError::Checksum }));
    assert_eq!(frames.search(257, 1..10).unwrap(), Found::At(second));
    assert_eq!(frames.search(257, 7..10).unwrap(), Found::Nothing);
    assert_eq!(frames.not_zero(10).unwrap(), Some(HEADER_BYTES as u64 + 1));
}

#[test]
fn a_search_among_bytes_that_only_look_like_frames_is_given_up() {
    // Every fourth offset has a long length, a plausible number and a wrong checksum.
    let bytes = (1u32 << 19).to_le_bytes().repeat(1 << 20);
    let seq = u64::from_le_bytes(*bytes.first_chunk().unwrap());
    let mut frames = Frames::new(&bytes[..], None).unwrap();
    assert_eq!(frames.search(256, seq..seq + 1).unwrap(), Found::GaveUp);
}
