//! Erases a key: window rows, cached records, and records of embedded stores.
//!
//! Waits for disks and Redis, so a lane must not call it. Records in Redis stay: others write them, under
//! their own keys.

use crate::features::Features;
use crate::source::SourceKind;
use crate::window::persist::WindowStore;
use crate::window::shared;
use crate::{FeatureSettings, store};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Weak;

/// The number of rows removed by an erasure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErasedRows {
    pub windows: u64,
    pub cached: u64,
    pub stored: u64,
}

impl ErasedRows {
    pub fn total(&self) -> u64 {
        self.windows + self.cached + self.stored
    }
}

impl Features {
    /// Erases from all open windows, caches and stores, and from stored windows of former decisions.
    pub fn erase(&self, keys: &[String]) -> Result<ErasedRows, String> {
        let mut opened = self.lock();
        if let (None, Some(folder)) = (&opened.store, &self.settings.folder)
            && WindowStore::file(folder).exists()
        {
            opened.store = Some(WindowStore::open(folder, self.settings.wall.now_ms())?);
        }
        let windows: Vec<_> = opened.windows.iter().filter_map(Weak::upgrade).collect();
        let sources: Vec<_> = opened.sources.iter().filter_map(Weak::upgrade).collect();
        let mut erased = ErasedRows::default();
        for key in keys {
            let mut tables: BTreeSet<String> = BTreeSet::new();
            let held = windows.iter().filter(|window| window.forget(key));
            tables.extend(held.map(|window| window.table.clone()));
            if let Some(store) = &opened.store {
                tables.extend(store.erase(key)?);
            }
            erased.windows += tables.len() as u64;
            let token = self.tokens.token(key);
            erased.cached +=
                sources.iter().filter(|source| source.cache.forget(token.as_str())).count() as u64;
        }
        drop(opened);
        for window in windows.iter().filter(|window| window.def.source.is_some()) {
            erased.windows += shared::erase(window, keys)?;
        }
        let stores: BTreeSet<&Path> = sources
            .iter()
            .filter_map(|source| match &source.def.kind {
                SourceKind::Store { path } => Some(path.as_path()),
                SourceKind::Redis { .. } => None,
            })
            .collect();
        for path in stores.into_iter().filter(|path| path.exists()) {
            erased.stored += store::erase(path, keys)?;
        }
        Ok(erased)
    }
}

/// Erases without a running server: from a windows directory and from stores.
pub fn erase_kept(
    folder: Option<PathBuf>,
    stores: &[PathBuf],
    keys: &[String],
) -> Result<ErasedRows, String> {
    let mut erased = Features::new(FeatureSettings { folder, ..FeatureSettings::default() }).erase(keys)?;
    for path in stores {
        erased.stored += store::erase(path, keys)?;
    }
    Ok(erased)
}
