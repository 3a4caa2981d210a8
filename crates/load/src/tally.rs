//! Counts and latencies of the measured requests, and what they amount to.

use crate::outcome::{ErrorCount, LatencyUs, Outcome};
use crate::thread_time::ThreadTime;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Longer than any timeout that a plan may ask for; what is above it is recorded as it.
const LATENCY_MAX: Duration = Duration::from_secs(2 * 3600);

/// A request that leaves later than this after its time is late.
const LATE: Duration = Duration::from_millis(1);

/// From here on the generator's thread is what limits the rate.
const WANTED_SHARE_FULL: f64 = 0.9;
/// Late requests beside this much work, or this long without a core, are the generator's doing as well.
const WANTED_SHARE_BUSY: f64 = 0.7;
const STARVED_SHARE_MAX: f64 = 0.05;
const LATE_SHARE_MAX: f64 = 0.05;

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Ending {
    Answered,
    Mismatched(String),
    Refused(Problem),
    Failed(Problem),
}

/// A reason that counts are kept by, and what was said in this case.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) reason: Cow<'static, str>,
    pub(crate) text: String,
}

impl Problem {
    pub(crate) fn new(reason: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Problem {
        Problem { reason: reason.into(), text: text.into() }
    }
}

#[derive(Debug)]
pub(crate) struct Tally {
    answered: u64,
    refused: u64,
    failed: u64,
    mismatched: u64,
    late: u64,
    first_problem: Option<String>,
    errors: BTreeMap<Cow<'static, str>, u64>,
    latency_ns: Histogram<u64>,
    last_answer: Option<Instant>,
}

/// The measured stretch of a run, and what the generator's thread did in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) thread: ThreadTime,
}

impl Tally {
    pub(crate) fn new() -> Tally {
        let max = nanoseconds(LATENCY_MAX);
        Tally {
            answered: 0,
            refused: 0,
            failed: 0,
            mismatched: 0,
            late: 0,
            first_problem: None,
            errors: BTreeMap::new(),
            latency_ns: Histogram::new_with_bounds(1, max, 3).expect("the bounds are constants that fit"),
            last_answer: None,
        }
    }

    /// One request: when it was due, when it left (`None`: never), when it ended, and how.
    pub(crate) fn record(&mut self, due: Instant, left: Option<Instant>, ended: Instant, ending: Ending) {
        self.late += u64::from(left.is_none_or(|left| left.saturating_duration_since(due) > LATE));
        match ending {
            Ending::Answered => {
                self.answered += 1;
                self.latency_ns.saturating_record(nanoseconds(ended.saturating_duration_since(due)).max(1));
                self.last_answer = self.last_answer.max(Some(ended));
            }
            Ending::Mismatched(text) => {
                self.mismatched += 1;
                self.first_problem.get_or_insert(text);
            }
            Ending::Refused(problem) => {
                self.refused += 1;
                self.note(problem);
            }
            Ending::Failed(problem) => {
                self.failed += 1;
                self.note(problem);
            }
        }
    }

    fn note(&mut self, problem: Problem) {
        if self.first_problem.is_none() {
            let Problem { reason, text } = &problem;
            self.first_problem =
                Some(if text.is_empty() { reason.to_string() } else { format!("{reason}: {text}") });
        }
        *self.errors.entry(problem.reason).or_default() += 1;
    }

    pub(crate) fn outcome(self, measured: Measured) -> Outcome {
        let sent = self.answered + self.refused + self.failed + self.mismatched;
        let late_share = if sent == 0 { 0.0 } else { self.late as f64 / sent as f64 };
        // Answers that came after the end still took that time: leaving it out would flatter an overloaded server.
        let end = self.last_answer.map_or(measured.end, |last| last.max(measured.end));
        let elapsed_s = end.saturating_duration_since(measured.start).as_secs_f64();
        let rate_per_s = if elapsed_s > 0.0 { self.answered as f64 / elapsed_s } else { 0.0 };
        Outcome {
            sent,
            answered: self.answered,
            refused: self.refused,
            failed: self.failed,
            mismatched: self.mismatched,
            elapsed_s,
            rate_per_s,
            latency_us: latency(&self.latency_ns),
            histogram: serialise(&self.latency_ns),
            late_share,
            bottleneck: bottleneck(measured, late_share),
            errors: self
                .errors
                .into_iter()
                .map(|(reason, count)| ErrorCount { reason: reason.into(), count })
                .collect(),
            first_problem: self.first_problem,
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn latency(latency_ns: &Histogram<u64>) -> LatencyUs {
    let at = |quantile| latency_ns.value_at_quantile(quantile) as f64 / 1e3;
    LatencyUs {
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        max: latency_ns.max() as f64 / 1e3,
        mean: latency_ns.mean() / 1e3,
    }
}

fn serialise(latency_ns: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(latency_ns, &mut bytes)
        .expect("a histogram of bounded values is written into memory");
    STANDARD.encode(bytes)
}

fn bottleneck(measured: Measured, late_share: f64) -> Option<String> {
    let wall_s = measured.end.saturating_duration_since(measured.start).as_secs_f64();
    let share = |time: Duration| if wall_s > 0.0 { time.as_secs_f64() / wall_s } else { 0.0 };
    let (ran, starved) = (share(measured.thread.ran), share(measured.thread.starved));
    let thread = format!(
        "the generator's own thread was busy {:.0} % of the time and without a core {:.0} %",
        ran * 100.0,
        starved * 100.0
    );
    if ran + starved > WANTED_SHARE_FULL {
        return Some(format!("{thread}: the rate is its limit, not the server's"));
    }
    let to_blame = ran + starved > WANTED_SHARE_BUSY || starved > STARVED_SHARE_MAX;
    (late_share > LATE_SHARE_MAX && to_blame).then(|| {
        format!(
            "{thread}, and {:.0} % of the requests left late: part of the latency is its own",
            late_share * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(ran_ms: u64, starved_ms: u64) -> ThreadTime {
        ThreadTime { ran: Duration::from_millis(ran_ms), starved: Duration::from_millis(starved_ms) }
    }

    #[test]
    fn the_generator_says_when_it_was_the_limit_itself() {
        let start = Instant::now();
        let end = start + Duration::from_millis(100);
        let cases = [
            (thread(95, 0), 0.0, Some("busy 95 %")),
            (thread(50, 45), 0.0, Some("without a core 45 %")),
            (thread(75, 0), 0.06, Some("6 % of the requests left late")),
            (thread(20, 10), 0.06, Some("left late")),
            (thread(75, 0), 0.04, None),
            (thread(20, 0), 0.9, None),
        ];
        for (thread, late_share, wanted) in cases {
            let text = bottleneck(Measured { start, end, thread }, late_share);
            assert_eq!(text.is_some(), wanted.is_some(), "{text:?}");
            assert!(text.unwrap_or_default().contains(wanted.unwrap_or_default()), "{wanted:?}");
        }
    }

    #[test]
    fn counts_add_up_and_latency_is_from_the_due_time_of_right_answers() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut tally = Tally::new();
        tally.record(at(0), Some(at(0)), at(10), Ending::Answered);
        tally.record(at(0), Some(at(5)), at(30), Ending::Answered);
        tally.record(at(0), Some(at(0)), at(90), Ending::Mismatched("other".into()));
        tally.record(at(0), Some(at(0)), at(1), Ending::Refused(Problem::new("http 503", "full")));
        tally.record(at(0), None, at(1), Ending::Failed(Problem::new("generator backlog full", "")));
        let outcome = tally.outcome(Measured { start, end: at(20), thread: thread(19, 0) });
        assert_eq!((outcome.sent, outcome.answered, outcome.refused), (5, 2, 1));
        assert_eq!((outcome.failed, outcome.mismatched), (1, 1));
        assert_eq!(outcome.first_problem.as_deref(), Some("other"));
        assert!((outcome.late_share - 0.4).abs() < 1e-9);
        assert!((outcome.elapsed_s - 0.03).abs() < 1e-9);
        assert!((outcome.latency_us.max - 30_000.0).abs() < 50.0);
        assert!(outcome.bottleneck.is_some_and(|text| text.contains("busy 95 %")));
        let reasons: Vec<_> = outcome.errors.iter().map(|error| error.reason.as_str()).collect();
        assert_eq!(reasons, ["generator backlog full", "http 503"]);
    }

    #[test]
    fn a_run_without_answers_has_an_outcome() {
        let start = Instant::now();
        let outcome = Tally::new().outcome(Measured { start, end: start, thread: thread(0, 0) });
        assert_eq!((outcome.sent, outcome.rate_per_s, outcome.late_share), (0, 0.0, 0.0));
        assert_eq!((outcome.latency_us, outcome.bottleneck), (LatencyUs::default(), None));
    }
}
