//! The routing table that lanes read: immutable, replaced whole behind an atomic pointer.

use crate::Deployment;
use std::collections::HashMap;
use std::sync::Arc;

pub struct Routes<M> {
    serving: HashMap<String, Arc<Deployment<M>>>,
    /// Deployments that the snapshot names but that could not be loaded, with the reason.
    not_ready: HashMap<String, String>,
}

impl<M> Default for Routes<M> {
    fn default() -> Routes<M> {
        Routes { serving: HashMap::new(), not_ready: HashMap::new() }
    }
}

impl<M> Clone for Routes<M> {
    fn clone(&self) -> Routes<M> {
        Routes { serving: self.serving.clone(), not_ready: self.not_ready.clone() }
    }
}

impl<M> Routes<M> {
    pub fn get(&self, name: &str) -> Option<&Arc<Deployment<M>>> {
        self.serving.get(name)
    }

    pub fn not_ready(&self, name: &str) -> Option<&str> {
        self.not_ready.get(name).map(String::as_str)
    }

    pub fn deployments(&self) -> impl Iterator<Item = &Arc<Deployment<M>>> {
        self.serving.values()
    }

    pub(crate) fn serve(&mut self, deployment: Arc<Deployment<M>>) -> Option<Arc<Deployment<M>>> {
        self.not_ready.remove(&deployment.name);
        self.serving.insert(deployment.name.clone(), deployment)
    }

    /// A refused deployment keeps its last good state; only one that never served is marked.
    pub(crate) fn refuse(&mut self, name: &str, reason: &str) {
        if !self.serving.contains_key(name) {
            self.not_ready.insert(name.to_owned(), reason.to_owned());
        }
    }

    /// Drops what the snapshot no longer names, and gives back what was served.
    pub(crate) fn retain(&mut self, named: impl Fn(&str) -> bool) -> Vec<Arc<Deployment<M>>> {
        self.not_ready.retain(|name, _| named(name));
        let gone: Vec<String> = self.serving.keys().filter(|name| !named(name)).cloned().collect();
        gone.iter().filter_map(|name| self.serving.remove(name)).collect()
    }
}
