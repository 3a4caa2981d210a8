//! Replaced deployments that are kept warm, so that a rollback loads nothing, and the reasons of refused ones. Not visible to
//! lanes.

use crate::states::{DeploymentState, State};
use flyball_core::snapshot::IndexEntry;
use flyball_plane::Deployment;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

pub(crate) struct WarmPool<M> {
    /// The maximum of each name.
    kept_max: usize,
    /// By name; the last that served first.
    warm: HashMap<String, VecDeque<Arc<Deployment<M>>>>,
    /// By name.
    refused: BTreeMap<String, DeploymentState>,
}

impl<M> WarmPool<M> {
    pub(crate) fn new(kept_max: usize) -> WarmPool<M> {
        WarmPool { kept_max, warm: HashMap::new(), refused: BTreeMap::new() }
    }

    /// Keeps a replaced deployment, and returns the oldest if there are too many.
    pub(crate) fn keep(&mut self, replaced: Arc<Deployment<M>>) -> Option<Arc<Deployment<M>>> {
        let kept_max = self.kept_max;
        let warm = self.warm.entry(replaced.name.clone()).or_default();
        warm.push_front(replaced);
        if warm.len() > kept_max { warm.pop_back() } else { None }
    }

    pub(crate) fn has(&self, entry: &IndexEntry) -> bool {
        let mut warm = self.warm.get(&entry.name).into_iter().flatten();
        warm.any(|deployment| deployment.digest == entry.digest)
    }

    /// The warm deployment that was made from this document.
    pub(crate) fn take(&mut self, entry: &IndexEntry) -> Option<Arc<Deployment<M>>> {
        let warm = self.warm.get_mut(&entry.name)?;
        let place = warm.iter().position(|deployment| deployment.digest == entry.digest)?;
        warm.remove(place)
    }

    /// Removes all warm deployments of a name; the last that served first.
    pub(crate) fn take_all(&mut self, name: &str) -> Vec<Arc<Deployment<M>>> {
        self.warm.remove(name).into_iter().flatten().collect()
    }

    /// Removes everything of a name.
    pub(crate) fn forget(&mut self, name: &str) -> Vec<Arc<Deployment<M>>> {
        self.refused.remove(name);
        self.take_all(name)
    }

    /// Removes all warm deployments.
    pub(crate) fn drain(&mut self) -> Vec<Arc<Deployment<M>>> {
        self.warm.drain().flat_map(|(_, warm)| warm).collect()
    }

    /// Notes why a deployment was refused.
    pub(crate) fn refuse(&mut self, entry: &IndexEntry, generation: u64, reason: &str) {
        let IndexEntry { name, digest } = entry.clone();
        let (state, reason) = (State::Refused, Some(reason.to_owned()));
        let (version, signed, candidate) = (None, None, None);
        let state = DeploymentState { name, digest, generation, state, reason, version, signed, candidate };
        self.refused.insert(entry.name.clone(), state);
    }

    /// Clears a refusal: the name serves as requested.
    pub(crate) fn served(&mut self, name: &str) {
        self.refused.remove(name);
    }

    /// All names, including those that the last snapshot does not have.
    pub(crate) fn names(&self) -> Vec<String> {
        self.warm.keys().chain(self.refused.keys()).cloned().collect()
    }

    pub(crate) fn states(&self) -> impl Iterator<Item = DeploymentState> {
        let warm = self.warm.values().flatten();
        warm.map(|deployment| DeploymentState::of(deployment, State::Warm))
            .chain(self.refused.values().cloned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_core::Digest;
    use flyball_plane::testing::Made;

    fn warm(pool: &WarmPool<()>, name: &str) -> Vec<Digest> {
        pool.warm.get(name).into_iter().flatten().map(|deployment| deployment.digest).collect()
    }

    fn deployment(name: &str, document: &str) -> Arc<Deployment<()>> {
        Arc::new(Made::usual().deployment(name, Digest::of(document.as_bytes())))
    }

    fn entry(name: &str, document: &str) -> IndexEntry {
        IndexEntry { name: name.to_owned(), digest: Digest::of(document.as_bytes()) }
    }

    #[test]
    fn as_many_are_kept_of_each_name_as_was_asked_for_and_the_oldest_goes_first() {
        let mut pool = WarmPool::new(2);
        for document in ["1", "2"] {
            assert!(pool.keep(deployment("m", document)).is_none());
            assert!(pool.keep(deployment("n", document)).is_none());
        }
        let gone = pool.keep(deployment("m", "3")).expect("one too many");
        assert_eq!(gone.digest, Digest::of(b"1"));
        assert_eq!(warm(&pool, "m"), [Digest::of(b"3"), Digest::of(b"2")]);
        assert_eq!(warm(&pool, "n").len(), 2);
    }

    #[test]
    fn where_none_is_to_be_kept_what_was_replaced_comes_straight_back() {
        let mut pool = WarmPool::new(0);
        assert!(pool.keep(deployment("m", "1")).is_some());
        assert!(pool.take(&entry("m", "1")).is_none());
    }

    #[test]
    fn a_warm_one_is_found_by_its_name_and_document_and_only_once() {
        let mut pool = WarmPool::new(3);
        pool.keep(deployment("m", "1"));
        for other in [entry("m", "2"), entry("n", "1")] {
            assert!(!pool.has(&other) && pool.take(&other).is_none());
        }
        assert!(pool.has(&entry("m", "1")));
        assert!(pool.take(&entry("m", "1")).is_some());
        assert!(pool.take(&entry("m", "1")).is_none());
    }

    #[test]
    fn a_refusal_is_listed_with_what_is_warm_until_its_name_serves_or_is_forgotten() {
        let mut pool = WarmPool::new(1);
        pool.keep(deployment("m", "1"));
        pool.refuse(&entry("m", "2"), 7, "unsigned: 'm' is not signed");
        let states: Vec<_> = pool.states().map(|state| (state.state, state.generation)).collect();
        assert_eq!(states, [(State::Warm, 1), (State::Refused, 7)]);
        pool.served("m");
        assert_eq!(pool.states().count(), 1);
        assert_eq!(pool.forget("m").len(), 1);
        assert_eq!(pool.states().count(), 0);
    }

    #[test]
    fn everything_warm_is_drained_when_memory_is_short() {
        let mut pool = WarmPool::new(1);
        pool.keep(deployment("m", "1"));
        pool.keep(deployment("n", "1"));
        assert_eq!(pool.drain().len(), 2);
        assert!(pool.take(&entry("m", "1")).is_none());
    }
}
