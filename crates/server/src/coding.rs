//! Compresses and decompresses bodies and messages (gzip, deflate).
//!
//! Small ones on the lane. Large ones, and small ones that inflate to much, on the lane's coding thread, in
//! steps: between two steps the budget is checked, and work for clients that hung up ends.

use crate::body::BodyPart;
use bytes::Bytes;
use flyball_core::{Fault, FaultKind, Stage};
use flyball_wire::coding::{Coding, Inflater, deflate};

/// Larger input or output would occupy a lane for too long.
const ON_LANE_BYTES_MAX: usize = 64 << 10;
/// Input and output of one step on the coding thread: about a millisecond of work.
const STEP_BYTES: usize = 1 << 20;

pub(crate) async fn inflated(
    coding: Coding,
    source: Bytes,
    bytes_max: usize,
    part: &BodyPart<'_>,
) -> Result<Bytes, Fault> {
    let length = source.len();
    let mut inflater = match Inflater::new(coding, source, bytes_max) {
        Ok(inflater) => inflater,
        Err(plain) => return Ok(plain),
    };
    if length <= ON_LANE_BYTES_MAX && inflater.work(ON_LANE_BYTES_MAX)? {
        part.grow_to(length + inflater.inflated())?;
        return Ok(inflater.finish());
    }
    loop {
        part.grow_to(length + inflater.inflated() + STEP_BYTES.min(bytes_max))?;
        let step = off_lane(move || {
            let done = inflater.work(STEP_BYTES);
            (inflater, done)
        });
        let (worked, done) = step.await?;
        inflater = worked;
        if done? {
            return Ok(inflater.finish());
        }
    }
}

/// Compresses the bytes; `None` if that does not make them smaller.
pub(crate) async fn deflated(coding: Coding, plain: &Bytes) -> Option<Bytes> {
    if plain.len() <= ON_LANE_BYTES_MAX {
        return deflate(coding, plain);
    }
    let plain = plain.clone();
    off_lane(move || deflate(coding, &plain)).await.ok().flatten()
}

/// Runs `work` on the lane's coding thread, which has a low priority (`lane_thread.rs`).
#[expect(clippy::disallowed_methods, reason = "the pool has one thread, and the body limits bound its queue")]
async fn off_lane<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        Fault::new(FaultKind::Panicked, Stage::Parse, format!("a body could not be read: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::BodyBudget;

    /// On a lane's kind of runtime.
    fn on_lane<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(work)
    }

    #[test]
    fn bodies_of_every_size_come_out_as_they_went_in() {
        on_lane(async {
            for length in [0, 1000, ON_LANE_BYTES_MAX, ON_LANE_BYTES_MAX + 1, 5 << 20] {
                // Noise in short runs: at the end the compressed form is beyond the lane's limit too.
                let noise = |n: &u64| Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                let noise = std::iter::successors(Some(1), noise).flat_map(|n| [(n >> 56) as u8; 8]);
                let plain: Bytes = noise.take(length).collect();
                for coding in [Coding::Identity, Coding::Gzip, Coding::Deflate] {
                    let packed = deflated(coding, &plain).await;
                    assert_eq!(
                        packed.is_some(),
                        coding != Coding::Identity && length > 0,
                        "{length} {coding:?}"
                    );
                    let Some(packed) = packed else { continue };
                    let budget = BodyBudget::new(length, std::time::Duration::ZERO);
                    assert_eq!(inflated(coding, packed, length, &budget.part()).await, Ok(plain.clone()));
                }
            }
        });
    }

    #[test]
    fn a_small_bomb_leaves_the_lane_and_is_refused_at_the_limit() {
        let limit = 4 << 20;
        let budget = BodyBudget::new(limit, std::time::Duration::ZERO);
        let bomb = deflate(Coding::Gzip, &vec![0; 8 << 20]).expect("zeros shrink");
        let refused = on_lane(inflated(Coding::Gzip, bomb, limit, &budget.part()));
        assert_eq!(refused.expect_err("must be refused").kind, FaultKind::BodyTooLarge);
    }

    #[test]
    fn what_comes_out_on_the_lane_is_charged_too() {
        let noise = std::iter::successors(Some(1_u64), |n| {
            Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1))
        });
        let plain: Vec<u8> = noise.map(|n| (n >> 58) as u8).take(60_000).collect();
        let packed = deflate(Coding::Gzip, &plain).expect("six bits of eight");
        let budget = BodyBudget::new(1, std::time::Duration::ZERO);
        let refused = on_lane(inflated(Coding::Gzip, packed, 1 << 20, &budget.part()));
        assert_eq!(refused.expect_err("must be refused").kind, FaultKind::InFlightFull);
    }

    #[test]
    fn bombs_together_stay_within_the_budget_of_all_bodies() {
        let limit = 4 << 20;
        let budget = BodyBudget::new(limit, std::time::Duration::ZERO);
        let plain = vec![0; limit];
        let packed = deflate(Coding::Gzip, &plain).expect("zeros shrink");
        on_lane(async {
            let mut parts = Vec::new();
            let refused = loop {
                let part = budget.part();
                match inflated(Coding::Gzip, packed.clone(), limit, &part).await {
                    Ok(_) => parts.push(part),
                    Err(fault) => break fault,
                }
                assert!(parts.len() < 100, "nothing bounds them");
            };
            assert_eq!(refused.kind, FaultKind::InFlightFull);
        });
    }
}
