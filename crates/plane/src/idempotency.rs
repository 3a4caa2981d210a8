//! Answers by idempotency key: a retry gets the first attempt's decision, and nothing is counted twice.
//!
//! Shared by all lanes and kept over reloads. A retry waits while the first attempt is under way. After a failed attempt the
//! next one tries, and knows whether the event was already counted. The number of rows bounds the kept answers.

use crate::walk::Walk;
use crate::{Decision, Lane};
use bytes::Bytes;
use bytestring::ByteString;
use flyball_core::{CallerIndex, Decisions, Digest, Fault, FaultKind, Nanos, RowsOptions, Sink, Stage};
use flyball_decision::IdempotencyDocument;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

const SHARDS: usize = 16;
/// Old answers that one request evicts at most, so that no lock is held for long.
const CLEARED_MAX: usize = 4;
/// The interval of warnings about early evictions.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The answers of one decision.
pub(crate) struct Answers {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    /// Answers evicted before their window ended: a retry is decided again.
    evicted: AtomicU64,
    warned: Mutex<Warned>,
}

/// The evictions counted by the last warning, and its time.
#[derive(Default)]
struct Warned {
    count: u64,
    at: Option<Nanos>,
}

/// The caller's index and its key: two callers may use the same key.
type Key = (u32, ByteString);

#[derive(Default)]
struct Shard {
    entries: HashMap<Key, Entry>,
    /// Every key once, in order of arrival.
    order: VecDeque<Key>,
    /// Rows of all answers.
    rows: usize,
}

struct Entry {
    body: Digest,
    came: Nanos,
    state: State,
}

enum State {
    /// Dropping the sender wakes the waiting requests.
    UnderWay(watch::Sender<()>),
    Answered(Arc<Decisions>),
    Failed {
        counted: bool,
    },
}

/// The state of a request's key.
pub(crate) enum Known {
    /// The key is new: this request decides.
    First(KeyClaim),
    Answered(Arc<Decisions>),
    /// The first attempt is under way: look again when this closes.
    UnderWay(watch::Receiver<()>),
    /// The key was used for another body.
    Conflict,
}

/// The right to decide for a key. Dropped unsettled, it lets the next request try.
pub(crate) struct KeyClaim {
    answers: Arc<Answers>,
    key: Key,
    bounds: IdempotencyDocument,
    /// Whether the event was counted in windows, by this attempt or by one that failed before.
    pub(crate) counted: bool,
    settled: bool,
}

impl Answers {
    pub(crate) fn new() -> Arc<Answers> {
        let shards = std::array::from_fn(|_| Mutex::default());
        let (evicted, warned) = (AtomicU64::new(0), Mutex::default());
        Arc::new(Answers { shards, hasher: RandomState::new(), evicted, warned })
    }

    pub(crate) fn claim(
        self: &Arc<Answers>,
        (caller, key): (CallerIndex, &str),
        body: Digest,
        now: Nanos,
        bounds: IdempotencyDocument,
    ) -> Known {
        // A copy: a slice of the request's body would keep the whole body.
        let key = (caller.0, ByteString::from(key));
        let mut shard = self.shard(&key);
        let mut counted = false;
        if let Some(entry) = shard.entries.get(&key).filter(|entry| entry.holds(now, bounds)) {
            match &entry.state {
                _ if entry.body != body => return Known::Conflict,
                State::UnderWay(first) => return Known::UnderWay(first.subscribe()),
                State::Answered(decisions) => return Known::Answered(Arc::clone(decisions)),
                State::Failed { counted: before } => counted = *before,
            }
        }
        // Dropped after the lock: many rows take a while.
        let _before = shard.begin(&key, body, now);
        self.evict(shard, now, bounds, CLEARED_MAX);
        Known::First(KeyClaim { answers: Arc::clone(self), key, bounds, counted, settled: false })
    }

    /// Warns, at most once a minute, that keys are evicted before their window ends: their retries are decided and counted
    /// anew.
    pub(crate) fn warn_evicted(&self, decision: &str, now: Nanos) {
        if let Some(keys) = self.newly_evicted(now) {
            tracing::warn!(
                decision,
                keys,
                "idempotency keys were evicted before their window ended (count since the start); raise \
                 idempotency.entries_max or shorten idempotency.window_s"
            );
        }
    }

    /// Early evictions since the start; none unless there are new ones and a warning is due.
    fn newly_evicted(&self, now: Nanos) -> Option<u64> {
        let count = self.evicted.load(Relaxed);
        if count == 0 {
            return None;
        }
        let mut warned = self.warned.try_lock().ok()?;
        let due = warned.at.is_none_or(|at| now.since(at) >= WARN_EVERY);
        (due && count > warned.count).then(|| {
            *warned = Warned { count, at: Some(now) };
            count
        })
    }

    /// Evicts old answers, counts those evicted early, and drops them after the lock.
    fn evict(&self, mut shard: MutexGuard<'_, Shard>, now: Nanos, bounds: IdempotencyDocument, most: usize) {
        let cleared = shard.clear(now, bounds, most);
        drop(shard);
        let early = cleared.iter().filter(|entry| entry.holds(now, bounds)).count();
        if early > 0 {
            self.evicted.fetch_add(early as u64, Relaxed);
        }
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        let place = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().entries.len()).sum()
    }

    #[cfg(test)]
    fn rows(&self) -> usize {
        let rows = |shard: &Shard| shard.entries.values().map(|entry| entry.state.rows()).sum::<usize>();
        let counted = |shard: &Mutex<Shard>| {
            let shard = shard.lock().unwrap();
            assert_eq!(rows(&shard), shard.rows);
            shard.rows
        };
        self.shards.iter().map(counted).sum()
    }
}

impl Entry {
    /// Whether it applies to a retry. A failure that counted nothing does not.
    fn holds(&self, now: Nanos, bounds: IdempotencyDocument) -> bool {
        match self.state {
            State::UnderWay(_) => true,
            State::Failed { counted: false } => false,
            State::Answered(_) | State::Failed { counted: true } => !self.past(now, bounds),
        }
    }

    fn past(&self, now: Nanos, bounds: IdempotencyDocument) -> bool {
        now.since(self.came) >= Duration::from_secs(u64::from(bounds.window_s))
    }
}

impl State {
    /// Its weight: a key without an answer weighs one row.
    fn rows(&self) -> usize {
        match self {
            State::Answered(decisions) => decisions.rows.len().max(1),
            State::UnderWay(_) | State::Failed { .. } => 1,
        }
    }
}

impl Shard {
    /// Assigns the key to this request. A key that comes again keeps its position in the order.
    fn begin(&mut self, key: &Key, body: Digest, now: Nanos) -> Option<Entry> {
        let state = State::UnderWay(watch::Sender::new(()));
        self.rows += state.rows();
        let before = self.entries.insert(key.clone(), Entry { body, came: now, state });
        match &before {
            Some(before) => self.rows -= before.state.rows(),
            None => self.order.push_back(key.clone()),
        }
        before
    }

    fn settle(&mut self, key: &Key, state: State) -> Option<State> {
        let entry = self.entries.get_mut(key)?;
        self.rows += state.rows();
        let before = std::mem::replace(&mut entry.state, state);
        self.rows -= before.rows();
        Some(before)
    }

    /// Evicts answers that are past the window or beyond the bound, oldest first. The last answer stays, however large, and
    /// so do attempts under way, which the requests in flight bound. Checks at most `most` answers.
    fn clear(&mut self, now: Nanos, bounds: IdempotencyDocument, most: usize) -> Vec<Entry> {
        let rows_max = (bounds.entries_max as usize / SHARDS).max(1);
        let mut cleared = Vec::new();
        for _ in 0..most {
            let oldest = self.order.front().and_then(|key| self.entries.get(key));
            let over = self.rows > rows_max && self.order.len() > 1;
            let Some(oldest) = oldest.filter(|oldest| over || oldest.past(now, bounds)) else { break };
            let under_way = matches!(oldest.state, State::UnderWay(_));
            let Some(key) = self.order.pop_front() else { break };
            if under_way {
                self.order.push_back(key);
            } else if let Some(entry) = self.entries.remove(&key) {
                self.rows -= entry.state.rows();
                cleared.push(entry);
            }
        }
        cleared
    }
}

impl KeyClaim {
    /// Keeps the answer for retries.
    pub(crate) fn answered(mut self, decisions: Decisions, now: Nanos) {
        self.settled = true;
        let state = State::Answered(Arc::new(decisions));
        // Each eviction frees at least one row: this many make room for the answer.
        let most = state.rows().max(CLEARED_MAX);
        let mut shard = self.answers.shard(&self.key);
        let _before = shard.settle(&self.key, state);
        self.answers.evict(shard, now, self.bounds, most);
    }
}

impl Drop for KeyClaim {
    fn drop(&mut self) {
        if !self.settled {
            let failed = State::Failed { counted: self.counted };
            let _before = self.answers.shard(&self.key).settle(&self.key, failed);
        }
    }
}

/// The right to answer for a request's key, or the answer of an earlier request.
pub(crate) enum Claimed {
    /// None if the request has no key.
    First(Option<KeyClaim>),
    Answered(Box<Decisions>),
}

/// Maximum wait for the first attempt of a request without a deadline.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Looks up the request's key. Waits while the first request with this key is under way.
pub(crate) async fn claim<S: Sink>(
    lane: &Lane<S>,
    decision: &Decision<S::Model>,
    ask: &RowsOptions,
    body: &Bytes,
    walk: &Walk<S>,
) -> Result<Claimed, Fault> {
    let Some(key) = &ask.idempotency_key else { return Ok(Claimed::First(None)) };
    let digest = Digest::of(body);
    loop {
        let bounds = decision.program.idempotency;
        let mut first = match decision.answers.claim((walk.caller, key), digest, lane.now(), bounds) {
            Known::First(claim) => return Ok(Claimed::First(Some(claim))),
            Known::Answered(earlier) => {
                let again = Decisions { repeated: true, timings: None, ..(*earlier).clone() };
                return Ok(Claimed::Answered(Box::new(again)));
            }
            Known::Conflict => {
                let text = "this idempotency key was used with another body; use a new key for a new request";
                return Err(Fault::new(FaultKind::KeyConflict, Stage::Route, text));
            }
            Known::UnderWay(first) => first,
        };
        let left = walk.deadline.map_or(WAIT_MAX, |deadline| deadline.since(lane.now()));
        if tokio::time::timeout(left, first.changed()).await.is_err() {
            let text =
                "the first request with this idempotency key is still running; retry with the same key";
            return Err(Fault::new(FaultKind::DeadlinePassed, Stage::Route, text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_core::{DecidedRow, RowOutcome};

    const BOUNDS: IdempotencyDocument = IdempotencyDocument { window_s: 10, entries_max: 64 };
    const WIDE: IdempotencyDocument = IdempotencyDocument { entries_max: 100_000, ..BOUNDS };
    const ANYONE: CallerIndex = CallerIndex::ANONYMOUS;

    fn decisions(rows: usize) -> Decisions {
        Decisions {
            decision: "d".into(),
            single: true,
            rows: vec![DecidedRow { id: None, outcome: RowOutcome::Invalid(Vec::new()) }; rows],
            models: Arc::new([]),
            document: Digest::of(b""),
            policy: Digest::of(b""),
            schema: Digest::of(b""),
            repeated: false,
            timings: None,
        }
    }

    fn at(second: u64) -> Nanos {
        Nanos(second * 1_000_000_000)
    }

    fn claim_by(
        bounds: IdempotencyDocument,
        answers: &Arc<Answers>,
        key: &str,
        body: &[u8],
        now: Nanos,
    ) -> Known {
        answers.claim((ANYONE, key), Digest::of(body), now, bounds)
    }

    fn claim(answers: &Arc<Answers>, key: &str, body: &[u8], second: u64) -> Known {
        claim_by(BOUNDS, answers, key, body, at(second))
    }

    fn first(known: Known) -> KeyClaim {
        match known {
            Known::First(claimed) => claimed,
            _ => panic!("not the first"),
        }
    }

    #[test]
    fn the_first_decides_and_the_same_key_then_has_its_answer_for_as_long_as_the_window() {
        let answers = Answers::new();
        let claimed = first(claim(&answers, "k", b"body", 0));
        assert!(matches!(claim(&answers, "k", b"body", 0), Known::UnderWay(_)));
        claimed.answered(decisions(1), at(0));
        assert!(matches!(claim(&answers, "k", b"body", 9), Known::Answered(_)));
        assert!(matches!(claim(&answers, "k", b"other", 9), Known::Conflict));
        let other = answers.claim((CallerIndex(7), "k"), Digest::of(b"other"), at(0), BOUNDS);
        assert!(matches!(other, Known::First(_)), "another caller's key is another key");
        first(claim(&answers, "k", b"other", 10));
    }

    #[test]
    fn what_is_past_the_window_is_not_known_although_it_is_still_there() {
        let answers = Answers::new();
        for number in 0..1000 {
            first(claim_by(WIDE, &answers, &number.to_string(), b"", at(0))).answered(decisions(1), at(0));
        }
        let again = |body| claim_by(WIDE, &answers, "999", body, at(10));
        first(again(b"other")).answered(decisions(1), at(10));
        assert!(answers.len() > 900, "most of them are not cleared away yet");
        assert!(matches!(again(b"other"), Known::Answered(_)), "and the window begins anew");
        assert!(matches!(again(b""), Known::Conflict));
    }

    #[test]
    fn an_attempt_that_fails_lets_the_next_try_and_says_whether_its_event_was_counted() {
        let answers = Answers::new();
        let mut claimed = first(claim(&answers, "k", b"body", 0));
        assert!(!claimed.counted);
        let Known::UnderWay(mut waiting) = claim(&answers, "k", b"body", 0) else { panic!() };
        claimed.counted = true;
        drop(claimed);
        assert!(waiting.has_changed().is_err(), "who waits is woken");
        waiting.mark_unchanged();
        assert!(first(claim(&answers, "k", b"body", 1)).counted);
        assert!(first(claim(&answers, "k", b"body", 1)).counted, "and the one after it");
        assert!(matches!(claim(&answers, "k", b"other", 1), Known::Conflict), "the count is this body's");
    }

    #[test]
    fn an_attempt_that_failed_and_counted_nothing_leaves_its_key_to_any_body() {
        let answers = Answers::new();
        drop(first(claim(&answers, "k", b"malformed", 0)));
        let claimed = first(claim(&answers, "k", b"mended", 1));
        assert!(!claimed.counted);
        claimed.answered(decisions(1), at(1));
        assert!(matches!(claim(&answers, "k", b"mended", 2), Known::Answered(_)));
        assert!(matches!(claim(&answers, "k", b"malformed", 2), Known::Conflict));
    }

    #[test]
    fn there_are_never_more_answers_than_the_bound_and_what_is_under_way_is_not_forgotten() {
        let answers = Answers::new();
        let held = first(claim(&answers, "held", b"", 0));
        for number in 0..1000 {
            first(claim(&answers, &number.to_string(), b"", 0)).answered(decisions(1), at(0));
        }
        assert!(answers.len() <= 64 + 1, "{}", answers.len());
        assert!(matches!(claim(&answers, "held", b"", 0), Known::UnderWay(_)));
        drop(held);
    }

    #[test]
    fn there_are_never_more_rows_than_the_bound_however_many_an_answer_has() {
        let answers = Answers::new();
        for rows in [1, 3, 1, 4, 2] {
            for number in 0..500 {
                let key = format!("{rows} {number}");
                first(claim(&answers, &key, b"", 0)).answered(decisions(rows), at(0));
                assert!(answers.rows() <= 64, "{} rows after {key}", answers.rows());
            }
        }
        assert!(answers.rows() >= 32, "{}", answers.rows());
    }

    #[test]
    fn an_answer_that_is_larger_than_the_bound_stays_until_the_next_one_comes() {
        let answers = Answers::new();
        first(claim(&answers, "large", b"", 0)).answered(decisions(1024), at(0));
        assert!(matches!(claim(&answers, "large", b"", 1), Known::Answered(_)));
        for number in 0..1000 {
            first(claim(&answers, &number.to_string(), b"", 1)).answered(decisions(1), at(1));
        }
        assert!(answers.rows() <= 64, "{}", answers.rows());
    }

    #[test]
    fn answers_that_go_before_the_windows_end_are_counted_and_reported_once_a_minute() {
        let answers = Answers::new();
        let fill = |name: &str, second| {
            for number in 0..1000 {
                let key = format!("{name} {number}");
                first(claim(&answers, &key, b"", second)).answered(decisions(1), at(second));
            }
        };
        first(claim(&answers, "k", b"", 0)).answered(decisions(1), at(0));
        assert_eq!(answers.newly_evicted(at(0)), None, "there was room");
        fill("a", 1);
        let evicted = answers.newly_evicted(at(1)).expect("there was no room");
        assert_eq!(evicted as usize, 1001 - answers.len());
        fill("b", 2);
        assert_eq!(answers.newly_evicted(at(2)), None, "not so soon again");
        assert_eq!(answers.newly_evicted(at(61)), Some(evicted + 1000));
        assert_eq!(answers.newly_evicted(at(200)), None, "nothing new");
    }

    #[test]
    fn answers_that_go_after_the_window_are_not_missed() {
        let answers = Answers::new();
        for second in 0..200 {
            let key = second.to_string();
            first(claim(&answers, &key, b"", second * 10)).answered(decisions(1), at(second * 10));
        }
        assert!(answers.len() < 200);
        assert_eq!(answers.newly_evicted(at(2000)), None);
    }
}
