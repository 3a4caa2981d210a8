//! How long the generator's thread ran, and how long it waited for a core.
//!
//! Reveals whether the generator or the server set the limit.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ThreadTime {
    pub(crate) ran: Duration,
    /// Ready to run, but another thread had the core.
    pub(crate) starved: Duration,
}

impl ThreadTime {
    /// Of the calling thread, since it started.
    pub(crate) fn now() -> ThreadTime {
        ThreadTime {
            ran: Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default(),
            starved: starved().unwrap_or_default(),
        }
    }

    pub(crate) fn since(self, earlier: ThreadTime) -> ThreadTime {
        ThreadTime {
            ran: self.ran.saturating_sub(earlier.ran),
            starved: self.starved.saturating_sub(earlier.starved),
        }
    }

    /// Without the time spent spinning.
    pub(crate) fn without(self, spun: Duration) -> ThreadTime {
        ThreadTime { ran: self.ran.saturating_sub(spun), ..self }
    }
}

/// The second number of schedstat; not available on all kernels.
fn starved() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}
