//! The parts of a lane that only decisions use: buffers, features, random numbers, shadows and its recorder.

use crate::row_buffers::BufferPool;
use crate::shadow_walk::Shadows;
use flyball_core::{DecisionId, LaneRecorder};
use flyball_features::LaneFeatures;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;

pub(crate) struct LaneServices<M> {
    pub(crate) random: LaneRandom,
    pub(crate) buffers: Rc<BufferPool>,
    pub(crate) features: LaneFeatures,
    pub(crate) shadows: Shadows<M>,
    /// None where nothing is recorded.
    pub(crate) recorder: Option<Box<dyn LaneRecorder>>,
}

impl<M> LaneServices<M> {
    pub(crate) fn new(features: LaneFeatures, recorder: Option<Box<dyn LaneRecorder>>) -> LaneServices<M> {
        let (random, shadows) = (LaneRandom::new(), Shadows::default());
        LaneServices { random, buffers: Rc::default(), features, shadows, recorder }
    }
}

/// A lane's random numbers, for decision ids and for choosing variants and candidates.
pub(crate) struct LaneRandom(RefCell<ChaCha8Rng>);

impl LaneRandom {
    /// Seeded by the operating system.
    fn new() -> LaneRandom {
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
