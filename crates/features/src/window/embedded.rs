//! A window in this process: a sharded map of keys, each with a lock held for one event.
//!
//! Changed keys are noted for the store thread, which writes them in the background. Nothing here touches a
//! disk.

use crate::counters::WindowCounters;
use crate::window::span::{EventTime, Span};
use crate::window::tally::{Gain, Tally, Total};
use crate::window::warmth::{Marks, Warmth};
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, Lifecycle, UnitWeighter};
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const TRIES_MAX: usize = 4;

pub(crate) struct Key {
    pub(crate) name: Box<str>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    tally: Tally,
    /// It is among the changes.
    noted: bool,
    /// It was evicted; a holder must look it up again.
    evicted: bool,
}

impl Key {
    fn new(name: &str, tally: Tally) -> Arc<Key> {
        Arc::new(Key { name: name.into(), held: Mutex::new(Held { tally, ..Held::default() }) })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // The guarded data is consistent between any two statements that could panic.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state to store; none: nothing.
    pub(crate) fn settle<T>(&self, write: impl FnOnce(&Tally) -> T) -> Option<T> {
        let mut held = self.lock();
        held.noted = false;
        (!held.evicted).then(|| write(&held.tally))
    }
}

/// Keys that changed since they were last written.
pub(crate) struct Changes {
    list: Mutex<Vec<Arc<Key>>>,
    /// None: they are not persisted.
    most: Option<usize>,
}

impl Changes {
    fn note(&self, key: &Arc<Key>, held: &mut Held) {
        let Some(most) = self.most.filter(|_| !held.noted) else { return };
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        // Beyond the limit a change is not written before the next one to its key.
        if list.len() < most {
            held.noted = true;
            list.push(Arc::clone(key));
        }
    }

    pub(crate) fn take(&self) -> Vec<Arc<Key>> {
        std::mem::take(&mut *self.list.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Returns changes that could not be written, for a retry.
    pub(crate) fn give_back(&self, keys: Vec<Arc<Key>>) {
        for key in keys {
            self.note(&key, &mut key.lock());
        }
    }
}

#[derive(Clone)]
struct Evictions {
    changes: Arc<Changes>,
    counters: Arc<WindowCounters>,
}

impl Lifecycle<String, Arc<Key>> for Evictions {
    type RequestState = ();

    fn on_evict(&self, _state: &mut (), _name: String, key: Arc<Key>) {
        self.counters.evictions.add();
        let mut held = key.lock();
        held.evicted = true;
        self.changes.note(&key, &mut held);
    }
}

pub(crate) struct Embedded {
    pub(crate) warmth: Warmth,
    pub(crate) changes: Arc<Changes>,
    keys: Cache<String, Arc<Key>, UnitWeighter, DefaultHashBuilder, Evictions>,
}

impl Embedded {
    pub(crate) fn new(
        span: &Span,
        marks: Option<Marks>,
        keys_max: usize,
        kept: bool,
        counters: &Arc<WindowCounters>,
    ) -> Embedded {
        let changes = Arc::new(Changes {
            list: Mutex::new(Vec::new()),
            most: kept.then_some(keys_max.saturating_mul(2)),
        });
        let evictions = Evictions { changes: Arc::clone(&changes), counters: Arc::clone(counters) };
        let keys =
            Cache::with(keys_max, keys_max as u64, UnitWeighter, DefaultHashBuilder::default(), evictions);
        Embedded { warmth: Warmth::new(marks, span), changes, keys }
    }

    /// Restores a key's stored state. Drops keys that no event can need again.
    pub(crate) fn restore(&self, span: &Span, name: &str, tally: Tally) {
        let now = self.warmth.marks().map(|marks| marks.newest_ms.div_euclid(span.width_ms));
        let over = tally.newest.is_none_or(|newest| now.is_some_and(|now| newest < span.kept(now)));
        let key = Key::new(name, tally);
        if over {
            let mut held = key.lock();
            held.evicted = true;
            self.changes.note(&key, &mut held);
        } else {
            self.keys.insert(name.to_owned(), key);
        }
    }

    /// The window's value for a key, without any change.
    pub(crate) fn read(
        &self,
        span: &Span,
        name: &str,
        when: EventTime,
        current: Option<Gain>,
    ) -> Option<Total> {
        match self.keys.peek(name) {
            Some(key) => key.lock().tally.total(span, when.bucket, current),
            None => Tally::default().total(span, when.bucket, current),
        }
    }

    /// The same, and adds the event.
    pub(crate) fn step(
        &self,
        span: &Span,
        name: &str,
        when: EventTime,
        gain: Gain,
        current: bool,
    ) -> Option<Total> {
        // A key that is evicted at once, because all others are used more, counts as never added.
        for _ in 0..TRIES_MAX {
            let key = self.key(name);
            let mut held = key.lock();
            if held.evicted {
                continue;
            }
            let total = held.tally.total(span, when.bucket, current.then_some(gain))?;
            held.tally.add(span, when.bucket, gain);
            self.changes.note(&key, &mut held);
            return Some(total);
        }
        Tally::default().total(span, when.bucket, current.then_some(gain))
    }

    /// Removes a key; returns whether it existed. The store thread removes its stored state.
    pub(crate) fn forget(&self, name: &str) -> bool {
        let Some((_, key)) = self.keys.remove(name) else { return false };
        let mut held = key.lock();
        held.evicted = true;
        self.changes.note(&key, &mut held);
        true
    }

    fn key(&self, name: &str) -> Arc<Key> {
        if let Some(key) = self.keys.get(name) {
            return key;
        }
        let made =
            self.keys.get_or_insert_with(name, || Ok::<_, Infallible>(Key::new(name, Tally::default())));
        made.unwrap_or_else(|never| match never {})
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}
