//! Features as one lane reads them. Its calls must be made on the lane's own runtime, inside its `LocalSet`.

use crate::{Features, Lookup, Source, Why, Window, WindowValue, Windowed};
use flyball_core::Nanos;
use std::rc::Rc;
use std::sync::Arc;

pub struct LaneFeatures {
    features: Arc<Features>,
    /// Connections belong to the lane's runtime.
    _stays: Rc<()>,
}

/// An event on its way into a window.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    pub key: &'a str,
    pub at_ms: i64,
    pub value: WindowValue<'a>,
    /// The value covers this event too.
    pub current: bool,
    /// The event is added. Runs that are not real (shadow, replay, offline) change nothing.
    pub write: bool,
}

impl LaneFeatures {
    pub(crate) fn new(features: Arc<Features>) -> LaneFeatures {
        LaneFeatures { features, _stays: Rc::new(()) }
    }

    /// The answer that is at hand, without waiting; none: ask by [`LaneFeatures::lookup`].
    pub fn lookup_cached(&self, _source: &Source, _key: &str) -> Option<Lookup> {
        None
    }

    /// The cached answer, or the source's. `deadline` is a point of the settings' clock.
    pub async fn lookup(&self, _source: &Source, _key: &str, deadline: Option<Nanos>) -> Lookup {
        let late = deadline.is_some_and(|deadline| self.features.settings.clock.now() >= deadline);
        Lookup::Failed { why: if late { Why::Timeout } else { Why::Down }, stale: None }
    }

    /// The value of an embedded window; none: it is shared by replicas, ask by [`LaneFeatures::window`].
    pub fn window_embedded(&self, window: &Window, _event: Event<'_>) -> Option<Windowed> {
        window.0.def.source.is_none().then_some(Windowed::Warming)
    }

    /// Reads a window as of the event's time and adds the event.
    pub async fn window(&self, window: &Window, event: Event<'_>, _deadline: Option<Nanos>) -> Windowed {
        self.window_embedded(window, event).unwrap_or(Windowed::Failed { why: Why::Down })
    }
}
