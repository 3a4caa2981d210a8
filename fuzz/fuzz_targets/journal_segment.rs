//! No bytes of a segment, of a frame, of a record or of a checkpoint may panic their readers, or keep them busy for long.
#![no_main]

use flyball_journal::{Checkpoint, Frame, Frames, Found, Header, Step, note_length, render, scan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(Ok(found)) = scan(bytes) {
        assert!(found.end <= bytes.len() as u64);
        assert_eq!(found.next_seq, found.header.first_seq + found.frames);
    }
    let _ = Header::decode(bytes).map(|header| assert_eq!(header.encode(), bytes[..256]));
    if let Ok(Some(frame)) = Frame::decode(bytes) {
        assert!(frame.length() <= bytes.len());
        let _ = render(frame.payload, None);
    }
    let _ = render(bytes, None);
    walk(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = Checkpoint::verify(text, &[7; 32]);
        if let Ok(checkpoint) = Checkpoint::parse(text) {
            assert!(text.starts_with(&checkpoint.text()));
        }
        assert!(note_length(text).is_none_or(|length| length <= text.len()));
    }
});

/// Over every frame that can be found, past all that is none.
fn walk(bytes: &[u8]) {
    let mut frames = Frames::new(bytes, None).expect("memory can be read");
    let mut before = 0;
    loop {
        match frames.step().expect("memory can be read") {
            Step::Frame { at, frame } => {
                assert!(at >= before);
                before = at;
                let _ = render(frame.payload, None);
            }
            Step::End { at } | Step::Bad { at, .. } => match frames.search(at + 1, 0..u64::MAX) {
                Ok(Found::At(next)) => frames.move_to(next),
                _ => return,
            },
        }
    }
}
