//! What a lane has for decisions: reusable buffers, features, random numbers, shadows and its recorder.

use crate::lane_random::LaneRandom;
use crate::row_buffers::BufferPool;
use crate::shadow_walk::Shadows;
use flyball_core::LaneRecorder;
use flyball_features::LaneFeatures;
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
        LaneServices {
            random: LaneRandom::new(),
            buffers: Rc::default(),
            features,
            shadows: Shadows::default(),
            recorder,
        }
    }
}
