//! What a lane keeps for decisions: memory for requests, its way to features, random numbers, and what runs beside.

use super::ids::Ids;
use super::shadow::Shadows;
use super::work::Works;
use flyball_features::LaneFeatures;
use std::rc::Rc;

pub(crate) struct Desk<M> {
    pub(crate) ids: Ids,
    pub(crate) works: Rc<Works>,
    pub(crate) features: LaneFeatures,
    pub(crate) shadows: Shadows<M>,
}

impl<M> Desk<M> {
    pub(crate) fn new(features: LaneFeatures) -> Desk<M> {
        Desk { ids: Ids::new(), works: Rc::default(), features, shadows: Shadows::default() }
    }
}
