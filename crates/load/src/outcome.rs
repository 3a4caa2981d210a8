//! What a run found, in the form that crosses the boundary to Python.

use crate::control::Course;
use crate::drive::Part;
use crate::generator::{Effort, bottleneck};
use crate::histogram::{self, LatencyUs};
use crate::plan::Plan;
use crate::timeline::Interval;
use serde::Serialize;

/// The result of a run. Warm-up is left out. `sent == answered + refused + failed + mismatched`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Requests that were due in the measured time, those among them that the generator could not send included.
    pub sent: u64,
    /// Right answers.
    pub answered: u64,
    /// Turned away by the server: the caller's fault, overload, or not ready.
    pub refused: u64,
    /// No answer, or the server's own fault.
    pub failed: u64,
    /// Answers with the wrong id or other outputs than expected.
    pub mismatched: u64,
    /// Those of the failed that waited for an answer in vain.
    pub timed_out: u64,
    /// Those of the answered that came later than the deadline after they were due.
    pub past_deadline: u64,
    pub first_problem: Option<String>,
    pub errors: Vec<ErrorCount>,
    /// Requests that were due, a second; in a closed loop those that were sent.
    pub offered_per_s: f64,
    pub elapsed_s: f64,
    /// Right answers a second.
    pub rate_per_s: f64,
    /// From the intended send time: right answers, and requests that timed out at the time that was gone, so that a
    /// server does not look better by not answering.
    pub latency_us: LatencyUs,
    /// The same requests from the moment at which they left: what a closed loop would show.
    pub service_us: LatencyUs,
    /// The latencies in nanoseconds, as HdrHistogram V2 (compressed) in base64.
    pub histogram: String,
    pub service_histogram: String,
    /// Share of requests that left more than 1 ms after they were due, or never.
    pub late_share: f64,
    /// In words, when the generator and not the server set the limit.
    pub bottleneck: Option<String>,
    pub generator: Generator,
    pub warmup: WarmedUp,
    /// Why the run ended before its time.
    pub ended_early: Option<String>,
    pub timeline: Vec<Interval>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorCount {
    pub reason: String,
    pub count: u64,
}

/// What the generator itself did in the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Generator {
    pub threads: usize,
    /// Of the busiest thread: the share of time that it ran.
    pub busy_share: f64,
    /// Of the thread that had it worst: the share of time that it was ready to run but had no core.
    pub starved_share: f64,
    /// From due to left, of requests that found a free connection: the generator's own delay.
    pub lateness_us: LatencyUs,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WarmedUp {
    pub used_s: f64,
    /// Whether rate and median latency had no trend when it ended.
    pub steady: bool,
}

impl Outcome {
    /// What the threads of a run found, as one. `None` where there is no thread.
    pub(crate) fn of(plan: &Plan, course: &Course, parts: Vec<Part>) -> Option<Outcome> {
        let start = parts.iter().map(|part| part.start).min()?;
        let end = parts.iter().map(|part| part.end).max()?;
        let measured = end.saturating_duration_since(start);
        let efforts: Vec<_> = parts.iter().map(|part| Effort::of(part.thread, measured)).collect();
        let warmup = parts.first()?.warmup;
        let tally = parts.into_iter().map(|part| part.tally).reduce(|mut all, tally| {
            all.merge(tally);
            all
        })?;
        // Answers that came after the end still took that time: leaving it out would flatter an overloaded server.
        let end = tally.last_answer.map_or(end, |last| last.max(end));
        let elapsed_s = end.saturating_duration_since(start).as_secs_f64();
        let offered_s =
            if plan.arrivals.closed() { elapsed_s } else { plan.measured().min(measured).as_secs_f64() };
        let (counts, late_share) = (tally.counts, tally.late_share());
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
            latency_us: histogram::figures(&tally.latency_ns),
            service_us: histogram::figures(&tally.service_ns),
            histogram: histogram::encode(&tally.latency_ns),
            service_histogram: histogram::encode(&tally.service_ns),
            late_share,
            bottleneck: bottleneck(&efforts, late_share),
            generator: Generator {
                threads: efforts.len(),
                busy_share: efforts.iter().map(|effort| effort.busy).fold(0.0, f64::max),
                starved_share: efforts.iter().map(|effort| effort.starved).fold(0.0, f64::max),
                lateness_us: histogram::figures(&tally.lateness_ns),
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
