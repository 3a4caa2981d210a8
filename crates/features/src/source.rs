//! A source of records: its definition, and the state that lanes share.

use crate::cache::{Flights, HotCache};
use crate::counters::SourceCounters;
use crate::store::StoreReader;
use crate::{LookupError, SourceCounts, link};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const SET_BYTES_MAX: usize = 128;
/// The prefix of windows' keys in Redis, like the set of records.
const WINDOW_SET: &str = "window";
/// A slower disk counts as unavailable.
const STORE_TIMEOUT: Duration = Duration::from_millis(250);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// Redis or Valkey. The address may contain a password; it is never shown.
    Redis { url: String, timeout: Duration },
    /// The embedded store: a file that `flyball features push` writes.
    Store { path: PathBuf },
}

/// How long records are used without asking again, and how many are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheDef {
    pub ttl: Duration,
    /// The same for an absent record.
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

/// An open source. Clones share it; its cache is dropped with the last of them.
#[derive(Clone)]
pub struct Source(pub(crate) Arc<SourceState>);

pub(crate) struct SourceState {
    pub(crate) def: SourceDef,
    pub(crate) counters: Arc<SourceCounters>,
    pub(crate) cache: HotCache,
    pub(crate) flights: Flights,
    /// For the embedded store.
    pub(crate) reader: Option<Arc<StoreReader>>,
}

impl SourceState {
    /// Checks the definition, not whether the source is reachable.
    pub(crate) fn open(
        def: SourceDef,
        reader: impl FnOnce() -> Result<Arc<StoreReader>, String>,
    ) -> Result<SourceState, String> {
        check_set(&def.set)?;
        let reader = match &def.kind {
            SourceKind::Redis { url, timeout } => {
                link::client(url)?;
                if timeout.is_zero() {
                    return Err("the timeout of a redis source must be at least 1 ms".to_owned());
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

    pub(crate) fn failed(&self, why: LookupError) {
        let counters = &self.counters;
        let counter = match why {
            LookupError::Timeout => &counters.timeouts,
            LookupError::Down => &counters.down,
            LookupError::Bad => &counters.bad,
            LookupError::Busy => &counters.busy,
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

/// Checks a set's name, which is part of keys and tables.
pub(crate) fn check_set(set: &str) -> Result<(), String> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    if set.is_empty() || set.len() > SET_BYTES_MAX || !set.chars().all(fits) {
        return Err(format!(
            "set {set:?} is not a name of 1 to {SET_BYTES_MAX} letters, digits, '-', '_' and '.'"
        ));
    }
    if set == WINDOW_SET {
        return Err(format!("set {set:?} is reserved for windows in Redis; choose another set"));
    }
    Ok(())
}

/// The Redis key of a record.
pub(crate) fn redis_key(set: &str, key: &str) -> String {
    format!("flyball:{set}:{key}")
}
