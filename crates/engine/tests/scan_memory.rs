//! A scan's memory, counted by the test's allocator: nothing for weights, and bounded for repeated fields.

use flyball_engine::{ScanFacts, ScanLimits};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: every call is forwarded unchanged to the system's allocator; counting touches none of its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MOST.fetch_max(HELD.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller upholds the system allocator's conditions.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut field = Vec::with_capacity(bytes.len() + 11);
    prost::encoding::encode_varint(u64::from(number) << 3 | 2, &mut field);
    prost::encoding::encode_varint(bytes.len() as u64, &mut field);
    field.extend_from_slice(bytes);
    field
}

/// The peak memory beyond the start, and whether the file was accepted.
fn scanning(graph: &[u8]) -> (usize, bool) {
    let model = field(7, graph);
    let before = HELD.load(Relaxed);
    MOST.store(before, Relaxed);
    let taken = ScanFacts::of(&model, &ScanLimits::default()).is_ok();
    (MOST.load(Relaxed) - before, taken)
}

/// One test, because its binary has one allocator.
#[test]
fn a_scan_takes_little_memory_whatever_the_file_is_full_of() {
    const MIB: usize = 1 << 20;
    let weights = field(5, &field(9, &vec![7; 64 * MIB]));
    let (held, taken) = scanning(&weights);
    assert!(taken && held < MIB / 4, "64 MiB of weights: {held} bytes");

    // (repeated field, its number, one item, whether it is accepted)
    let value = field(1, b"x");
    let entry = field(13, &[field(1, b"location"), field(2, b"w")].concat());
    let many: [(&str, u8, &[u8], usize, bool); 7] = [
        ("initialisers", 5, &[], 2_000_000, false),
        ("inputs", 11, &value, 2_000_000, false),
        ("outputs", 12, &value, 2_000_000, false),
        ("values in between", 13, &value, 2_000_000, true),
        ("nodes", 1, &[], 2_000_000, false),
        ("initialisers within the limit", 5, &field(8, b"weight"), 190_000, true),
        ("places of external data", 5, &entry.repeat(16), 100_000, false),
    ];
    for (what, number, one, count, good) in many {
        let (held, taken) = scanning(&field(number, one).repeat(count));
        assert_eq!(taken, good, "{what}");
        assert!(held < 16 * MIB, "{what}: {held} bytes");
    }
    let axes = field(5, &field(1, &vec![1; 8 * MIB]));
    let (held, taken) = scanning(&axes);
    assert!(!taken && held < MIB / 4, "axes: {held} bytes");
}
