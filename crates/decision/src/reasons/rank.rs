//! Turns column contributions into reasons.
//!
//! Adds the columns of one field or feature, and ranks those that pushed towards the adverse end, largest
//! first. Knows neither models nor rules.

use crate::document::{BandDocument, PolicyDocument, ReasonsDocument};
use flyball_core::Reason;
use smallvec::SmallVec;
use std::sync::Arc;

/// The adverse end of the score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdverseEnd {
    High,
    Low,
}

impl AdverseEnd {
    /// Low only if the lowest band's outcome is worse than the highest band's.
    pub fn of(policy: &PolicyDocument) -> AdverseEnd {
        let start = |band: &&BandDocument| band.from.unwrap_or(f64::NEG_INFINITY);
        let severity = |band: Option<&BandDocument>| {
            let outcome = band.map(|band| band.outcome.as_ref().unwrap_or(&band.name));
            policy.outcomes.iter().position(|name| Some(name) == outcome)
        };
        let lowest = policy.bands.iter().min_by(|a, b| start(a).total_cmp(&start(b)));
        let highest = policy.bands.iter().max_by(|a, b| start(a).total_cmp(&start(b)));
        if severity(lowest) > severity(highest) { AdverseEnd::Low } else { AdverseEnd::High }
    }
}

/// The source and reason of each column of a model.
#[derive(Debug)]
pub struct ReasonTable {
    /// By column, the index of its source.
    columns: Vec<u32>,
    sources: Vec<Source>,
}

#[derive(Debug)]
struct Source {
    name: Arc<str>,
    code: Arc<str>,
    text: Option<Arc<str>>,
}

impl ReasonTable {
    /// `columns` has the field or feature of each column, in the model's order.
    pub fn new(columns: &[Arc<str>], reasons: &ReasonsDocument) -> ReasonTable {
        let mut table = ReasonTable { columns: Vec::with_capacity(columns.len()), sources: Vec::new() };
        for name in columns {
            let known = table.sources.iter().position(|source| source.name == *name);
            let place = known.unwrap_or_else(|| {
                let code =
                    reasons.codes.get(&**name).map_or_else(|| name.clone(), |code| code.as_str().into());
                let text = reasons.texts.get(&*code).map(|text| text.as_str().into());
                table.sources.push(Source { name: name.clone(), code, text });
                table.sources.len() - 1
            });
            table.columns.push(place as u32);
        }
        table
    }

    /// At most `most` reasons. Omits contributions that are opposite, zero or not finite; breaks ties by
    /// name.
    pub fn rank(
        &self,
        contributions: &[f64],
        adverse: AdverseEnd,
        most: usize,
        sums: &mut Vec<f64>,
    ) -> SmallVec<[Reason; 4]> {
        sums.clear();
        sums.resize(self.sources.len(), 0.0);
        for (contribution, source) in contributions.iter().zip(&self.columns) {
            sums[*source as usize] += contribution;
        }
        let push = |place: u32| match adverse {
            AdverseEnd::High => sums[place as usize],
            AdverseEnd::Low => -sums[place as usize],
        };
        let name = |place: u32| &self.sources[place as usize].name;
        let mut places: SmallVec<[u32; 32]> = (0..sums.len() as u32).collect();
        places.retain(|place| push(*place) > 0.0 && push(*place).is_finite());
        places.sort_unstable_by(|a, b| push(*b).total_cmp(&push(*a)).then_with(|| name(*a).cmp(name(*b))));
        let reason = |place: &u32| {
            let Source { name, code, text } = &self.sources[*place as usize];
            let contribution = Some((name.clone(), sums[*place as usize]));
            Reason { code: code.clone(), text: text.clone(), contribution }
        };
        places.iter().take(most).map(reason).collect()
    }
}
