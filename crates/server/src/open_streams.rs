//! Limits the open HTTP/2 requests of all connections, and the bytes of their heads.
//!
//! A limit per connection does not bound a hundred connections. Unknown peers get a small share. Requests beyond a limit
//! are refused with REFUSED_STREAM, which clients may retry at once elsewhere.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Maximum concurrent requests on a connection that no known caller has used.
pub(crate) const STRANGER_MAX: usize = 16;
/// Maximum average size of a head.
const HEAD_BYTES: usize = 4 << 10;

pub(crate) struct OpenStreams {
    open: AtomicUsize,
    head_bytes: AtomicUsize,
    max: usize,
    refused: AtomicU64,
}

impl OpenStreams {
    pub(crate) fn new(max: usize) -> OpenStreams {
        let (open, head_bytes) = (AtomicUsize::new(0), AtomicUsize::new(0));
        OpenStreams { open, head_bytes, max, refused: AtomicU64::new(0) }
    }

    /// Adds a stream; false if there is no room. Half of the room is reserved for known callers.
    pub(crate) fn enter(&self, head_bytes: usize, stranger: bool) -> bool {
        let max = if stranger { self.max.div_ceil(2) } else { self.max };
        let open = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        let bytes = self.head_bytes.fetch_add(head_bytes, Ordering::Relaxed) + head_bytes;
        // A single stream always has room: its head has its own limit.
        let room = open <= max && (open == 1 || bytes <= max.saturating_mul(HEAD_BYTES));
        if !room {
            self.leave(head_bytes);
            self.refuse();
        }
        room
    }

    pub(crate) fn leave(&self, head_bytes: usize) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.head_bytes.fetch_sub(head_bytes, Ordering::Relaxed);
    }

    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_get_half_of_the_streams_and_known_callers_the_rest() {
        let streams = OpenStreams::new(4);
        let entered = |stranger| (0..10).filter(|_| streams.enter(100, stranger)).count();
        assert_eq!(entered(true), 2);
        assert_eq!(entered(false), 2);
        assert_eq!((streams.open(), streams.refusals()), (4, 16));
        (0..4).for_each(|_| streams.leave(100));
        assert_eq!(entered(false), 4);
    }

    #[test]
    fn large_heads_take_the_room_of_many_streams() {
        let streams = OpenStreams::new(10);
        assert!(streams.enter(HEAD_BYTES * 20, false), "one alone has room");
        assert!(!streams.enter(1, false));
        streams.leave(HEAD_BYTES * 20);
        assert_eq!((0..10).filter(|_| streams.enter(HEAD_BYTES * 2, false)).count(), 5);
    }
}
