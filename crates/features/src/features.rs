//! What a server knows about features, shared by all its lanes: sources with their caches, and windows.

use crate::source::SourceState;
use crate::store::StoreReader;
use crate::tokens::Tokens;
use crate::window::WindowState;
use crate::window::kept::Keeper;
use crate::{LaneFeatures, Source, SourceCounts, SourceDef, SourceKind, Window, WindowCounts, WindowDef};
use flyball_core::{Clock, Wall};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

const OPENED_MAX: usize = 1024;

#[derive(Clone, Debug)]
pub struct FeatureSettings {
    /// Where embedded windows are kept over restarts; none: in memory alone.
    pub folder: Option<PathBuf>,
    /// Keys of one embedded window.
    pub window_keys_max: usize,
    pub clock: Clock,
    pub wall: Wall,
}

impl Default for FeatureSettings {
    fn default() -> FeatureSettings {
        FeatureSettings {
            folder: None,
            window_keys_max: 1_000_000,
            clock: Clock::system(),
            wall: Wall::system(),
        }
    }
}

pub struct Features {
    pub(crate) settings: FeatureSettings,
    /// Of cached records, and of windows that no folder keeps.
    pub(crate) tokens: Arc<Tokens>,
    opened: Mutex<Opened>,
}

/// What somebody still has. Loads are rare and few: lists do.
#[derive(Default)]
pub(crate) struct Opened {
    pub(crate) sources: Vec<Weak<SourceState>>,
    pub(crate) windows: Vec<Weak<WindowState>>,
    reader: Weak<StoreReader>,
    /// Opened with the first window, so that a server without windows needs no folder.
    pub(crate) keeper: Option<Keeper>,
}

impl Features {
    pub fn new(settings: FeatureSettings) -> Arc<Features> {
        Arc::new(Features { settings, tokens: Arc::new(Tokens::random()), opened: Mutex::default() })
    }

    /// At load time. A source that is not there yet is no fault: its lookups fail until it is.
    pub fn open(&self, def: SourceDef) -> Result<Source, String> {
        let mut opened = self.lock();
        let Opened { sources, reader, .. } = &mut *opened;
        sources.retain(|source| source.strong_count() > 0);
        let known = sources.iter().filter_map(Weak::upgrade).find(|source| source.def == def);
        if let Some(known) = known {
            return Ok(Source(known));
        }
        if sources.len() >= OPENED_MAX {
            return Err(format!("a server has at most {OPENED_MAX} sources of features"));
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

    /// At load time; reads what was kept.
    pub fn window(&self, def: WindowDef) -> Result<Window, String> {
        if let Some(source) = &def.source
            && !matches!(source.0.def.kind, SourceKind::Redis { .. })
        {
            return Err("a window's source is a redis source; without one it is embedded".to_owned());
        }
        let mut opened = self.lock();
        opened.windows.retain(|window| window.strong_count() > 0);
        let known = opened.windows.iter().filter_map(Weak::upgrade).find(|window| window.is(&def));
        if known.is_none() && opened.windows.len() >= OPENED_MAX {
            return Err(format!("a server has at most {OPENED_MAX} windows"));
        }
        if let (None, Some(folder), None) = (&opened.keeper, &self.settings.folder, &def.source) {
            opened.keeper = Some(Keeper::open(folder, self.settings.wall.now_ms())?);
        }
        let window = match known {
            Some(known) => known,
            None => {
                let keeper = opened.keeper.as_ref();
                let tokens = Arc::clone(keeper.map_or(&self.tokens, |keeper| &keeper.tokens));
                let made = WindowState::open(def, self.settings.window_keys_max, keeper, tokens)?;
                opened.windows.push(Arc::downgrade(&made));
                made
            }
        };
        if let Some(keeper) = &opened.keeper {
            // Again where it is known: the keeper may just have let it go.
            keeper.adopt(&window);
        }
        Ok(Window(window))
    }

    /// Writes what windows have not written yet, and lets go of their folder. At the end of a server, once no lane reads.
    pub fn close(&self) {
        let keeper = self.lock().keeper.take();
        drop(keeper);
    }

    /// For a lane's own thread.
    pub fn lane(self: &Arc<Self>) -> LaneFeatures {
        LaneFeatures::new(Arc::clone(self))
    }

    /// Those of one kind and set are told as one.
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

    pub(crate) fn lock(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
