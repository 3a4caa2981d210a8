//! Bounds of regions and spans, tested on plain files.

use super::*;
use crate::FaultKind;
use proptest::prelude::*;

const BYTES: u64 = 16;

/// 16 bytes with the numbers 0 to 15.
fn file() -> File {
    let file = tempfile::tempfile().expect("a file");
    file.write_all_at(&(0..BYTES as u8).collect::<Vec<_>>(), 0).expect("written");
    file
}

fn region(offset: u64, byte_size: u64) -> Result<Arc<Region>, Fault> {
    Region::new("r", "/k", offset, byte_size, file()).map(Arc::new)
}

#[test]
fn a_part_reads_and_writes_its_own_bytes_and_no_others() {
    let region = region(4, 8).expect("fits");
    let part = Arc::clone(&region).span(2, 3).expect("fits");
    assert_eq!(part.read().expect("reads"), [6, 7, 8].as_slice());
    part.write(&[60, 70]).expect("writes");
    let whole = region.span(0, 8).expect("fits");
    assert_eq!(whole.read().expect("reads"), [4, 5, 60, 70, 8, 9, 10, 11].as_slice());
}

#[test]
fn what_does_not_fit_is_refused_and_nothing_is_written() {
    let part = region(0, BYTES).expect("fits").span(0, 2).expect("fits");
    let fault = part.write(&[9, 9, 9]).expect_err("too long");
    assert_eq!((fault.kind, fault.stage), (FaultKind::InvalidInput, Stage::Respond));
    assert_eq!(part.read().expect("reads"), [0, 1].as_slice());
}

#[test]
fn a_region_that_was_truncated_is_an_error_and_does_not_grow_again() {
    let region = region(0, BYTES).expect("fits");
    region.file.set_len(3).expect("truncated");
    let part = Arc::clone(&region).span(2, 2).expect("within what was registered");
    for fault in [part.read().expect_err("is gone"), part.write(&[1, 2]).expect_err("is gone")] {
        assert!(fault.text.ends_with("do not truncate it"), "{fault}");
    }
    assert_eq!(region.file_bytes().ok(), Some(3));
}

proptest! {
    #[test]
    fn only_what_lies_in_the_file_is_a_region_and_only_what_lies_in_a_region_is_a_part_of_it(
        offset in number(), bytes in number(), part_offset in number(), part_bytes in number(),
    ) {
        let within = |offset: u64, bytes: u64, of: u64| u128::from(offset) + u128::from(bytes) <= u128::from(of);
        let region = region(offset, bytes);
        prop_assert_eq!(region.is_ok(), within(offset, bytes, BYTES));
        let Ok(region) = region else { return Ok(()) };
        let part = region.span(part_offset, part_bytes);
        prop_assert_eq!(part.is_ok(), within(part_offset, part_bytes, bytes));
        let Ok(part) = part else { return Ok(()) };
        let first = offset + part_offset;
        let wanted: Vec<u8> = (first..first + part_bytes).map(|byte| byte as u8).collect();
        prop_assert_eq!(part.read().expect("reads"), wanted);
    }
}

/// Mostly small numbers, some at the upper limit.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..20_u64, 1 => u64::MAX - 20..=u64::MAX]
}
