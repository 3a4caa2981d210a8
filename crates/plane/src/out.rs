//! A lane's buffers for answers. Two in turn: while answers in one are being sent, the other is written. A buffer is reused
//! from its start once all of its answers were sent.

use bytes::BytesMut;

const BUFFER_BYTES: usize = 64 << 10;
/// With less room than this, the other buffer is used; a larger answer makes the buffer grow.
const ROOM_BYTES: usize = 4 << 10;

pub(crate) struct OutBuffers {
    current: BytesMut,
    other: BytesMut,
}

impl OutBuffers {
    pub(crate) fn new() -> OutBuffers {
        let buffer = || BytesMut::with_capacity(BUFFER_BYTES);
        OutBuffers { current: buffer(), other: buffer() }
    }

    /// Writes an answer of at most `bytes_max` bytes. A large one gets its own buffer: a part of these two keeps the whole
    /// buffer alive.
    pub(crate) fn write<T>(&mut self, bytes_max: usize, write: impl FnOnce(&mut BytesMut) -> T) -> T {
        if bytes_max > BUFFER_BYTES {
            return write(&mut BytesMut::with_capacity(bytes_max));
        }
        write(self.with_room())
    }

    /// A buffer with room for an answer of usual size.
    fn with_room(&mut self) -> &mut BytesMut {
        let room = |buffer: &BytesMut| buffer.capacity() - buffer.len() >= ROOM_BYTES;
        if !room(&self.current) && !self.current.try_reclaim(BUFFER_BYTES) {
            std::mem::swap(&mut self.current, &mut self.other);
            if !room(&self.current) {
                self.current.reserve(BUFFER_BYTES);
            }
        }
        &mut self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use std::collections::{HashSet, VecDeque};

    #[test]
    fn buffers_are_used_again_while_some_answers_are_still_on_their_way() {
        let mut buffers = OutBuffers::new();
        let mut held: VecDeque<Bytes> = VecDeque::new();
        let mut pages = HashSet::new();
        for round in 0..5000_u32 {
            let out = buffers.with_room();
            assert!(out.is_empty());
            out.extend_from_slice(&round.to_le_bytes().repeat(100));
            let answer = out.split().freeze();
            pages.insert(answer.as_ptr() as usize / BUFFER_BYTES);
            held.push_back(answer);
            if held.len() > 8 {
                let oldest = held.pop_front().unwrap();
                assert_eq!(oldest, (round - 8).to_le_bytes().repeat(100));
            }
        }
        assert!(pages.len() <= 6, "{} places for two buffers", pages.len());
    }
}
