//! A global allocator that counts: with the stack of each allocation on a thread that listens, or as one sum over the
//! lanes' threads. It passes everything on to the system's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

/// While false, no thread is asked for its name: one that has just begun may not have it yet.
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

/// From here on, every allocation of this thread is kept with its stack.
pub(crate) fn listen() {
    LISTENING.set(true);
}

/// The stacks of what this thread allocated since it began to listen.
pub(crate) fn heard() -> Vec<Backtrace> {
    LISTENING.set(false);
    HEARD.take()
}

/// Begins to count what the threads allocate that are lanes by now.
pub(crate) fn count_lanes() {
    LANES_ARE_COUNTED.store(true, Relaxed);
}

/// What the lanes allocated since then.
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
            // Finding the name out allocates as well; by then the kind is no longer unknown.
            KIND.set(Kind::Other);
            let name = rustix::thread::name().unwrap_or_default();
            KIND.set(if name.to_bytes().starts_with(b"lane-") { Kind::Lane } else { Kind::Other });
        }
        if KIND.get() == Kind::Lane {
            ON_LANES.fetch_add(1, Relaxed);
        }
    }
}

// SAFETY: every call is passed on to the system's allocator as it came; counting touches none of its memory, and what
// counting itself allocates is not counted again, so it ends.
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
