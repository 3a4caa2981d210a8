//! The events that a value covers.
//!
//! Event time is divided into buckets of a sixtieth of the window, and a value at time `t` covers the bucket
//! of `t` and the `count` before it: all events of the last N milliseconds, and those of up to one more
//! bucket. Events of buckets after that of `t` are not covered, whenever they came.

/// Shorter windows are not supported: the request's own latency is too large a part.
const LAST_MS_MIN: u64 = 1_000;
const LAST_MS_MAX: u64 = 400 * 24 * 3_600_000;
/// Earlier times are clamped to this: no sum of buckets exceeds what a double represents exactly.
const AT_MS_MIN: i64 = -(1 << 52);
/// An event further ahead of the clock is not added.
pub(crate) const AHEAD_MS_MAX: i64 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) last_ms: i64,
    pub(crate) width_ms: i64,
    /// Earlier buckets that a value covers; at most 60.
    pub(crate) count: i64,
}

/// An event's time, as far as the window accepts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventTime {
    pub(crate) at_ms: i64,
    pub(crate) bucket: i64,
    /// It claimed to be further ahead.
    pub(crate) ahead: bool,
}

impl Span {
    pub(crate) fn new(last_ms: u64) -> Result<Span, String> {
        if !(LAST_MS_MIN..=LAST_MS_MAX).contains(&last_ms) {
            return Err(format!("a window must be {LAST_MS_MIN} ms to 400 days long, not {last_ms} ms"));
        }
        let width = last_ms.div_ceil(60);
        let count = last_ms.div_ceil(width);
        // Both are below 2^36.
        Ok(Span { last_ms: last_ms as i64, width_ms: width as i64, count: count as i64 })
    }

    pub(crate) fn when(&self, at_ms: i64, wall_ms: i64) -> EventTime {
        let most = wall_ms.saturating_add(AHEAD_MS_MAX);
        let believed = at_ms.min(most).max(AT_MS_MIN);
        EventTime { at_ms: believed, bucket: believed.div_euclid(self.width_ms), ahead: at_ms > most }
    }

    /// The first bucket that a value at `bucket` covers.
    pub(crate) fn first(&self, bucket: i64) -> i64 {
        bucket - self.count
    }

    /// Whether an event of `bucket` is so late that the data its value covers may be gone.
    pub(crate) fn late(&self, bucket: i64, newest: Option<i64>) -> bool {
        newest.is_some_and(|newest| bucket < newest - self.count)
    }

    /// The first stored bucket: late events read as far back as others.
    pub(crate) fn kept(&self, newest: i64) -> i64 {
        newest - 2 * self.count
    }
}
