//! A bounded cache of records with two TTLs, and one shared fetch for each key.
//!
//! Expired records stay until evicted: a stale record may be better than none.

use crate::counters::SourceCounters;
use crate::{CacheDef, LookupError, Record};
use flyball_core::Nanos;
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, UnitWeighter};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Maximum keys being fetched at once, for one source.
const FLIGHTS_MAX: usize = 16_384;

/// A source's response for a key.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// None: no such key.
    pub(crate) record: Option<Arc<Record>>,
    pub(crate) fetched: Nanos,
    /// The record's age when it was fetched.
    pub(crate) age_then: Duration,
}

impl Entry {
    pub(crate) fn age(&self, now: Nanos) -> Duration {
        now.since(self.fetched).saturating_add(self.age_then)
    }
}

#[derive(Clone)]
struct Evictions(Arc<SourceCounters>);

impl Lifecycle<String, Entry> for Evictions {
    type RequestState = ();

    fn on_evict(&self, _state: &mut (), _key: String, _entry: Entry) {
        self.0.evictions.add();
    }
}

pub(crate) struct HotCache {
    def: CacheDef,
    entries: Cache<String, Entry, UnitWeighter, DefaultHashBuilder, Evictions>,
}

impl HotCache {
    pub(crate) fn new(def: CacheDef, counters: &Arc<SourceCounters>) -> HotCache {
        let evictions = Evictions(Arc::clone(counters));
        let most = def.entries_max.max(1);
        let entries = Cache::with(most, most as u64, UnitWeighter, DefaultHashBuilder::default(), evictions);
        HotCache { def, entries }
    }

    /// The cached response that has not expired.
    pub(crate) fn fresh(&self, key: &str, now: Nanos) -> Option<Entry> {
        let entry = self.entries.get(key)?;
        let ttl = if entry.record.is_some() { self.def.ttl } else { self.def.absent_ttl };
        (now.since(entry.fetched) < ttl).then_some(entry)
    }

    /// The cached record, however old.
    pub(crate) fn stale(&self, key: &str, now: Nanos) -> Option<(Arc<Record>, Duration)> {
        let entry = self.entries.peek(key)?;
        let age = entry.age(now);
        entry.record.map(|record| (record, age))
    }

    pub(crate) fn keep(&self, key: &str, entry: Entry) {
        if self.def.entries_max > 0 {
            self.entries.insert(key.to_owned(), entry);
        }
    }

    /// Removes a record; returns whether there was one.
    pub(crate) fn forget(&self, key: &str) -> bool {
        self.entries.remove(key).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

pub(crate) type Fetched = Result<Entry, LookupError>;

/// Keys that are being fetched. A second caller waits for the first.
#[derive(Default)]
pub(crate) struct Flights(Mutex<HashMap<String, watch::Receiver<Option<Fetched>>>>);

pub(crate) enum Flight<'a> {
    /// No other caller fetches it.
    First(Lead<'a>),
    /// The first caller's result; closed if it gave up.
    Second(watch::Receiver<Option<Fetched>>),
    /// Too many keys are being fetched.
    Full,
}

impl Flights {
    pub(crate) fn join(&self, key: &str) -> Flight<'_> {
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(receiver) = flights.get(key) {
            return Flight::Second(receiver.clone());
        }
        if flights.len() >= FLIGHTS_MAX {
            return Flight::Full;
        }
        let (sender, receiver) = watch::channel(None);
        flights.insert(key.to_owned(), receiver);
        Flight::First(Lead { flights: self, key: key.to_owned(), sender })
    }
}

/// The caller that fetches a key. Dropped without a result, one of the waiting callers takes over.
pub(crate) struct Lead<'a> {
    flights: &'a Flights,
    key: String,
    sender: watch::Sender<Option<Fetched>>,
}

impl Lead<'_> {
    pub(crate) fn tell(self, fetched: &Fetched) {
        self.sender.send_replace(Some(fetched.clone()));
    }
}

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.flights.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}
