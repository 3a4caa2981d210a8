//! What a lane keeps for decisions: memory for requests, its way to features, random numbers, what runs beside, and its way to the log.

use super::ids::Ids;
use super::shadow::Shadows;
use super::work::Works;
use flyball_core::LaneRecorder;
use flyball_features::LaneFeatures;
use std::rc::Rc;

pub(crate) struct Desk<M> {
    pub(crate) ids: Ids,
    pub(crate) works: Rc<Works>,
    pub(crate) features: LaneFeatures,
    pub(crate) shadows: Shadows<M>,
    /// None: nothing is recorded.
    pub(crate) recorder: Option<Box<dyn LaneRecorder>>,
}

impl<M> Desk<M> {
    pub(crate) fn new(features: LaneFeatures, recorder: Option<Box<dyn LaneRecorder>>) -> Desk<M> {
        Desk { ids: Ids::new(), works: Rc::default(), features, shadows: Shadows::default(), recorder }
    }
}
