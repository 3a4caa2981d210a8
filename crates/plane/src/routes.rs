//! The routing table that lanes read: immutable, replaced whole behind an atomic pointer.

use crate::Deployment;
use std::collections::HashMap;
use std::sync::{Arc, Weak};

pub struct Routes<M> {
    serving: HashMap<String, Arc<Deployment<M>>>,
    /// Known deployments that do not serve.
    absent: HashMap<String, Arc<Absence<M>>>,
}

/// Why a deployment does not serve.
pub struct Absence<M> {
    /// Empty if nobody has loaded it.
    pub reason: String,
    /// It is being loaded.
    pub loading: bool,
    /// Its former versions; empty if it was never loaded.
    pub versions: Vec<String>,
    /// The former deployment, while requests in flight hold it.
    leaving: Weak<Deployment<M>>,
}

/// The reason of a deployment that a client unloaded.
const UNLOADED: &str = "unloaded";

impl<M> Absence<M> {
    /// Whether it should serve and does not: it is being loaded, or was refused.
    pub fn is_wanted(&self) -> bool {
        self.loading || !matches!(self.reason.as_str(), "" | UNLOADED)
    }

    /// Whether requests from before the unload are still in flight.
    pub fn leaving(&self) -> bool {
        self.leaving.strong_count() > 0
    }
}

impl<M> Default for Routes<M> {
    fn default() -> Routes<M> {
        Routes { serving: HashMap::new(), absent: HashMap::new() }
    }
}

impl<M> Clone for Routes<M> {
    fn clone(&self) -> Routes<M> {
        Routes { serving: self.serving.clone(), absent: self.absent.clone() }
    }
}

impl<M> Routes<M> {
    pub fn get(&self, name: &str) -> Option<&Arc<Deployment<M>>> {
        self.serving.get(name)
    }

    /// Why a known deployment does not serve.
    pub fn absence(&self, name: &str) -> Option<&Absence<M>> {
        self.absent.get(name).map(|absence| &**absence)
    }

    pub fn deployments(&self) -> impl Iterator<Item = &Arc<Deployment<M>>> {
        self.serving.values()
    }

    /// Known deployments that do not serve, by name.
    pub fn absent(&self) -> impl Iterator<Item = (&str, &Absence<M>)> {
        self.absent.iter().map(|(name, absence)| (name.as_str(), &**absence))
    }

    pub fn serve(&mut self, deployment: Arc<Deployment<M>>) -> Option<Arc<Deployment<M>>> {
        self.absent.remove(&deployment.name);
        self.serving.insert(deployment.name.clone(), deployment)
    }

    /// Marks a deployment as loading. One that serves keeps serving meanwhile.
    pub fn load(&mut self, name: &str) {
        self.mark(name, "it is being loaded; try again shortly", true);
    }

    /// Marks a deployment as refused, unless its last good state serves.
    pub fn refuse(&mut self, name: &str, reason: &str) {
        self.mark(name, reason, false);
    }

    /// Removes a deployment, and marks it as unloaded.
    pub fn unload(&mut self, name: &str) -> Option<Arc<Deployment<M>>> {
        self.withdraw(name, UNLOADED)
    }

    /// Removes a deployment for this reason, which callers see.
    pub fn withdraw(&mut self, name: &str, reason: &str) -> Option<Arc<Deployment<M>>> {
        let gone = self.serving.remove(name)?;
        let versions = gone.versions.iter().map(|model| model.version.to_string()).collect();
        let leaving = Arc::downgrade(&gone);
        let absence = Absence { reason: reason.to_owned(), loading: false, versions, leaving };
        self.absent.insert(name.to_owned(), Arc::new(absence));
        Some(gone)
    }

    /// Drops deployments that the snapshot does not name, and returns those that served.
    pub fn retain(&mut self, named: impl Fn(&str) -> bool) -> Vec<Arc<Deployment<M>>> {
        self.absent.retain(|name, _| named(name));
        let gone: Vec<String> = self.serving.keys().filter(|name| !named(name)).cloned().collect();
        gone.iter().filter_map(|name| self.serving.remove(name)).collect()
    }

    fn mark(&mut self, name: &str, reason: &str, loading: bool) {
        if self.serving.contains_key(name) {
            return;
        }
        let before = self.absent.get(name);
        let (versions, leaving) =
            before.map(|before| (before.versions.clone(), before.leaving.clone())).unwrap_or_default();
        let absence = Absence { reason: reason.to_owned(), loading, versions, leaving };
        self.absent.insert(name.to_owned(), Arc::new(absence));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Made;
    use flyball_core::Digest;

    fn deployment() -> Arc<Deployment<()>> {
        Arc::new(Made::usual().deployment("m", Digest::of(b"m")))
    }

    fn absence(routes: &Routes<()>) -> (String, bool, Vec<String>, bool) {
        let (name, absence) = routes.absent().next().expect("one is absent");
        assert_eq!(name, "m");
        (absence.reason.clone(), absence.loading, absence.versions.clone(), absence.leaving())
    }

    #[test]
    fn an_unloaded_deployment_is_known_and_leaves_until_nobody_holds_it() {
        let mut routes = Routes::default();
        assert!(routes.serve(deployment()).is_none());
        let gone = routes.unload("m").expect("it served");
        assert_eq!(absence(&routes), ("unloaded".to_owned(), false, vec!["1".to_owned()], true));
        drop(gone);
        assert_eq!(absence(&routes), ("unloaded".to_owned(), false, vec!["1".to_owned()], false));
        assert!(routes.unload("m").is_none());
    }

    #[test]
    fn what_serves_is_not_marked_by_a_load_or_a_refusal() {
        let mut routes = Routes::default();
        routes.load("m");
        assert!(absence(&routes).1);
        routes.serve(deployment());
        routes.load("m");
        routes.refuse("m", "its file is broken");
        assert!(routes.absence("m").is_none() && routes.get("m").is_some());
    }

    #[test]
    fn a_load_that_is_refused_says_why_and_keeps_the_versions() {
        let mut routes = Routes::default();
        routes.serve(deployment());
        drop(routes.unload("m"));
        routes.load("m");
        routes.refuse("m", "its file is broken");
        assert_eq!(absence(&routes), ("its file is broken".to_owned(), false, vec!["1".to_owned()], false));
    }
}
