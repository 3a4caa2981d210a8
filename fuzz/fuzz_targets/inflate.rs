//! No body may panic what takes it out of gzip or deflate, or give more than is allowed. The first byte chooses the coding
//! and the size of the steps; what comes out does not depend on the steps.
#![no_main]

use bytes::Bytes;
use flyball_wire::coding::{Coding, Inflater};
use libfuzzer_sys::fuzz_target;

const BYTES_MAX: usize = 1 << 20;

fuzz_target!(|input: &[u8]| {
    let Some((&first, body)) = input.split_first() else { return };
    let coding = if first & 1 == 0 { Coding::Gzip } else { Coding::Deflate };
    let inflated = |step: usize| {
        let mut inflater = Inflater::new(coding, Bytes::copy_from_slice(body), BYTES_MAX).ok()?;
        while !inflater.work(step).ok()? {
            assert!(inflater.inflated() <= BYTES_MAX);
        }
        Some(inflater.finish())
    };
    let whole = inflated(BYTES_MAX);
    assert!(whole.as_ref().is_none_or(|whole| whole.len() <= BYTES_MAX));
    assert_eq!(inflated(1024 << (first >> 5)), whole);
});
