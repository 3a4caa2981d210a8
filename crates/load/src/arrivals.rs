//! Arrival schedules: one for a plan, equal on every machine and for any number of threads.
//!
//! Every offset is computed from the start, so that nothing drifts. Knows neither clocks nor sessions.

use crate::plan::{PlanError, require};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const RATE_MAX: f64 = 10_000_000.0;
const TRACE_MAX: usize = 10_000_000;
const RATE_ALLOWED: &str = "above 0, to 10000000";

/// The arrival process, as the caller writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Arrivals {
    /// Each connection sends its next request after the last response. With braces, because serde accepts any
    /// key for a variant without.
    Closed {},
    Constant {
        rate_per_s: f64,
    },
    Poisson {
        rate_per_s: f64,
        seed: u64,
    },
    /// Every period of `every_s` starts with `burst_s` at `burst_per_s`; the rest has `rate_per_s`.
    Burst {
        rate_per_s: f64,
        burst_per_s: f64,
        burst_s: f64,
        every_s: f64,
    },
    /// Linear over the measured time.
    Ramp {
        from_per_s: f64,
        to_per_s: f64,
    },
    /// As recorded: ascending, in seconds from the start.
    Trace {
        offsets_s: Vec<f64>,
    },
}

impl Default for Arrivals {
    fn default() -> Arrivals {
        Arrivals::Closed {}
    }
}

impl Arrivals {
    pub(crate) fn check(&self) -> Result<(), PlanError> {
        let rate = |key, rate: f64| require(rate > 0.0 && rate <= RATE_MAX, key, rate, RATE_ALLOWED);
        match self {
            Arrivals::Closed {} => Ok(()),
            Arrivals::Constant { rate_per_s } | Arrivals::Poisson { rate_per_s, .. } => {
                rate("arrivals.rate_per_s", *rate_per_s)
            }
            Arrivals::Burst { rate_per_s, burst_per_s, burst_s, every_s } => {
                rate("arrivals.rate_per_s", *rate_per_s)?;
                rate("arrivals.burst_per_s", *burst_per_s)?;
                let every_ok = *every_s > 0.0 && *every_s <= 86_400.0;
                let burst_ok = *burst_s > 0.0 && burst_s < every_s;
                require(every_ok, "arrivals.every_s", every_s, "above 0, to 86400")?;
                require(burst_ok, "arrivals.burst_s", burst_s, "above 0, and less than every_s")
            }
            Arrivals::Ramp { from_per_s, to_per_s } => {
                rate("arrivals.from_per_s", *from_per_s)?;
                rate("arrivals.to_per_s", *to_per_s)
            }
            Arrivals::Trace { offsets_s } => check_trace(offsets_s),
        }
    }

    pub(crate) fn closed(&self) -> bool {
        matches!(self, Arrivals::Closed {})
    }

    /// The length of the measured time: the plan's, or the trace's if that is shorter.
    pub(crate) fn span_s(&self, duration_s: f64) -> f64 {
        match self {
            Arrivals::Trace { offsets_s } => duration_s.min(trace_span_s(offsets_s).unwrap_or(duration_s)),
            _ => duration_s,
        }
    }

    /// The warm-up load: the initial rate of the measured time, constant.
    pub(crate) fn warmup(&self, duration_s: f64) -> Arrivals {
        let rate_per_s = match self {
            Arrivals::Closed {} | Arrivals::Constant { .. } | Arrivals::Poisson { .. } => {
                return self.clone();
            }
            Arrivals::Burst { rate_per_s, .. } => *rate_per_s,
            Arrivals::Ramp { from_per_s, .. } => *from_per_s,
            Arrivals::Trace { offsets_s } => {
                offsets_s.len() as f64 / trace_span_s(offsets_s).unwrap_or(duration_s)
            }
        };
        Arrivals::Constant { rate_per_s: rate_per_s.min(RATE_MAX) }
    }
}

fn check_trace(offsets_s: &[f64]) -> Result<(), PlanError> {
    let count_ok = (1..=TRACE_MAX).contains(&offsets_s.len());
    let count = format!("{} offsets", offsets_s.len());
    require(count_ok, "arrivals.offsets_s", count, "1 to 10000000 offsets")?;
    let ascends = offsets_s.is_sorted_by(|a, b| a <= b);
    let ok = ascends && offsets_s.iter().all(|offset| (0.0..=86_400.0).contains(offset));
    require(ok, "arrivals.offsets_s", "not in order", "ascending offsets of 0 to 86400")
}

/// The trace plus one mean gap after its last request; `None` if all of it is due at once.
fn trace_span_s(offsets_s: &[f64]) -> Option<f64> {
    let (count, last) = (offsets_s.len() as f64, *offsets_s.last()?);
    (count > 1.0 && last > 0.0).then(|| last * count / (count - 1.0))
}

/// The due times of one thread: arrivals `first`, `first + step`, … in seconds from the start.
pub(crate) struct Offsets {
    arrivals: Arc<Arrivals>,
    until_s: f64,
    next: u64,
    step: u64,
    random: Option<Random>,
}

/// A Poisson process as far as it has been drawn; it has no formula for its n-th arrival.
struct Random {
    generator: ChaCha8Rng,
    drawn: u64,
    offset_s: f64,
}

impl Offsets {
    /// Arrivals before `until_s`, which is also the length of a ramp.
    pub(crate) fn new(arrivals: Arc<Arrivals>, until_s: f64, first: u64, step: u64) -> Offsets {
        let random = match &*arrivals {
            Arrivals::Poisson { seed, .. } => {
                Some(Random { generator: ChaCha8Rng::seed_from_u64(*seed), drawn: 0, offset_s: 0.0 })
            }
            _ => None,
        };
        Offsets { arrivals, until_s, next: first, step, random }
    }

    /// Arrival number `place` of the whole schedule; `None` if there is none.
    fn offset_s(&mut self, place: u64) -> Option<f64> {
        let count = place as f64;
        match &*self.arrivals {
            Arrivals::Closed {} => None,
            Arrivals::Constant { rate_per_s } => Some(count / rate_per_s),
            Arrivals::Poisson { rate_per_s, .. } => {
                let random = self.random.as_mut()?;
                while random.drawn <= place {
                    random.offset_s += exponential(&mut random.generator) / rate_per_s;
                    random.drawn += 1;
                }
                Some(random.offset_s)
            }
            Arrivals::Burst { rate_per_s, burst_per_s, burst_s, every_s } => {
                let in_burst = burst_per_s * burst_s;
                let in_period = in_burst + rate_per_s * (every_s - burst_s);
                let periods = (count / in_period).floor();
                let rest = count - periods * in_period;
                let offset = if rest < in_burst {
                    rest / burst_per_s
                } else {
                    burst_s + (rest - in_burst) / rate_per_s
                };
                Some(periods * every_s + offset)
            }
            Arrivals::Ramp { from_per_s, to_per_s } => {
                // Where from·t + slope·t²/2 reaches `count`, in the form that does not cancel.
                let slope = (to_per_s - from_per_s) / self.until_s;
                let under_root = from_per_s * from_per_s + 2.0 * slope * count;
                (under_root >= 0.0).then(|| 2.0 * count / (from_per_s + under_root.sqrt()))
            }
            Arrivals::Trace { offsets_s } => offsets_s.get(usize::try_from(place).ok()?).copied(),
        }
    }
}

impl Iterator for Offsets {
    /// The arrival's number in the whole schedule, and when it is due.
    type Item = (u64, f64);

    fn next(&mut self) -> Option<(u64, f64)> {
        let place = self.next;
        let offset_s = self.offset_s(place).filter(|offset| *offset < self.until_s)?;
        self.next += self.step;
        Some((place, offset_s))
    }
}

/// An exponential draw of mean 1, by the inverse of its distribution.
fn exponential(generator: &mut ChaCha8Rng) -> f64 {
    let uniform = (generator.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
    -(1.0 - uniform).ln()
}

#[cfg(test)]
mod tests;
