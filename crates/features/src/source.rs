//! Where records are looked up: what a source is, and what all lanes share of it.

use crate::cache::{Flights, HotCache};
use crate::counters::SourceCounters;
use crate::store::StoreReader;
use crate::{SourceCounts, Why, link};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const SET_BYTES_MAX: usize = 128;
/// The keys of windows in Redis begin with it as those of records do with their set.
const WINDOW_SET: &str = "window";
/// A disk that takes longer is as good as none.
const STORE_TIMEOUT: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// Redis or Valkey. The address may have a password; it is never shown.
    Redis { url: String, timeout: Duration },
    /// The embedded store: a file that `flyball features push` writes.
    Store { path: PathBuf },
}

/// How long records are used without asking again, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheDef {
    pub ttl: Duration,
    /// The same for "there is none".
    pub absent_ttl: Duration,
    pub entries_max: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceDef {
    pub kind: SourceKind,
    /// The records of one kind of key, such as `cards`.
    pub set: String,
    pub cache: CacheDef,
}

/// A source that was opened. Clones are the same one; what it keeps goes with the last of them.
#[derive(Clone)]
pub struct Source(pub(crate) Arc<SourceState>);

pub(crate) struct SourceState {
    pub(crate) def: SourceDef,
    pub(crate) counters: Arc<SourceCounters>,
    pub(crate) cache: HotCache,
    pub(crate) flights: Flights,
    /// Of the embedded store.
    pub(crate) reader: Option<Arc<StoreReader>>,
}

impl SourceState {
    /// A definition that can be used; whether anyone is there is not asked.
    pub(crate) fn open(
        def: SourceDef,
        reader: impl FnOnce() -> Result<Arc<StoreReader>, String>,
    ) -> Result<SourceState, String> {
        check_set(&def.set)?;
        let reader = match &def.kind {
            SourceKind::Redis { url, timeout } => {
                link::client(url)?;
                if timeout.is_zero() {
                    return Err("the timeout of a redis source is at least 1 ms".to_owned());
                }
                None
            }
            SourceKind::Store { .. } => Some(reader()?),
        };
        let counters = Arc::<SourceCounters>::default();
        let cache = HotCache::new(def.cache, &counters);
        Ok(SourceState { def, counters, cache, flights: Flights::default(), reader })
    }

    pub(crate) fn timeout(&self) -> Duration {
        match &self.def.kind {
            SourceKind::Redis { timeout, .. } => *timeout,
            SourceKind::Store { .. } => STORE_TIMEOUT,
        }
    }

    pub(crate) fn failed(&self, why: Why) {
        let counters = &self.counters;
        let counter = match why {
            Why::Timeout => &counters.timeouts,
            Why::Down => &counters.down,
            Why::Bad => &counters.bad,
            Why::Busy => &counters.busy,
        };
        counter.add();
    }

    pub(crate) fn counts(&self) -> SourceCounts {
        let counters = &self.counters;
        SourceCounts {
            kind: match &self.def.kind {
                SourceKind::Redis { .. } => "redis",
                SourceKind::Store { .. } => "store",
            },
            set: self.def.set.clone(),
            hits: counters.hits.get(),
            misses: counters.misses.get(),
            stale: counters.stale.get(),
            timeouts: counters.timeouts.get(),
            down: counters.down.get(),
            bad: counters.bad.get(),
            busy: counters.busy.get(),
            evictions: counters.evictions.get(),
            entries: self.cache.len() as u64,
        }
    }
}

/// A set's name stands in keys and tables.
pub(crate) fn check_set(set: &str) -> Result<(), String> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if set.is_empty() || set.len() > SET_BYTES_MAX || !set.chars().all(fits) {
        return Err(format!(
            "set {set:?} is not a name of 1 to {SET_BYTES_MAX} letters, digits, '-', '_' and '.'"
        ));
    }
    if set == WINDOW_SET {
        return Err(format!("set {set:?} is where Redis holds windows; give the records another set"));
    }
    Ok(())
}

/// Where Redis holds the record of a key.
pub(crate) fn redis_key(set: &str, key: &str) -> String {
    format!("flyball:{set}:{key}")
}
