//! The features of a server, shared by all lanes: sources with caches, and windows.

use crate::source::SourceState;
use crate::store::StoreReader;
use crate::tokens::Tokens;
use crate::window::WindowState;
use crate::window::persist::WindowStore;
use crate::{LaneFeatures, Source, SourceCounts, SourceDef, SourceKind, Window, WindowCounts, WindowDef};
use flyball_core::{Clock, WallClock};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

const OPENED_MAX: usize = 1024;

#[derive(Clone, Debug)]
pub struct FeatureSettings {
    /// The directory that persists embedded windows; none: memory only.
    pub folder: Option<PathBuf>,
    /// Maximum keys of one embedded window.
    pub window_keys_max: usize,
    pub clock: Clock,
    pub wall: WallClock,
}

impl Default for FeatureSettings {
    fn default() -> FeatureSettings {
        FeatureSettings {
            folder: None,
            window_keys_max: 1_000_000,
            clock: Clock::system(),
            wall: WallClock::system(),
        }
    }
}

pub struct Features {
    pub(crate) settings: FeatureSettings,
    /// Tokens of cached records, and of windows without a directory.
    pub(crate) tokens: Arc<Tokens>,
    opened: Mutex<OpenState>,
}

/// Open sources and windows. Loads are rare and few, so lists suffice.
#[derive(Default)]
pub(crate) struct OpenState {
    pub(crate) sources: Vec<Weak<SourceState>>,
    pub(crate) windows: Vec<Weak<WindowState>>,
    reader: Weak<StoreReader>,
    /// Opened with the first window, so that a server without windows needs no directory.
    pub(crate) store: Option<WindowStore>,
}

impl Features {
    pub fn new(settings: FeatureSettings) -> Arc<Features> {
        Arc::new(Features { settings, tokens: Arc::new(Tokens::random()), opened: Mutex::default() })
    }

    /// Opens a source at load time. An unreachable source is not a fault: its lookups fail until it is back.
    pub fn open(&self, def: SourceDef) -> Result<Source, String> {
        let mut opened = self.lock();
        let OpenState { sources, reader, .. } = &mut *opened;
        sources.retain(|source| source.strong_count() > 0);
        let known = sources.iter().filter_map(Weak::upgrade).find(|source| source.def == def);
        if let Some(known) = known {
            return Ok(Source(known));
        }
        if sources.len() >= OPENED_MAX {
            return Err(format!("a server can have at most {OPENED_MAX} feature sources"));
        }
        let source = Arc::new(SourceState::open(def, || {
            if let Some(running) = reader.upgrade() {
                return Ok(running);
            }
            let started = Arc::new(StoreReader::start()?);
            *reader = Arc::downgrade(&started);
            Ok(started)
        })?);
        sources.push(Arc::downgrade(&source));
        Ok(Source(source))
    }

    /// Opens a window at load time and reads its stored state.
    pub fn window(&self, def: WindowDef) -> Result<Window, String> {
        if let Some(source) = &def.source
            && !matches!(source.0.def.kind, SourceKind::Redis { .. })
        {
            return Err("the source of a window must be redis; without a source it is embedded".to_owned());
        }
        let mut opened = self.lock();
        opened.windows.retain(|window| window.strong_count() > 0);
        let known = opened.windows.iter().filter_map(Weak::upgrade).find(|window| window.is(&def));
        if known.is_none() && opened.windows.len() >= OPENED_MAX {
            return Err(format!("a server can have at most {OPENED_MAX} windows"));
        }
        if let (None, Some(folder), None) = (&opened.store, &self.settings.folder, &def.source) {
            opened.store = Some(WindowStore::open(folder, self.settings.wall.now_ms())?);
        }
        let window = match known {
            Some(known) => known,
            None => {
                let store = opened.store.as_ref();
                let tokens = Arc::clone(store.map_or(&self.tokens, |store| &store.tokens));
                let made = WindowState::open(def, self.settings.window_keys_max, store, tokens)?;
                opened.windows.push(Arc::downgrade(&made));
                made
            }
        };
        if let Some(store) = &opened.store {
            // Again if it is known: the store may just have released it.
            store.adopt(&window);
        }
        Ok(Window(window))
    }

    /// Writes pending window changes and releases the directory. Call it at shutdown, once no lane reads.
    pub fn close(&self) {
        let store = self.lock().store.take();
        drop(store);
    }

    /// For a lane's own thread.
    pub fn lane(self: &Arc<Self>) -> LaneFeatures {
        LaneFeatures::new(Arc::clone(self))
    }

    /// Counts of all sources; those of the same kind and set are merged.
    pub fn sources(&self) -> Vec<SourceCounts> {
        let mut all: Vec<SourceCounts> = Vec::new();
        for counts in self.lock().sources.iter().filter_map(Weak::upgrade).map(|source| source.counts()) {
            match all.iter_mut().find(|known| known.kind == counts.kind && known.set == counts.set) {
                Some(known) => known.add(&counts),
                None => all.push(counts),
            }
        }
        all
    }

    pub fn windows(&self) -> Vec<WindowCounts> {
        self.lock().windows.iter().filter_map(Weak::upgrade).map(|window| window.counts()).collect()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, OpenState> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
