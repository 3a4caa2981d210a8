//! Round trips, bombs, corrupt bodies, and header preferences.

use super::*;
use proptest::prelude::*;

const BOTH: [Coding; 2] = [Coding::Gzip, Coding::Deflate];

/// Compressed even if it does not shrink.
fn packed(coding: Coding, plain: &[u8]) -> Bytes {
    let done = match coding {
        Coding::Gzip => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(plain).and_then(|()| encoder.finish())
        }
        _ => {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(plain).and_then(|()| encoder.finish())
        }
    };
    done.expect("writes into memory").into()
}

fn inflate(coding: Coding, source: Bytes, bytes_max: usize, step: usize) -> Result<Bytes, Fault> {
    let mut inflater = match Inflater::new(coding, source, bytes_max) {
        Ok(inflater) => inflater,
        Err(plain) => return Ok(plain),
    };
    while !inflater.work(step)? {}
    Ok(inflater.finish())
}

#[test]
fn a_bomb_is_refused_at_the_limit_and_takes_no_more_memory_than_it() {
    for coding in BOTH {
        let bomb = packed(coding, &vec![0; 10 << 20]);
        assert!(bomb.len() < 64 << 10, "a bomb is small: {}", bomb.len());
        let mut inflater = Inflater::new(coding, bomb, 1 << 20).expect("a coding");
        let fault = loop {
            match inflater.work(100_000) {
                Ok(done) => assert!(!done),
                Err(fault) => break fault,
            }
        };
        assert_eq!(fault.kind, FaultKind::BodyTooLarge);
        assert!(fault.text.contains("1048576"), "{fault}");
        assert!(inflater.out.capacity() <= (1 << 20) + 1, "{} bytes were taken", inflater.out.capacity());
    }
}

#[test]
fn a_step_takes_no_more_in_than_its_bytes_even_where_nothing_comes_out() {
    const STEP: usize = 1000;
    let members = packed(Coding::Gzip, b"").repeat(500);
    let mut blocks = vec![0x78, 0x01];
    // Empty stored blocks, then the last one and the checksum of nothing.
    blocks.extend([0, 0, 0, 0xff, 0xff].repeat(2000));
    blocks.extend([1, 0, 0, 0xff, 0xff, 0, 0, 0, 1]);
    for (coding, body) in [(Coding::Gzip, members), (Coding::Deflate, blocks)] {
        let least = body.len().div_ceil(STEP);
        let mut inflater = Inflater::new(coding, body.into(), 1000).expect("a coding");
        let mut steps = 1;
        while !inflater.work(STEP).expect("it is sound") {
            steps += 1;
        }
        assert!(steps >= least, "{coding:?} took {steps} steps");
        assert_eq!(inflater.inflated(), 0);
    }
}

#[test]
fn a_body_of_exactly_the_limit_is_taken() {
    for coding in BOTH {
        let plain = vec![7; 5000];
        assert_eq!(inflate(coding, packed(coding, &plain), 5000, 5000).expect("fits"), plain);
        assert!(inflate(coding, packed(coding, &plain), 4999, 5000).is_err());
    }
}

#[test]
fn a_body_that_is_cut_or_followed_by_something_or_in_another_coding_is_refused() {
    for coding in BOTH {
        let sound = packed(coding, b"a body that is long enough to be cut somewhere");
        let longer = [&sound[..], b"more"].concat().into();
        let other = packed(if coding == Coding::Gzip { Coding::Deflate } else { Coding::Gzip }, b"other");
        for broken in [Bytes::new(), sound.slice(..5), sound.slice(..sound.len() - 1), longer, other] {
            let fault = inflate(coding, broken.clone(), 1000, 1000).expect_err("must be refused");
            assert_eq!(fault.kind, FaultKind::MalformedRequest, "{broken:?}");
            assert!(fault.text.contains(coding.name()), "{fault}");
        }
    }
}

#[test]
fn what_would_grow_is_left_as_it_is() {
    assert_eq!(deflate(Coding::Gzip, b"abc"), None);
    assert_eq!(deflate(Coding::Identity, &[0; 5000]), None);
}

#[test]
fn accept_encoding_is_read_with_its_weights() {
    for (header, wanted) in [
        ("", Coding::Identity),
        ("br", Coding::Identity),
        ("gzip", Coding::Gzip),
        ("GZip", Coding::Gzip),
        ("deflate", Coding::Deflate),
        ("deflate, gzip", Coding::Gzip),
        ("gzip;q=0.5, deflate", Coding::Deflate),
        ("gzip;q=0", Coding::Identity),
        ("gzip;q=0, deflate;q=0.001", Coding::Deflate),
        ("gzip; q=0.000", Coding::Identity),
        ("identity, gzip;q=0.5", Coding::Identity),
        ("identity;q=0.5, gzip;q=1.0", Coding::Gzip),
        ("identity;q=0, *;q=0.1", Coding::Gzip),
        ("*", Coding::Gzip),
        ("gzip;q=0, *", Coding::Deflate),
        ("*;q=0", Coding::Identity),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", Coding::Gzip),
        ("gzip;q=2", Coding::Identity),
        ("gzip;q=nonsense", Coding::Identity),
        ("gzip;q=NaN", Coding::Identity),
    ] {
        assert_eq!(Coding::accepted(header), wanted, "{header:?}");
    }
}

proptest! {
    #[test]
    fn what_goes_into_a_coding_comes_out_of_it_whatever_the_steps(plain: Vec<u8>, step in 1..5000_usize) {
        for coding in BOTH {
            let out = inflate(coding, packed(coding, &plain), plain.len(), step);
            prop_assert_eq!(out.expect("inflates"), &plain);
            if let Some(fast) = deflate(coding, &plain) {
                prop_assert_eq!(inflate(coding, fast, plain.len(), step).expect("inflates"), &plain);
            }
        }
    }

    #[test]
    fn random_bytes_never_panic_and_never_pass_the_limit(source: Vec<u8>, step in 1..100_usize) {
        for coding in BOTH {
            if let Ok(out) = inflate(coding, source.clone().into(), 50, step) {
                prop_assert!(out.len() <= 50);
            }
        }
    }

    #[test]
    fn no_accept_encoding_panics(header: String) {
        let _ = Coding::accepted(&header);
    }
}
