//! Admission as a value: a `Permit` is the right to run a model once, and permits are limited.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A limit on concurrent requests.
#[derive(Debug)]
pub struct Gate {
    inside: AtomicUsize,
    pub(crate) inside_max: usize,
}

impl Gate {
    pub fn new(inside_max: usize) -> Arc<Gate> {
        Arc::new(Gate { inside: AtomicUsize::new(0), inside_max })
    }

    /// Whether at least half of the slots are free.
    pub(crate) fn mostly_free(&self) -> bool {
        self.inside() <= self.inside_max / 2
    }

    /// The slots in use.
    pub(crate) fn inside(&self) -> usize {
        self.inside.load(Ordering::Relaxed)
    }

    /// A slot, released when dropped; `None` when all are in use.
    pub(crate) fn try_enter(self: &Arc<Gate>) -> Option<Place> {
        let before = self.inside.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(self));
        // A slot beyond the limit is released at once, by dropping it.
        (before < self.inside_max).then_some(place)
    }
}

#[derive(Debug)]
pub(crate) struct Place(Arc<Gate>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The right to run a model once. Only the admit stage makes one.
#[derive(Debug)]
pub(crate) struct Permit {
    pub(crate) _server: Place,
    pub(crate) _deployment: Place,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_gate_refuses_and_opens_again_when_a_place_is_given_back() {
        let gate = Gate::new(2);
        let first = gate.try_enter();
        let second = gate.try_enter();
        assert!(first.is_some() && second.is_some());
        assert!(gate.try_enter().is_none());
        assert!(gate.try_enter().is_none(), "a refusal must not take a place");
        drop(first);
        assert!(gate.try_enter().is_some());
    }
}
