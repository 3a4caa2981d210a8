//! What is random about decisions: their ids, and the draw of those that stick to no variant.

use flyball_core::DecisionId;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;

/// A lane's own source of random numbers, seeded by the operating system.
pub(crate) struct Ids(RefCell<ChaCha8Rng>);

impl Ids {
    pub(crate) fn new() -> Ids {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).expect("the operating system has random numbers");
        Ids(RefCell::new(ChaCha8Rng::from_seed(seed)))
    }

    pub(crate) fn id(&self, unix_ms: i64) -> DecisionId {
        let random = (u128::from(self.draw()) << 64) | u128::from(self.draw());
        DecisionId::new(u64::try_from(unix_ms).unwrap_or(0), random)
    }

    pub(crate) fn draw(&self) -> u64 {
        self.0.borrow_mut().next_u64()
    }
}
