//! The features of one lane. Call it on the lane's own runtime, inside its `LocalSet`.

use crate::cache::{Entry, Fetched, Flight};
use crate::link::Link;
use crate::record::{KEY_BYTES_MAX, RECORD_BYTES_MAX};
use crate::source::{SourceState, redis_key};
use crate::{Event, Features, Lookup, LookupError, Record, Source, SourceKind, Window, Windowed};
use flyball_core::Nanos;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

pub struct LaneFeatures {
    features: Arc<Features>,
    /// By address; created on first use.
    links: RefCell<HashMap<String, Rc<Link>>>,
}

impl LaneFeatures {
    pub(crate) fn new(features: Arc<Features>) -> LaneFeatures {
        LaneFeatures { features, links: RefCell::default() }
    }

    /// The cached response, without waiting; none: use [`LaneFeatures::lookup`].
    pub fn lookup_cached(&self, source: &Source, key: &str) -> Option<Lookup> {
        let now = self.now();
        let token = self.features.tokens.token(key);
        let entry = source.0.cache.fresh(token.as_str(), now)?;
        source.0.counters.hits.add();
        Some(found(entry, now, true))
    }

    /// The cached response, or the source's. `deadline` is a time of the settings' clock.
    pub async fn lookup(&self, source: &Source, key: &str, deadline: Option<Nanos>) -> Lookup {
        if let Some(lookup) = self.lookup_cached(source, key) {
            return lookup;
        }
        let state = &source.0;
        state.counters.misses.add();
        let fetched = self.fetch_once(state, key, deadline).await;
        // The lane may have been busy when the response came.
        let now = self.now();
        let late = deadline.is_some_and(|deadline| now >= deadline);
        match fetched {
            Ok(entry) if !late => found(entry, now, false),
            fetched => {
                let why = fetched.err().unwrap_or(LookupError::Timeout);
                state.failed(why);
                let stale = state.cache.stale(self.features.tokens.token(key).as_str(), now);
                if stale.is_some() {
                    state.counters.stale.add();
                }
                Lookup::Failed { why, stale }
            }
        }
    }

    /// The value of an embedded window; none for one in Redis: use [`LaneFeatures::window`].
    pub fn window_embedded(&self, window: &Window, event: Event<'_>) -> Option<Windowed> {
        let embedded = window.0.embedded()?;
        Some(window.0.step(embedded, &event, self.features.settings.wall.now_ms()))
    }

    /// Reads a window as of the event's time, and adds the event if it is real.
    pub async fn window(&self, window: &Window, event: Event<'_>, deadline: Option<Nanos>) -> Windowed {
        if let Some(windowed) = self.window_embedded(window, event) {
            return windowed;
        }
        let state = &window.0;
        let Some((source, link)) = state.def.source.as_ref().and_then(|source| {
            let link = self.link(&source.0)?;
            Some((source, link))
        }) else {
            return state.failed(LookupError::Bad);
        };
        let until = self.until(&source.0, deadline);
        let left = until.since(self.now());
        if left.is_zero() {
            return state.failed(LookupError::Timeout);
        }
        let wall_ms = self.features.settings.wall.now_ms();
        let windowed = state.ask(&link, &event, wall_ms, left).await;
        match windowed {
            Windowed::Failed { .. } => windowed,
            _ if deadline.is_some_and(|deadline| self.now() >= deadline) => {
                state.failed(LookupError::Timeout)
            }
            _ => windowed,
        }
    }

    /// The time up to which a window has certainly counted events; none: no events. It may have some up to a
    /// bucket later.
    pub async fn counted_until(&self, window: &Window) -> Result<Option<i64>, LookupError> {
        let state = &window.0;
        let newest = match (state.embedded(), &state.def.source) {
            (Some(embedded), _) => embedded.warmth.marks().map(|marks| marks.newest_ms),
            (None, Some(source)) => {
                let link = self.link(&source.0).ok_or(LookupError::Bad)?;
                state.newest_shared(&link, source.0.timeout()).await?
            }
            (None, None) => None,
        };
        Ok(newest.map(|newest| newest.saturating_add(state.span.width_ms - 1)))
    }

    fn now(&self) -> Nanos {
        self.features.settings.clock.now()
    }

    /// The time limit of a response.
    fn until(&self, source: &SourceState, deadline: Option<Nanos>) -> Nanos {
        let until = self.now().after(source.timeout());
        deadline.map_or(until, |deadline| deadline.min(until))
    }

    /// Fetches, or joins another lane's fetch.
    async fn fetch_once(&self, source: &Arc<SourceState>, key: &str, deadline: Option<Nanos>) -> Fetched {
        if key.len() > KEY_BYTES_MAX {
            return Err(LookupError::Bad);
        }
        let (until, token) = (self.until(source, deadline), self.features.tokens.token(key));
        let token = token.as_str();
        loop {
            let now = self.now();
            let left = until.since(now);
            if left.is_zero() {
                return Err(LookupError::Timeout);
            }
            match source.flights.join(token) {
                Flight::Full => return Err(LookupError::Busy),
                Flight::Second(mut first) => {
                    let Ok(answer) = timeout(left, first.wait_for(Option::is_some)).await else {
                        return Err(LookupError::Timeout);
                    };
                    if let Ok(Some(fetched)) = answer.as_deref() {
                        return fetched.clone();
                    }
                    // The first caller gave up, by its own deadline or because its client left: another one
                    // fetches.
                }
                Flight::First(lead) => {
                    // It may have arrived since the cache was checked.
                    if let Some(entry) = source.cache.fresh(token, now) {
                        return Ok(entry);
                    }
                    let fetched = self.fetch(source, key, left).await;
                    if let Ok(entry) = &fetched {
                        source.cache.keep(token, entry.clone());
                    }
                    let own_deadline =
                        Some(until) == deadline && matches!(fetched, Err(LookupError::Timeout));
                    if !own_deadline {
                        lead.tell(&fetched);
                    }
                    return fetched;
                }
            }
        }
    }

    async fn fetch(&self, source: &Arc<SourceState>, key: &str, limit: Duration) -> Fetched {
        let record = match (&source.reader, self.link(source)) {
            (Some(reader), _) => {
                timeout(limit, reader.ask(source, key)).await.unwrap_or(Err(LookupError::Timeout))?
            }
            (None, Some(link)) => {
                let mut command = redis::cmd("GETRANGE");
                // At most one byte more than a record may have, whatever is stored. No such key: no bytes.
                command.arg(redis_key(&source.def.set, key)).arg(0).arg(RECORD_BYTES_MAX);
                let bytes: Vec<u8> =
                    link.ask(limit, async |connection| command.query_async(connection).await).await?;
                let record = (!bytes.is_empty()).then(|| Record::read(&bytes));
                record.transpose().map_err(|_| LookupError::Bad)?
            }
            (None, None) => return Err(LookupError::Bad),
        };
        let wall_ms = self.features.settings.wall.now_ms();
        let written = record.as_ref().and_then(Record::written_at_ms);
        let age_ms = written.map_or(0, |at| u64::try_from(wall_ms.saturating_sub(at)).unwrap_or(0));
        Ok(Entry {
            record: record.map(Arc::new),
            fetched: self.now(),
            age_then: Duration::from_millis(age_ms),
        })
    }

    fn link(&self, source: &SourceState) -> Option<Rc<Link>> {
        let SourceKind::Redis { url, .. } = &source.def.kind else { return None };
        let mut links = self.links.borrow_mut();
        if let Some(link) = links.get(url) {
            return Some(Rc::clone(link));
        }
        // The address was checked when the source was opened.
        let link = Link::new(url).ok()?;
        links.insert(url.clone(), Rc::clone(&link));
        Some(link)
    }
}

fn found(entry: Entry, now: Nanos, from_cache: bool) -> Lookup {
    let age = entry.age(now);
    match entry.record {
        Some(record) => Lookup::Found { record, age, from_cache },
        None => Lookup::Absent,
    }
}
