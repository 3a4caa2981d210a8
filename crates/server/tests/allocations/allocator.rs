//! A counting global allocator around the system's.
//!
//! Keeps the stack of each allocation on a listening thread, or one sum over the lanes' threads.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

/// While false, thread names are not read: a thread that has just started may not have one yet.
static LANES_ARE_COUNTED: AtomicBool = AtomicBool::new(false);
static ON_LANES: AtomicU64 = AtomicU64::new(0);

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Unknown,
    Lane,
    Other,
}

thread_local! {
    static LISTENING: Cell<bool> = const { Cell::new(false) };
    static KIND: Cell<Kind> = const { Cell::new(Kind::Unknown) };
    static HEARD: RefCell<Vec<Backtrace>> = const { RefCell::new(Vec::new()) };
}

/// Keeps the stack of every allocation of this thread from now on.
pub(crate) fn listen() {
    LISTENING.set(true);
}

/// The stacks of this thread's allocations since it began to listen.
pub(crate) fn heard() -> Vec<Backtrace> {
    LISTENING.set(false);
    HEARD.take()
}

/// Starts counting the allocations of the current lanes' threads.
pub(crate) fn count_lanes() {
    LANES_ARE_COUNTED.store(true, Relaxed);
}

/// The lanes' allocations since then.
pub(crate) fn on_lanes() -> u64 {
    ON_LANES.load(Relaxed)
}

fn allocated() {
    if LISTENING.replace(false) {
        let stack = Backtrace::force_capture();
        HEARD.with_borrow_mut(|heard| heard.push(stack));
        LISTENING.set(true);
    }
    if LANES_ARE_COUNTED.load(Relaxed) {
        if KIND.get() == Kind::Unknown {
            // Reading the name allocates as well; by then the kind is known.
            KIND.set(Kind::Other);
            let name = rustix::thread::name().unwrap_or_default();
            KIND.set(if name.to_bytes().starts_with(b"lane-") { Kind::Lane } else { Kind::Other });
        }
        if KIND.get() == Kind::Lane {
            ON_LANES.fetch_add(1, Relaxed);
        }
    }
}

// SAFETY: every call is passed unchanged to the system's allocator; counting touches none of its memory, and the
// allocations of counting itself are not counted again, so it ends.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        allocated();
        // SAFETY: the caller's promises are the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        allocated();
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        allocated();
        // SAFETY: as above.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
