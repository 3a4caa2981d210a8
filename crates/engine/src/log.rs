//! ONNX Runtime's log: always counted, forwarded with a rate limit.
//!
//! Some converted models warn at every run; a log line for each would cost more than the run.

use crate::refusal::one_line;
use ort::logging::LogLevel;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogSeverity {
    Warning,
    Error,
    Fatal,
}

const LABELS: [&str; 3] = ["warning", "error", "fatal"];

impl LogSeverity {
    fn of(level: LogLevel, message: &str) -> Option<LogSeverity> {
        match level {
            LogLevel::Verbose | LogLevel::Info => None,
            LogLevel::Warning => Some(LogSeverity::Warning),
            LogLevel::Error if message.contains(STOPPED) => Some(LogSeverity::Warning),
            LogLevel::Error if WITHOUT_ERRORS.get() => None,
            LogLevel::Error => Some(LogSeverity::Error),
            LogLevel::Fatal => Some(LogSeverity::Fatal),
        }
    }
}

/// ONNX Runtime's error text for a run that was stopped inside a loop.
const STOPPED: &str = "terminate flag being set";

/// Maximum lines of each severity forwarded in one second; the rest is only counted.
const LINES_A_SECOND: u64 = 5;

#[derive(Default)]
struct Meter {
    total: AtomicU64,
    second: AtomicU64,
    in_second: AtomicU64,
}

static METERS: [Meter; 3] =
    [const { Meter { total: AtomicU64::new(0), second: AtomicU64::new(0), in_second: AtomicU64::new(0) } };
        3];

/// The number of messages of each severity in this process, by label.
pub fn log_counts() -> [(&'static str, u64); 3] {
    std::array::from_fn(|place| (LABELS[place], METERS[place].total.load(Ordering::Relaxed)))
}

thread_local! {
    static WITHOUT_ERRORS: Cell<bool> = const { Cell::new(false) };
}

/// Suppresses errors while `attempt` runs: it may fail, and its caller gets the reason.
///
/// Sessions run on the calling thread, and log on it.
pub(crate) fn without_errors<T>(attempt: impl FnOnce() -> T) -> T {
    WITHOUT_ERRORS.set(true);
    let outcome = attempt();
    WITHOUT_ERRORS.set(false);
    outcome
}

pub(crate) fn receive(level: LogLevel, location: &str, message: &str) {
    let Some(severity) = LogSeverity::of(level, message) else { return };
    if !METERS[severity as usize].admit() {
        return;
    }
    let message = one_line(message);
    match severity {
        LogSeverity::Warning => tracing::warn!(target: "onnxruntime", location, "{message}"),
        LogSeverity::Error | LogSeverity::Fatal => {
            tracing::error!(target: "onnxruntime", location, "{message}")
        }
    }
}

impl Meter {
    /// Counts a message; returns whether it is within its second's limit. Races may forward one line too
    /// many, never lose a count.
    fn admit(&self) -> bool {
        self.total.fetch_add(1, Ordering::Relaxed);
        let second = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.in_second.store(0, Ordering::Relaxed);
        }
        self.in_second.fetch_add(1, Ordering::Relaxed) < LINES_A_SECOND
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_was_stopped_is_no_error() {
        let stopped = "Non-zero status code returned while running Loop node. Status Message: Exiting due to terminate \
                       flag being set to true.";
        assert_eq!(LogSeverity::of(LogLevel::Error, stopped), Some(LogSeverity::Warning));
        assert_eq!(LogSeverity::of(LogLevel::Error, "out of memory"), Some(LogSeverity::Error));
    }

    #[test]
    fn a_flood_of_messages_is_counted_whole_and_passed_on_sampled() {
        let meter = Meter::default();
        let passed = (0..1000).filter(|_| meter.admit()).count() as u64;
        assert_eq!(meter.total.load(Ordering::Relaxed), 1000);
        // The loop may cross a second's boundary, once.
        assert!((1..=2 * LINES_A_SECOND).contains(&passed), "{passed}");
    }

    #[test]
    fn errors_of_an_attempt_that_may_fail_are_left_out_and_later_ones_are_not() {
        let severity = || [LogLevel::Error, LogLevel::Warning].map(|level| LogSeverity::of(level, "no"));
        assert_eq!(without_errors(severity), [None, Some(LogSeverity::Warning)]);
        assert_eq!(severity(), [Some(LogSeverity::Error), Some(LogSeverity::Warning)]);
    }
}
