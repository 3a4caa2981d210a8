//! Windows: count, sum, mean and distinct values of a key's recent events.
//!
//! They cover the last N milliseconds of event time. Embedded, or in Redis to be shared by replicas; a value
//! means the same in both. Knows nothing of decisions: the caller supplies the event and whether it is real.

mod codec;
mod embedded;
pub(crate) mod persist;
pub(crate) mod shared;
mod span;
mod tally;
mod warmth;

use crate::counters::WindowCounters;
use crate::record::KEY_BYTES_MAX;
use crate::tokens::Tokens;
use crate::{LookupError, Source, WindowCounts};
use embedded::Embedded;
use flyball_core::WindowOp;
use persist::WindowStore;
use sha2::{Digest as _, Sha256};
use span::{EventTime, Span};
use std::fmt::Write as _;
use std::sync::Arc;
use tally::{Gain, Total};

/// Larger numbers do not go into a sum, so that no window can overflow.
const NUMBER_MAX: f64 = 1e250;
const NAME_BYTES_MAX: usize = 512;

/// The definition of a window. Those with the same name, op, length and source share state, across reloads
/// and restarts.
#[derive(Clone)]
pub struct WindowDef {
    /// The owner of the events: the decision and the feature with all that it counts. An event is written
    /// once for each name, so two features never share one.
    pub name: String,
    pub op: WindowOp,
    pub last_ms: u64,
    /// A Redis source that replicas share; none: embedded, for this process alone.
    pub source: Option<Source>,
}

/// An open window. Clones share it.
#[derive(Clone)]
pub struct Window(pub(crate) Arc<WindowState>);

/// The value of an event. Sums and means need numbers; distinct accepts both; count ignores it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WindowValue<'a> {
    /// Missing: the event does not count, except for `count`.
    None,
    Number(f64),
    Text(&'a str),
}

/// An event for a window.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    pub key: &'a str,
    pub at_ms: i64,
    pub value: WindowValue<'a>,
    /// The value includes this event.
    pub current: bool,
    /// Add the event. Runs that are not real (shadow, replay, offline) change nothing.
    pub write: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Windowed {
    /// `saturated`: at least this many distinct values; the window could not store more.
    Value {
        value: f64,
        saturated: bool,
    },
    /// The window has not run for its full length yet.
    Warming,
    /// The event is so much older than others of its key that earlier data is gone.
    Late,
    /// A mean of no events.
    Empty,
    Failed {
        why: LookupError,
    },
}

pub(crate) struct WindowState {
    pub(crate) def: WindowDef,
    pub(crate) span: Span,
    /// The name of its table in the windows file, and of its keys in Redis.
    pub(crate) table: String,
    pub(crate) counters: Arc<WindowCounters>,
    /// None: in Redis.
    embedded: Option<Embedded>,
    tokens: Arc<Tokens>,
}

impl WindowState {
    pub(crate) fn open(
        def: WindowDef,
        keys_max: usize,
        keeper: Option<&WindowStore>,
        tokens: Arc<Tokens>,
    ) -> Result<Arc<WindowState>, String> {
        let span = Span::new(def.last_ms)?;
        let table = table(&def)?;
        let counters = Arc::<WindowCounters>::default();
        let unread =
            |error: redb::Error| format!("cannot read the stored state of window {}: {error}", def.name);
        let embedded = if def.source.is_some() {
            None
        } else {
            let marks = keeper.map(|keeper| keeper.marks(&table)).transpose().map_err(unread)?.flatten();
            let embedded = Embedded::new(&span, marks, keys_max, keeper.is_some(), &counters);
            keeper.map(|keeper| keeper.restore(&table, &span, &embedded)).transpose().map_err(unread)?;
            Some(embedded)
        };
        Ok(Arc::new(WindowState { def, span, table, counters, embedded, tokens }))
    }

    /// Whether the definition is this window's.
    pub(crate) fn is(&self, def: &WindowDef) -> bool {
        let source = |def: &WindowDef| def.source.as_ref().map(|source| Arc::as_ptr(&source.0));
        let (mine, theirs) = (&self.def, def);
        mine.name == theirs.name
            && mine.op == theirs.op
            && mine.last_ms == theirs.last_ms
            && source(mine) == source(theirs)
    }

    pub(crate) fn embedded(&self) -> Option<&Embedded> {
        self.embedded.as_ref()
    }

    /// Whether changes are still to be written.
    pub(crate) fn changed(&self) -> bool {
        self.embedded.as_ref().is_some_and(|embedded| !embedded.changes.is_empty())
    }

    pub(crate) fn counts(&self) -> WindowCounts {
        let counters = &self.counters;
        WindowCounts {
            name: self.def.name.clone(),
            events: counters.events.get(),
            late: counters.late.get(),
            future: counters.future.get(),
            evictions: counters.evictions.get(),
            saturated: counters.saturated.get(),
            failed: counters.failed.get(),
            keys: self.embedded.as_ref().map_or(0, |embedded| embedded.len() as u64),
        }
    }

    /// The event's contribution; none: it does not count.
    pub(crate) fn gain(&self, event: &Event<'_>) -> Result<Option<Gain>, LookupError> {
        if event.key.len() > KEY_BYTES_MAX {
            return Err(LookupError::Bad);
        }
        match (self.def.op, event.value) {
            (WindowOp::Count, _) => Ok(Some(Gain::Number(0.0))),
            (_, WindowValue::None) => Ok(None),
            (_, WindowValue::Number(number)) if !number.is_finite() => Err(LookupError::Bad),
            (WindowOp::Distinct, WindowValue::Number(number)) => {
                // Zero has two signs but is one value.
                Ok(Some(Gain::Value(self.value_digest(b"n", &(number + 0.0).to_le_bytes()))))
            }
            (WindowOp::Distinct, WindowValue::Text(text)) => {
                Ok(Some(Gain::Value(self.value_digest(b"t", text.as_bytes()))))
            }
            (_, WindowValue::Number(number)) if number.abs() <= NUMBER_MAX => Ok(Some(Gain::Number(number))),
            _ => Err(LookupError::Bad),
        }
    }

    /// Replicas share no key, so a window in Redis uses a plain digest.
    fn value_digest(&self, kind: &[u8], value: &[u8]) -> u128 {
        match &self.embedded {
            Some(_) => self.tokens.value(kind, value),
            None => digest(kind, value),
        }
    }

    /// Removes a key from an embedded window; returns whether it existed.
    pub(crate) fn forget(&self, key: &str) -> bool {
        let token = self.tokens.token(key);
        self.embedded.as_ref().is_some_and(|embedded| embedded.forget(token.as_str()))
    }

    /// The value of an embedded window as of the event, which is added if it is real.
    pub(crate) fn step(&self, embedded: &Embedded, event: &Event<'_>, wall_ms: i64) -> Windowed {
        let gain = match self.gain(event) {
            Ok(gain) => gain,
            Err(why) => return self.failed(why),
        };
        let (when, token) = (self.span.when(event.at_ms, wall_ms), self.tokens.token(event.key));
        let key = token.as_str();
        let total = match gain.filter(|_| event.write && !when.ahead) {
            Some(gain) => {
                let total = embedded.step(&self.span, key, when, gain, event.current);
                if total.is_some() {
                    embedded.warmth.note(&self.span, when, wall_ms);
                }
                total
            }
            None => embedded.read(&self.span, key, when, gain.filter(|_| event.current)),
        };
        self.count(event, gain, when, total.is_none());
        match total {
            None => Windowed::Late,
            Some(_) if !embedded.warmth.warm(&self.span, when) => Windowed::Warming,
            Some(total) => self.value(total),
        }
    }

    /// Runs that are not real are not counted either.
    pub(crate) fn count(&self, event: &Event<'_>, gain: Option<Gain>, when: EventTime, late: bool) {
        if event.write && gain.is_some() {
            let counters = &self.counters;
            let counter = match (when.ahead, late) {
                (true, _) => &counters.future,
                (_, true) => &counters.late,
                _ => &counters.events,
            };
            counter.add();
        }
    }

    pub(crate) fn value(&self, total: Total) -> Windowed {
        let count = total.count as f64;
        let value = match self.def.op {
            WindowOp::Count | WindowOp::Distinct => count,
            WindowOp::Sum => total.sum,
            WindowOp::Mean if total.count == 0 => return Windowed::Empty,
            WindowOp::Mean => total.sum / count,
        };
        if total.saturated {
            self.counters.saturated.add();
        }
        Windowed::Value { value, saturated: total.saturated }
    }

    pub(crate) fn failed(&self, why: LookupError) -> Windowed {
        self.counters.failed.add();
        Windowed::Failed { why }
    }
}

fn table(def: &WindowDef) -> Result<String, String> {
    if def.name.is_empty() || def.name.len() > NAME_BYTES_MAX {
        return Err(format!("a window's name must have 1 to {NAME_BYTES_MAX} bytes"));
    }
    let mut table = String::with_capacity(def.name.len() + 32);
    // Writing into a text cannot fail.
    let _ = write!(table, "{} {} {}", def.name, def.op.label(), def.last_ms);
    Ok(table)
}

fn digest(kind: &[u8], value: &[u8]) -> u128 {
    let digest = Sha256::new().chain_update(kind).chain_update(value).finalize();
    let mut first = [0; 16];
    first.copy_from_slice(&digest[..16]);
    u128::from_be_bytes(first)
}

#[cfg(test)]
mod tests;
