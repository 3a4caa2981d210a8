//! What a server knows about features, shared by all its lanes: sources with their caches, and windows.

use crate::source::SourceState;
use crate::window::WindowState;
use crate::{LaneFeatures, Source, SourceCounts, SourceDef, Wall, Window, WindowCounts, WindowDef};
use flyball_core::Clock;
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct FeatureSettings {
    /// Where embedded windows are kept over restarts; none: in memory alone.
    pub folder: Option<PathBuf>,
    /// Keys of one embedded window.
    pub window_keys_max: usize,
    pub clock: Clock,
    pub wall: Wall,
}

pub struct Features {
    pub(crate) settings: FeatureSettings,
}

impl Features {
    pub fn new(settings: FeatureSettings) -> Result<Arc<Features>, String> {
        Ok(Arc::new(Features { settings }))
    }

    /// At load time. A source that is not there yet is no fault: its lookups fail until it is.
    pub fn open(&self, def: SourceDef) -> Result<Source, String> {
        Ok(Source(Arc::new(SourceState { def, counters: Default::default() })))
    }

    /// At load time; reads what was kept.
    pub fn window(&self, def: WindowDef) -> Result<Window, String> {
        Ok(Window(Arc::new(WindowState { def, counters: Default::default() })))
    }

    /// For a lane's own thread.
    pub fn lane(self: &Arc<Self>) -> LaneFeatures {
        LaneFeatures::new(Arc::clone(self))
    }

    pub fn sources(&self) -> Vec<SourceCounts> {
        Vec::new()
    }

    pub fn windows(&self) -> Vec<WindowCounts> {
        Vec::new()
    }
}
