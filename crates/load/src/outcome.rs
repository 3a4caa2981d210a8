//! The result of a run, in the form that is passed to Python.

use crate::control::RunState;
use crate::drive::Part;
use crate::generator::{Effort, bottleneck};
use crate::histogram::{self, LatencyUs};
use crate::plan::Plan;
use crate::timeline::Interval;
use serde::Serialize;

/// The result of a run without warm-up. `sent == answered + refused + failed + mismatched`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Requests that were due in the measured time, including those that could not be sent.
    pub sent: u64,
    /// Correct responses.
    pub answered: u64,
    /// Rejected by the server: the caller's fault, overload, or not ready.
    pub refused: u64,
    /// No response, or the server's fault.
    pub failed: u64,
    /// Responses with the wrong id or unexpected outputs.
    pub mismatched: u64,
    /// Failed requests that timed out.
    pub timed_out: u64,
    /// Answered requests that came later than the deadline after they were due.
    pub past_deadline: u64,
    pub first_problem: Option<String>,
    pub errors: Vec<ErrorCount>,
    /// Due requests a second; in a closed loop those that were sent.
    pub offered_per_s: f64,
    pub elapsed_s: f64,
    /// Correct responses a second.
    pub rate_per_s: f64,
    /// Latency from the intended send time.
    ///
    /// Includes correct responses, timed-out requests at their elapsed time, and unsent requests at the time
    /// they waited, at least the timeout. A server does not look better by not answering, nor by making the
    /// generator give up.
    pub latency_us: LatencyUs,
    /// The sent ones, from the actual send time: what a closed loop would show.
    pub service_us: LatencyUs,
    /// The latencies in nanoseconds, as HdrHistogram V2 (compressed) in base64.
    pub histogram: String,
    pub service_histogram: String,
    /// Share of requests that were sent more than 1 ms late, or never.
    pub late_share: f64,
    /// A message if the generator, not the server, was the limit.
    pub bottleneck: Option<String>,
    pub generator: Generator,
    pub warmup: WarmedUp,
    /// Why the run ended early.
    pub ended_early: Option<String>,
    pub timeline: Vec<Interval>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    pub reason: String,
    pub count: u64,
}

/// The generator's own activity in the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Generator {
    pub threads: usize,
    /// The share of time that the busiest thread ran.
    pub busy_share: f64,
    /// The largest share of time that a thread was ready but had no core.
    pub starved_share: f64,
    /// From due to sent, of requests with a free connection: the generator's own delay.
    pub lateness_us: LatencyUs,
    /// Share of sent requests without a free connection when due: they waited in the generator's backlog.
    pub waited_share: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WarmedUp {
    pub used_s: f64,
    /// Whether rate and median latency had no trend when it ended.
    pub steady: bool,
}

impl Outcome {
    /// Merges the results of a run's threads. `None` without threads.
    pub(crate) fn of(plan: &Plan, course: &RunState, parts: Vec<Part>) -> Option<Outcome> {
        let start = parts.iter().map(|part| part.start).min()?;
        let end = parts.iter().map(|part| part.end).max()?;
        let measured = end.saturating_duration_since(start);
        let efforts: Vec<_> = parts.iter().map(|part| Effort::of(part.thread, measured)).collect();
        let warmup = parts.first()?.warmup;
        let tally = parts.into_iter().map(|part| part.tally).reduce(|mut all, tally| {
            all.merge(tally);
            all
        })?;
        let closed = plan.arrivals.closed();
        // Responses after the end still took that time: omitting it would flatter an overloaded server. Not
        // in a closed loop, where each request was sent when another was answered: those in flight at the
        // start are not counted, and waiting for the last ones as well would subtract that time twice.
        let end = tally.last_answer.map_or(end, |last| if closed { end } else { last.max(end) });
        let elapsed_s = end.saturating_duration_since(start).as_secs_f64();
        let offered_s = if closed { elapsed_s } else { plan.measured().min(measured).as_secs_f64() };
        let counts = tally.counts;
        let [latency_us, service_us, lateness_us] =
            [&tally.latency_ns, &tally.service_ns, &tally.lateness_ns].map(histogram::figures);
        Some(Outcome {
            sent: counts.sent(),
            answered: counts.answered,
            refused: counts.refused,
            failed: counts.failed,
            mismatched: counts.mismatched,
            timed_out: tally.timed_out,
            past_deadline: tally.past_deadline,
            first_problem: tally.first_problem(),
            errors: tally.errors(),
            offered_per_s: per_second(counts.sent(), offered_s),
            elapsed_s,
            rate_per_s: per_second(counts.answered, elapsed_s),
            latency_us,
            service_us,
            histogram: histogram::encode(&tally.latency_ns),
            service_histogram: histogram::encode(&tally.service_ns),
            late_share: tally.late_share(),
            bottleneck: bottleneck(&efforts, &lateness_us, &latency_us),
            generator: Generator {
                threads: efforts.len(),
                busy_share: efforts.iter().map(|effort| effort.busy).fold(0.0, f64::max),
                starved_share: efforts.iter().map(|effort| effort.starved).fold(0.0, f64::max),
                lateness_us,
                waited_share: tally.waited_share(),
            },
            warmup,
            ended_early: course.ended.as_ref().map(|ended| ended.words(course.measured_from)),
            timeline: tally.timeline.intervals(measured.min(plan.measured())),
        })
    }
}

fn per_second(count: u64, time_s: f64) -> f64 {
    if time_s > 0.0 { count as f64 / time_s } else { 0.0 }
}
