//! Answers by idempotency key: a retry gets the decision that the first attempt got, and nothing is counted twice.
//!
//! Shared by all lanes and kept over reloads. Who comes while the first attempt is under way waits for it; one that fails
//! lets the next try, and leaves behind whether its event was already counted.

use bytestring::ByteString;
use flyball_core::{CallerIndex, Decisions, Digest, Nanos};
use flyball_decision::IdempotencyDocument;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

const SHARDS: usize = 16;
/// Old entries that one request clears away at most, so that no lock is held for long.
const CLEARED_MAX: usize = 4;

/// The answers of one decision.
pub(crate) struct Answers {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

/// A key is its caller's own: two callers may use the same.
type Key = (u32, ByteString);

#[derive(Default)]
struct Shard {
    entries: HashMap<Key, Entry>,
    /// Every key once, in the order in which they came.
    order: VecDeque<Key>,
}

struct Entry {
    body: Digest,
    came: Nanos,
    state: State,
}

enum State {
    /// Dropping the sender wakes those who wait.
    UnderWay(watch::Sender<()>),
    Answered(Arc<Decisions>),
    Failed {
        counted: bool,
    },
}

/// What a request with a key has before it.
pub(crate) enum Claim {
    /// It is the one that decides.
    First(Turn),
    Answered(Arc<Decisions>),
    /// Another is under way: ask again when this closes.
    UnderWay(watch::Receiver<()>),
    /// The key was used for another body.
    Conflict,
}

/// The right to decide for a key. Dropped before it is settled, it lets the next try.
pub(crate) struct Turn {
    answers: Arc<Answers>,
    key: Key,
    /// Whether the event was counted in windows, by this attempt or by one that failed before.
    pub(crate) counted: bool,
    settled: bool,
}

impl Answers {
    pub(crate) fn new() -> Arc<Answers> {
        let shards = std::array::from_fn(|_| Mutex::default());
        Arc::new(Answers { shards, hasher: RandomState::new() })
    }

    pub(crate) fn claim(
        self: &Arc<Answers>,
        (caller, key): (CallerIndex, &str),
        body: Digest,
        now: Nanos,
        bounds: IdempotencyDocument,
    ) -> Claim {
        // A copy: a part of the request's body would keep all of it.
        let key = (caller.0, ByteString::from(key));
        let mut shard = self.shard(&key);
        let cleared = shard.clear(now, bounds);
        let mut counted = false;
        if let Some(entry) = shard.entries.get_mut(&key) {
            match &entry.state {
                _ if entry.body != body => return Claim::Conflict,
                State::UnderWay(first) => return Claim::UnderWay(first.subscribe()),
                State::Answered(decisions) => return Claim::Answered(Arc::clone(decisions)),
                State::Failed { counted: before } => counted = *before,
            }
            entry.state = State::UnderWay(watch::Sender::new(()));
        } else {
            shard.order.push_back(key.clone());
            let state = State::UnderWay(watch::Sender::new(()));
            shard.entries.insert(key.clone(), Entry { body, came: now, state });
        }
        drop(shard);
        // Many rows may hang on what was cleared: not under the lock.
        drop(cleared);
        Claim::First(Turn { answers: Arc::clone(self), key, counted, settled: false })
    }

    fn shard(&self, key: &Key) -> MutexGuard<'_, Shard> {
        let place = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, key: &Key, state: State) {
        let before =
            self.shard(key).entries.get_mut(key).map(|entry| std::mem::replace(&mut entry.state, state));
        drop(before);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().entries.len()).sum()
    }
}

impl Shard {
    /// Takes out what is past the window or beyond the bound, oldest first. What is under way stays: those are as many as
    /// there are requests at once.
    fn clear(&mut self, now: Nanos, bounds: IdempotencyDocument) -> [Option<Entry>; CLEARED_MAX] {
        let window = Duration::from_secs(u64::from(bounds.window_s));
        let entries_max = (bounds.entries_max as usize / SHARDS).max(1);
        std::array::from_fn(|_| {
            let oldest = self.entries.get(self.order.front()?)?;
            let over = self.entries.len() >= entries_max || now.since(oldest.came) >= window;
            if !over {
                return None;
            }
            let under_way = matches!(oldest.state, State::UnderWay(_));
            let key = self.order.pop_front()?;
            if under_way {
                self.order.push_back(key);
                return None;
            }
            self.entries.remove(&key)
        })
    }
}

impl Turn {
    /// Keeps the answer for those who ask again.
    pub(crate) fn answered(mut self, decisions: Decisions) {
        self.settled = true;
        self.answers.settle(&self.key, State::Answered(Arc::new(decisions)));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.settled {
            self.answers.settle(&self.key, State::Failed { counted: self.counted });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: IdempotencyDocument = IdempotencyDocument { window_s: 10, entries_max: 64 };
    const ANYONE: CallerIndex = CallerIndex::ANONYMOUS;

    fn decisions() -> Decisions {
        Decisions {
            decision: "d".into(),
            single: true,
            rows: Vec::new(),
            models: Arc::new([]),
            document: Digest::of(b""),
            policy: Digest::of(b""),
            schema: Digest::of(b""),
            repeated: false,
            timings: None,
        }
    }

    fn claim(answers: &Arc<Answers>, key: &str, body: &[u8], second: u64) -> Claim {
        answers.claim((ANYONE, key), Digest::of(body), Nanos(second * 1_000_000_000), BOUNDS)
    }

    fn first(claim: Claim) -> Turn {
        match claim {
            Claim::First(turn) => turn,
            _ => panic!("not the first"),
        }
    }

    #[test]
    fn the_first_decides_and_the_same_key_then_has_its_answer_for_as_long_as_the_window() {
        let answers = Answers::new();
        let turn = first(claim(&answers, "k", b"body", 0));
        assert!(matches!(claim(&answers, "k", b"body", 0), Claim::UnderWay(_)));
        turn.answered(decisions());
        assert!(matches!(claim(&answers, "k", b"body", 9), Claim::Answered(_)));
        assert!(matches!(claim(&answers, "k", b"other", 9), Claim::Conflict));
        let other = answers.claim((CallerIndex(7), "k"), Digest::of(b"other"), Nanos(0), BOUNDS);
        assert!(matches!(other, Claim::First(_)), "another caller's key is another key");
        first(claim(&answers, "k", b"other", 10));
    }

    #[test]
    fn an_attempt_that_fails_lets_the_next_try_and_says_whether_its_event_was_counted() {
        let answers = Answers::new();
        let mut turn = first(claim(&answers, "k", b"body", 0));
        assert!(!turn.counted);
        let Claim::UnderWay(mut waiting) = claim(&answers, "k", b"body", 0) else { panic!() };
        turn.counted = true;
        drop(turn);
        assert!(waiting.has_changed().is_err(), "who waits is woken");
        waiting.mark_unchanged();
        assert!(first(claim(&answers, "k", b"body", 1)).counted);
        assert!(first(claim(&answers, "k", b"body", 1)).counted, "and the one after it");
    }

    #[test]
    fn there_are_never_more_answers_than_the_bound_and_what_is_under_way_is_not_forgotten() {
        let answers = Answers::new();
        let held = first(claim(&answers, "held", b"", 0));
        for number in 0..1000 {
            first(claim(&answers, &number.to_string(), b"", 0)).answered(decisions());
        }
        assert!(answers.len() <= 64 + 1, "{}", answers.len());
        assert!(matches!(claim(&answers, "held", b"", 0), Claim::UnderWay(_)));
        drop(held);
    }
}
