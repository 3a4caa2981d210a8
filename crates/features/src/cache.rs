//! Records at hand: a bounded map with two times to live, and one flight for each key that is being fetched, across lanes.
//!
//! What outlived its time stays until it makes room for others: an old record may be better than none.

use crate::counters::SourceCounters;
use crate::{CacheDef, Record, Why};
use flyball_core::Nanos;
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, UnitWeighter};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Keys that may be under way at once, for one source.
const FLIGHTS_MAX: usize = 16_384;

/// What a source said about a key.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// None: there is no such key.
    pub(crate) record: Option<Arc<Record>>,
    pub(crate) fetched: Nanos,
    /// How old the record said it was then.
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

    /// What is known and still to be used.
    pub(crate) fn fresh(&self, key: &str, now: Nanos) -> Option<Entry> {
        let entry = self.entries.get(key)?;
        let ttl = if entry.record.is_some() { self.def.ttl } else { self.def.absent_ttl };
        (now.since(entry.fetched) < ttl).then_some(entry)
    }

    /// The record that is known, however old.
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

    /// Whether there was one.
    pub(crate) fn forget(&self, key: &str) -> bool {
        self.entries.remove(key).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

pub(crate) type Fetched = Result<Entry, Why>;

/// Keys that are being fetched. Whoever comes second waits for the first.
#[derive(Default)]
pub(crate) struct Flights(Mutex<HashMap<String, watch::Receiver<Option<Fetched>>>>);

pub(crate) enum Flight<'a> {
    /// Nobody else fetches it.
    First(Lead<'a>),
    /// What the first gets; closed where it gave up.
    Second(watch::Receiver<Option<Fetched>>),
    /// Too many keys are under way.
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

/// Who fetches a key. Dropped without an answer, one of those who wait takes over.
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
