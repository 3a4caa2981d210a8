//! Tracks HTTP/2 frame boundaries, to distinguish idle peers from those that stop within a frame.
//!
//! Covers the preface, frames and header blocks. Reads lengths and two flags; h2 interprets the frames.

const PREFACE_BYTES: u64 = 24;
const HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

#[derive(Debug)]
pub(crate) struct Http2Frames {
    /// Bytes left of the preface or of a frame's payload.
    left: u64,
    head: [u8; HEAD_BYTES],
    /// Received bytes of the frame's head.
    has: usize,
    /// Within a header block.
    in_headers: bool,
    /// Whether a frame followed the preface.
    greeted: bool,
}

impl Default for Http2Frames {
    fn default() -> Http2Frames {
        Http2Frames { left: PREFACE_BYTES, head: [0; HEAD_BYTES], has: 0, in_headers: false, greeted: false }
    }
}

impl Http2Frames {
    /// Processes the next bytes; true while a preface, frame or header block is incomplete.
    pub(crate) fn unfinished_after(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            if self.left > 0 {
                let skipped = self.left.min(bytes.len() as u64);
                self.left -= skipped;
                bytes = &bytes[usize::try_from(skipped).unwrap_or(bytes.len())..];
                continue;
            }
            let taken = (HEAD_BYTES - self.has).min(bytes.len());
            self.head[self.has..self.has + taken].copy_from_slice(&bytes[..taken]);
            (self.has, bytes) = (self.has + taken, &bytes[taken..]);
            if self.has == HEAD_BYTES {
                let [high, middle, low, kind, flags, ..] = self.head;
                self.left = u64::from(u32::from_be_bytes([0, high, middle, low]));
                if matches!(kind, HEADERS | PUSH_PROMISE | CONTINUATION) {
                    self.in_headers = flags & END_HEADERS == 0;
                }
                (self.has, self.greeted) = (0, true);
            }
        }
        self.left > 0 || self.has > 0 || self.in_headers || !self.greeted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    #[test]
    fn a_peer_is_half_way_until_its_preface_and_each_frame_are_whole() {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        let (settings, ping) = (frame(4, 0, &[]), frame(6, 0, &[0; 8]));
        let begun = frame(HEADERS, 0, b"abc");
        let ended = frame(CONTINUATION, END_HEADERS, b"defg");
        let whole: Vec<&[u8]> = vec![preface, &settings, &ping, &begun, &ended, &ping];
        let finished = [false, true, true, false, true, true];
        let mut frames = Http2Frames::default();
        for (bytes, finished) in whole.iter().zip(finished) {
            for (at, byte) in bytes.iter().enumerate() {
                let unfinished = frames.unfinished_after(&[*byte]);
                assert_eq!(unfinished, at + 1 < bytes.len() || !finished, "byte {at} of {bytes:?}");
            }
        }
        let mut at_once = Http2Frames::default();
        assert!(!at_once.unfinished_after(&whole.concat()));
    }
}
