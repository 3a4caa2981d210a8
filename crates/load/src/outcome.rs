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
    /// From the intended send time: right answers, requests that timed out at the time that was gone, and those that were
    /// never sent at the time that they had waited, the timeout at least. A server does not look better by not answering,
    /// nor by making the generator give up.
    pub latency_us: LatencyUs,
    /// Those of them that left, from that moment: what a closed loop would show.
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
    /// Share of the sent requests that found no free connection when they were due: they waited in the generator's backlog.
    pub waited_share: f64,
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
        let closed = plan.arrivals.closed();
        // Answers that came after the end still took that time: leaving it out would flatter an overloaded server. Not so
        // in a closed loop, where each request was sent when another was answered: those that were under way at the start
        // are not counted, and waiting for the last ones as well would take that time off twice.
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
