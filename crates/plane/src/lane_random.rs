//! A lane's random numbers: decision ids, and the draws that choose variants and candidates.

use flyball_core::DecisionId;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;

/// A lane's own generator, seeded by the operating system.
pub(crate) struct LaneRandom(RefCell<ChaCha8Rng>);

impl LaneRandom {
    pub(crate) fn new() -> LaneRandom {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("the operating system has random numbers");
        LaneRandom(RefCell::new(ChaCha8Rng::from_seed(seed)))
    }

    pub(crate) fn id(&self, unix_ms: i64) -> DecisionId {
        let random = (u128::from(self.draw()) << 64) | u128::from(self.draw());
        DecisionId::new(u64::try_from(unix_ms).unwrap_or(0), random)
    }

    pub(crate) fn draw(&self) -> u64 {
        self.0.borrow_mut().next_u64()
    }
}
