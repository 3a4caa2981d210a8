//! What stands behind the routes: deployments that were replaced and are kept warm, so that going back to one loads nothing;
//! and what was refused. Nothing here is seen by a lane.

use crate::Deployment;
use crate::states::{DeploymentState, State};
use flyball_core::snapshot::IndexEntry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

pub(super) struct Behind<M> {
    /// Of each name.
    kept_max: usize,
    /// The last that served is the first.
    warm: HashMap<String, VecDeque<Arc<Deployment<M>>>>,
    /// By name.
    refused: BTreeMap<String, DeploymentState>,
}

impl<M> Behind<M> {
    pub(super) fn new(kept_max: usize) -> Behind<M> {
        Behind { kept_max, warm: HashMap::new(), refused: BTreeMap::new() }
    }

    /// Keeps what was replaced, and gives what is one too many.
    pub(super) fn keep(&mut self, replaced: Arc<Deployment<M>>) -> Option<Arc<Deployment<M>>> {
        let kept_max = self.kept_max;
        let warm = self.warm.entry(replaced.name.clone()).or_default();
        warm.push_front(replaced);
        if warm.len() > kept_max { warm.pop_back() } else { None }
    }

    pub(super) fn has(&self, entry: &IndexEntry) -> bool {
        let mut warm = self.warm.get(&entry.name).into_iter().flatten();
        warm.any(|deployment| deployment.digest == entry.digest)
    }

    /// What was made from this very document.
    pub(super) fn take(&mut self, entry: &IndexEntry) -> Option<Arc<Deployment<M>>> {
        let warm = self.warm.get_mut(&entry.name)?;
        let place = warm.iter().position(|deployment| deployment.digest == entry.digest)?;
        warm.remove(place)
    }

    /// Everything warm of a name; the last that served is the first.
    pub(super) fn take_all(&mut self, name: &str) -> Vec<Arc<Deployment<M>>> {
        self.warm.remove(name).into_iter().flatten().collect()
    }

    /// Nobody goes back to what is not asked for any more.
    pub(super) fn forget(&mut self, name: &str) -> Vec<Arc<Deployment<M>>> {
        self.refused.remove(name);
        self.take_all(name)
    }

    /// Everything that is warm.
    pub(super) fn let_go(&mut self) -> Vec<Arc<Deployment<M>>> {
        self.warm.drain().flat_map(|(_, warm)| warm).collect()
    }

    /// Keeps in mind why something does not serve.
    pub(super) fn refuse(&mut self, entry: &IndexEntry, generation: u64, reason: &str) {
        let IndexEntry { name, digest } = entry.clone();
        let (state, reason) = (State::Refused, Some(reason.to_owned()));
        let (version, signed, candidate) = (None, None, None);
        let state = DeploymentState { name, digest, generation, state, reason, version, signed, candidate };
        self.refused.insert(entry.name.clone(), state);
    }

    /// What was refused is past: something else serves, as it was asked for.
    pub(super) fn served(&mut self, name: &str) {
        self.refused.remove(name);
    }

    /// The names here, of which a snapshot may know nothing any more.
    pub(super) fn names(&self) -> Vec<String> {
        self.warm.keys().chain(self.refused.keys()).cloned().collect()
    }

    pub(super) fn states(&self) -> impl Iterator<Item = DeploymentState> {
        let warm = self.warm.values().flatten();
        warm.map(|deployment| DeploymentState::of(deployment, State::Warm))
            .chain(self.refused.values().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Made;
    use flyball_core::Digest;

    fn warm(behind: &Behind<()>, name: &str) -> Vec<Digest> {
        behind.warm.get(name).into_iter().flatten().map(|deployment| deployment.digest).collect()
    }

    fn deployment(name: &str, document: &str) -> Arc<Deployment<()>> {
        Arc::new(Made::usual().deployment(name, Digest::of(document.as_bytes())))
    }

    fn entry(name: &str, document: &str) -> IndexEntry {
        IndexEntry { name: name.to_owned(), digest: Digest::of(document.as_bytes()) }
    }

    #[test]
    fn as_many_are_kept_of_each_name_as_was_asked_for_and_the_oldest_goes_first() {
        let mut behind = Behind::new(2);
        for document in ["1", "2"] {
            assert!(behind.keep(deployment("m", document)).is_none());
            assert!(behind.keep(deployment("n", document)).is_none());
        }
        let gone = behind.keep(deployment("m", "3")).expect("one too many");
        assert_eq!(gone.digest, Digest::of(b"1"));
        assert_eq!(warm(&behind, "m"), [Digest::of(b"3"), Digest::of(b"2")]);
        assert_eq!(warm(&behind, "n").len(), 2);
    }

    #[test]
    fn where_none_is_to_be_kept_what_was_replaced_comes_straight_back() {
        let mut behind = Behind::new(0);
        assert!(behind.keep(deployment("m", "1")).is_some());
        assert!(behind.take(&entry("m", "1")).is_none());
    }

    #[test]
    fn a_warm_one_is_found_by_its_name_and_document_and_only_once() {
        let mut behind = Behind::new(3);
        behind.keep(deployment("m", "1"));
        for other in [entry("m", "2"), entry("n", "1")] {
            assert!(!behind.has(&other) && behind.take(&other).is_none());
        }
        assert!(behind.has(&entry("m", "1")));
        assert!(behind.take(&entry("m", "1")).is_some());
        assert!(behind.take(&entry("m", "1")).is_none());
    }

    #[test]
    fn what_is_refused_stands_beside_what_is_warm_until_its_name_serves_or_is_forgotten() {
        let mut behind = Behind::new(1);
        behind.keep(deployment("m", "1"));
        behind.refuse(&entry("m", "2"), 7, "unsigned: 'm' is not signed");
        let states: Vec<_> = behind.states().map(|state| (state.state, state.generation)).collect();
        assert_eq!(states, [(State::Warm, 1), (State::Refused, 7)]);
        behind.served("m");
        assert_eq!(behind.states().count(), 1);
        assert_eq!(behind.forget("m").len(), 1);
        assert_eq!(behind.states().count(), 0);
    }

    #[test]
    fn everything_warm_is_let_go_when_memory_is_short() {
        let mut behind = Behind::new(1);
        behind.keep(deployment("m", "1"));
        behind.keep(deployment("n", "1"));
        assert_eq!(behind.let_go().len(), 2);
        assert!(behind.take(&entry("m", "1")).is_none());
    }
}
