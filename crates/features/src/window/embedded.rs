//! A window in this process: keys in a sharded map, each behind a lock of its own that is held for one event.
//!
//! Which keys changed is noted for the keeper, which writes them behind. Nothing here touches a disk.

use crate::counters::WindowCounters;
use crate::window::span::{Span, When};
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
    /// It made room for others; who still has it looks again.
    evicted: bool,
}

impl Key {
    fn new(name: &str, tally: Tally) -> Arc<Key> {
        Arc::new(Key { name: name.into(), held: Mutex::new(Held { tally, ..Held::default() }) })
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // What it guards is whole between any two statements that could panic.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be kept of it from now on; none: nothing.
    pub(crate) fn settle<T>(&self, write: impl FnOnce(&Tally) -> T) -> Option<T> {
        let mut held = self.lock();
        held.noted = false;
        (!held.evicted).then(|| write(&held.tally))
    }
}

/// Keys that changed since they were last written.
pub(crate) struct Changes {
    list: Mutex<Vec<Arc<Key>>>,
    /// None: nobody writes them.
    most: Option<usize>,
}

impl Changes {
    fn note(&self, key: &Arc<Key>, held: &mut Held) {
        let Some(most) = self.most.filter(|_| !held.noted) else { return };
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        // Beyond it a change is not written before the next one to its key.
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

    /// What could not be written, to be tried again.
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

    /// What was kept of a key. Those that no event will ask for again are forgotten.
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

    /// What the window comes to for a key, without any change.
    pub(crate) fn read(&self, span: &Span, name: &str, when: When, current: Option<Gain>) -> Option<Total> {
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
        when: When,
        gain: Gain,
        current: bool,
    ) -> Option<Total> {
        // A key that makes room at once, where all others are asked for more, is as if it had never been.
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

    /// Whether it was there. The keeper removes what it has of it.
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
