//! Counts and latencies of one thread's measured requests; those of several are merged.

use crate::histogram;
use crate::outcome::ErrorCount;
use crate::timeline::Timeline;
use hdrhistogram::Histogram;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// A request sent later than this after its due time is late.
const LATE: Duration = Duration::from_millis(1);

/// Maximum distinct reasons; a server that keeps inventing new ones cannot fill the memory.
const REASONS_MAX: usize = 64;
const REASON_OTHER: &str = "other";

/// How a request ended.
#[derive(Debug)]
pub(crate) enum Ending {
    Answered,
    Mismatched(String),
    Refused(Problem),
    Failed(Problem),
    TimedOut,
    /// Never sent, and why. Counts with its waiting time, but at least a request's timeout: a full backlog
    /// rejects at once, which must not look fast.
    Unsent(&'static str),
}

/// A reason to count by, and its details.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) reason: Cow<'static, str>,
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// The origin of a problem: only a server's response is a sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Server,
    /// The connection broke during the request.
    Connection,
    /// No connection could be made.
    Connect,
}

impl Problem {
    pub(crate) fn new(reason: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Problem {
        Problem { reason: reason.into(), text: text.into(), origin: Origin::Server }
    }

    pub(crate) fn broken(reason: &'static str, text: impl Into<String>) -> Problem {
        Problem { origin: Origin::Connection, ..Problem::new(reason, text) }
    }

    pub(crate) fn unreachable(reason: &'static str, text: impl Into<String>) -> Problem {
        Problem { origin: Origin::Connect, ..Problem::new(reason, text) }
    }

    pub(crate) fn words(&self) -> String {
        let Problem { reason, text, .. } = self;
        if text.is_empty() { reason.to_string() } else { format!("{reason}: {text}") }
    }
}

/// The times of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) due: Instant,
    /// `None`: never.
    pub(crate) left: Option<Instant>,
    pub(crate) ended: Instant,
    /// A connection was free when it was due, so that any delay was the generator's.
    pub(crate) prompt: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) answered: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) mismatched: u64,
}

impl Counts {
    pub(crate) fn sent(&self) -> u64 {
        self.answered + self.refused + self.failed + self.mismatched
    }

    pub(crate) fn add(&mut self, other: &Counts) {
        self.answered += other.answered;
        self.refused += other.refused;
        self.failed += other.failed;
        self.mismatched += other.mismatched;
    }

    fn count(&mut self, ending: &Ending) {
        match ending {
            Ending::Answered => self.answered += 1,
            Ending::Mismatched(_) => self.mismatched += 1,
            Ending::Refused(_) => self.refused += 1,
            Ending::Failed(_) | Ending::TimedOut | Ending::Unsent(_) => self.failed += 1,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    pub(crate) timed_out: u64,
    pub(crate) past_deadline: u64,
    late: u64,
    waited: u64,
    /// With its time, to find the first one over several threads.
    first_problem: Option<(Instant, String)>,
    errors: BTreeMap<Cow<'static, str>, u64>,
    pub(crate) latency_ns: Histogram<u64>,
    pub(crate) service_ns: Histogram<u64>,
    pub(crate) lateness_ns: Histogram<u64>,
    pub(crate) timeline: Timeline,
    pub(crate) last_answer: Option<Instant>,
    timeout: Duration,
    deadline: Option<Duration>,
}

impl Tally {
    pub(crate) fn new(timeline: Timeline, timeout: Duration, deadline: Option<Duration>) -> Tally {
        Tally {
            counts: Counts::default(),
            timed_out: 0,
            past_deadline: 0,
            late: 0,
            waited: 0,
            first_problem: None,
            errors: BTreeMap::new(),
            latency_ns: histogram::wide(),
            service_ns: histogram::wide(),
            lateness_ns: histogram::wide(),
            timeline,
            last_answer: None,
            timeout,
            deadline,
        }
    }

    /// Records one request; `start` is when measuring started.
    pub(crate) fn record(&mut self, start: Instant, times: Times, ending: Ending) {
        let Times { due, left, ended, prompt } = times;
        let gone = ended.saturating_duration_since(due);
        let latency = if matches!(ending, Ending::Unsent(_)) { gone.max(self.timeout) } else { gone };
        let (counts, latency_ns) = self.timeline.part(due.saturating_duration_since(start));
        self.counts.count(&ending);
        counts.count(&ending);
        self.waited += u64::from(!prompt);
        if matches!(ending, Ending::Answered | Ending::TimedOut | Ending::Unsent(_)) {
            histogram::record(latency_ns, latency);
            histogram::record(&mut self.latency_ns, latency);
        }
        match left {
            None => self.late += 1,
            Some(left) => {
                let lateness = left.saturating_duration_since(due);
                self.late += u64::from(lateness > LATE);
                if prompt {
                    histogram::record(&mut self.lateness_ns, lateness);
                }
                if matches!(ending, Ending::Answered | Ending::TimedOut) {
                    histogram::record(&mut self.service_ns, ended.saturating_duration_since(left));
                }
            }
        }
        match ending {
            Ending::Answered => {
                self.last_answer = self.last_answer.max(Some(ended));
                self.past_deadline += u64::from(self.deadline.is_some_and(|deadline| latency > deadline));
            }
            Ending::Mismatched(text) => self.note_first(ended, || text),
            Ending::Refused(problem) | Ending::Failed(problem) => self.note(ended, problem),
            Ending::TimedOut => {
                self.timed_out += 1;
                self.note(ended, Problem::new("timeout", ""));
            }
            Ending::Unsent(reason) => self.note(ended, Problem::new(reason, "")),
        }
    }

    fn note(&mut self, at: Instant, problem: Problem) {
        self.note_first(at, || problem.words());
        self.count_error(problem.reason, 1);
    }

    fn note_first(&mut self, at: Instant, words: impl FnOnce() -> String) {
        if self.first_problem.as_ref().is_none_or(|(first, _)| at < *first) {
            self.first_problem = Some((at, words()));
        }
    }

    fn count_error(&mut self, reason: Cow<'static, str>, count: u64) {
        let room = self.errors.len() < REASONS_MAX || self.errors.contains_key(&reason);
        let reason = if room { reason } else { Cow::Borrowed(REASON_OTHER) };
        *self.errors.entry(reason).or_default() += count;
    }

    pub(crate) fn merge(&mut self, other: Tally) {
        self.counts.add(&other.counts);
        self.timed_out += other.timed_out;
        self.past_deadline += other.past_deadline;
        self.late += other.late;
        self.waited += other.waited;
        if let Some((at, words)) = other.first_problem {
            self.note_first(at, || words);
        }
        for (reason, count) in other.errors {
            self.count_error(reason, count);
        }
        histogram::add(&mut self.latency_ns, &other.latency_ns);
        histogram::add(&mut self.service_ns, &other.service_ns);
        histogram::add(&mut self.lateness_ns, &other.lateness_ns);
        self.timeline.merge(&other.timeline);
        self.last_answer = self.last_answer.max(other.last_answer);
    }

    pub(crate) fn late_share(&self) -> f64 {
        self.share(self.late)
    }

    /// The share without a free connection when due.
    pub(crate) fn waited_share(&self) -> f64 {
        self.share(self.waited)
    }

    fn share(&self, count: u64) -> f64 {
        let sent = self.counts.sent();
        if sent == 0 { 0.0 } else { count as f64 / sent as f64 }
    }

    pub(crate) fn first_problem(&self) -> Option<String> {
        self.first_problem.as_ref().map(|(_, words)| words.clone())
    }

    pub(crate) fn errors(&self) -> Vec<ErrorCount> {
        let counted = self.errors.iter();
        counted.map(|(reason, count)| ErrorCount { reason: reason.to_string(), count: *count }).collect()
    }
}

#[cfg(test)]
mod tests;
