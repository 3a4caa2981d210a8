//! No stream may panic the reader of its frames, however it is cut into pieces; what comes out is what lies between the
//! heads, and a message beyond the limit is refused before it is kept. The first byte is the length of the pieces.
#![no_main]

use flyball_wire::frame::{Frames, HEAD_BYTES};
use libfuzzer_sys::fuzz_target;

const BYTES_MAX: usize = 4096;

fuzz_target!(|input: &[u8]| {
    let Some((&length, stream)) = input.split_first() else { return };
    let pieces = stream.chunks(usize::from(length).max(1));
    let mut frames = Frames::new(BYTES_MAX);
    let mut at = 0;
    for piece in pieces {
        frames.push(piece);
        loop {
            match frames.take() {
                Ok(Some(framed)) => {
                    let begin = at + HEAD_BYTES;
                    assert_eq!(framed.message, &stream[begin..begin + framed.message.len()]);
                    at = begin + framed.message.len();
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(frames.held() <= BYTES_MAX + HEAD_BYTES + piece.len());
    }
    assert_eq!(frames.finish().is_ok(), at == stream.len());
});
