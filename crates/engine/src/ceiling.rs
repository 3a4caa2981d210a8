//! The peak speed of one thread: multiply-adds a second, and read bandwidth by working set.
//!
//! No operator of a model can be faster, so models are compared with it. Measured each time, within a third
//! of a second. Knows nothing of models.

use serde::Serialize;
use std::hint::black_box;
use std::time::{Duration, Instant};

#[derive(Clone, Debug, Serialize)]
pub struct Ceiling {
    /// Additions and multiplications of 32-bit floats a second.
    pub flops: f64,
    /// The factor for 8-bit integers, by the processor's instructions. Not measured.
    pub int8_times: f64,
    /// By working set, ascending: smaller sets fit into faster caches.
    pub reads: Vec<ReadSpeed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ReadSpeed {
    pub set_bytes: usize,
    pub bytes_a_second: f64,
}

/// Inside the L2 cache, at its limit, inside the L3 cache, and beyond.
const SETS_BYTES: [usize; 4] = [64 << 10, 1 << 20, 16 << 20, 128 << 20];
/// The best run in this time counts: other load only makes it slower.
const EACH_TIME: Duration = Duration::from_millis(40);
const TIMES_MIN: usize = 3;

impl Ceiling {
    pub fn measure() -> Ceiling {
        // Ones, not zeros: pages that were never written all map to one page.
        let words = vec![1_u64; SETS_BYTES[SETS_BYTES.len() - 1] / size_of::<u64>()];
        let speed = |set_bytes: usize| {
            let set = &words[..set_bytes / size_of::<u64>()];
            ReadSpeed {
                set_bytes,
                bytes_a_second: set_bytes as f64 / best_s(|| black_box(sum(black_box(set)))),
            }
        };
        let reads = SETS_BYTES.map(speed).to_vec();
        let (operations, all_of_them) = multiply_adds();
        let flops = operations as f64 / best_s(|| all_of_them(black_box(0.5)));
        Ceiling { flops, int8_times: int8_times(), reads }
    }
}

fn best_s<T>(work: impl Fn() -> T) -> f64 {
    let began = Instant::now();
    let mut best = f64::INFINITY;
    let mut times = 0;
    while times < TIMES_MIN || began.elapsed() < EACH_TIME {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
        times += 1;
    }
    best
}

#[cfg(target_arch = "x86_64")]
fn sum(words: &[u64]) -> u64 {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi64, _mm256_loadu_si256, _mm256_setzero_si256, _mm256_storeu_si256,
    };

    // Written by hand without closures: unoptimised builds would neither vectorise nor inline them.
    #[target_feature(enable = "avx2")]
    fn wide(words: &[u64]) -> u64 {
        let (chunks, rest) = words.as_chunks::<16>();
        let mut sums = [_mm256_setzero_si256(); 4];
        for chunk in chunks {
            let at = chunk.as_ptr().cast::<__m256i>();
            // SAFETY: the chunk's 128 bytes are four times 32, which may be unaligned.
            unsafe {
                sums[0] = _mm256_add_epi64(sums[0], _mm256_loadu_si256(at));
                sums[1] = _mm256_add_epi64(sums[1], _mm256_loadu_si256(at.add(1)));
                sums[2] = _mm256_add_epi64(sums[2], _mm256_loadu_si256(at.add(2)));
                sums[3] = _mm256_add_epi64(sums[3], _mm256_loadu_si256(at.add(3)));
            }
        }
        let mut lanes = [[0_u64; 4]; 4];
        for (lane, sum) in lanes.iter_mut().zip(sums) {
            // SAFETY: it writes the 32 bytes of the four words, at any address.
            unsafe { _mm256_storeu_si256(lane.as_mut_ptr().cast::<__m256i>(), sum) };
        }
        plain_sum(lanes.as_flattened()).wrapping_add(plain_sum(rest))
    }
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has the feature that the function is compiled for.
        return unsafe { wide(words) };
    }
    plain_sum(words)
}

#[cfg(not(target_arch = "x86_64"))]
fn sum(words: &[u64]) -> u64 {
    plain_sum(words)
}

fn plain_sum(words: &[u64]) -> u64 {
    words.iter().fold(0, |all, word| all.wrapping_add(*word))
}

/// Enough chains that none waits for its own last result.
const CHAINS: usize = 12;
const STEPS: usize = 2000;

/// Chains of multiply-adds in the widest registers: the number of operations, and the function.
#[cfg(target_arch = "x86_64")]
fn multiply_adds() -> (usize, fn(f32)) {
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps, _mm512_fmadd_ps, _mm512_set1_ps};

    #[target_feature(enable = "avx512f")]
    fn of_sixteen(factor: f32) {
        black_box(chained(_mm512_set1_ps(factor), |chain, by| _mm512_fmadd_ps(chain, by, by)));
    }
    #[target_feature(enable = "avx,fma")]
    fn of_eight(factor: f32) {
        black_box(chained(_mm256_set1_ps(factor), |chain, by| _mm256_fmadd_ps(chain, by, by)));
    }
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the processor has the feature that the function is compiled for.
        (operations(16), |factor| unsafe { of_sixteen(factor) })
    } else if is_x86_feature_detected!("avx") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has the features that the function is compiled for.
        (operations(8), |factor| unsafe { of_eight(factor) })
    } else {
        (operations(4), of_four)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn multiply_adds() -> (usize, fn(f32)) {
    (operations(4), of_four)
}

/// Not fused: without an instruction for it, fusing would be a function call.
fn of_four(factor: f32) {
    let step = |chain: [f32; 4], by: [f32; 4]| std::array::from_fn(|lane| chain[lane] * by[lane] + by[lane]);
    black_box(chained([factor; 4], step));
}

#[inline(always)]
fn chained<V: Copy>(by: V, step: impl Fn(V, V) -> V) -> [V; CHAINS] {
    let mut chains = [by; CHAINS];
    for _ in 0..STEPS {
        for chain in &mut chains {
            *chain = step(*chain, by);
        }
    }
    chains
}

const fn operations(lanes: usize) -> usize {
    2 * lanes * CHAINS * STEPS
}

/// Four products for one with a dot-product instruction; else about two.
fn int8_times() -> f64 {
    #[cfg(target_arch = "x86_64")]
    let at_once = is_x86_feature_detected!("avx512vnni") || is_x86_feature_detected!("avxvnni");
    #[cfg(target_arch = "aarch64")]
    let at_once = std::arch::is_aarch64_feature_detected!("dotprod");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let at_once = false;
    if at_once { 4.0 } else { 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_computes_and_reads_at_plausible_speeds() {
        let ceiling = Ceiling::measure();
        assert!(ceiling.flops > 1e8 && ceiling.int8_times >= 1.0, "{ceiling:?}");
        assert_eq!(ceiling.reads.iter().map(|read| read.set_bytes).collect::<Vec<_>>(), SETS_BYTES);
        assert!(ceiling.reads.iter().all(|read| read.bytes_a_second > 1e7), "{ceiling:?}");
    }

    #[test]
    fn every_word_is_read() {
        let words: Vec<u64> = (0..323).collect();
        assert_eq!((sum(&words), plain_sum(&words)), (323 * 161, 323 * 161));
    }
}
