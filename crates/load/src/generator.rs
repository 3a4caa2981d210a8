//! Whether the generator was itself the limit: what its threads did while they measured.

use crate::thread_time::ThreadTime;
use std::time::Duration;

/// From here on the generator's thread is what limits the rate.
const WANTED_SHARE_FULL: f64 = 0.9;
/// Late requests beside this much work, or this long without a core, are the generator's doing as well.
const WANTED_SHARE_BUSY: f64 = 0.7;
const STARVED_SHARE_MAX: f64 = 0.05;
const LATE_SHARE_MAX: f64 = 0.05;

/// What one thread did, as shares of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Effort {
    pub(crate) busy: f64,
    pub(crate) starved: f64,
}

impl Effort {
    pub(crate) fn of(thread: ThreadTime, measured: Duration) -> Effort {
        let wall_s = measured.as_secs_f64();
        let share = |time: Duration| if wall_s > 0.0 { time.as_secs_f64() / wall_s } else { 0.0 };
        Effort { busy: share(thread.ran), starved: share(thread.starved) }
    }
}

/// In words, where one of the threads was the limit.
pub(crate) fn bottleneck(efforts: &[Effort], late_share: f64) -> Option<String> {
    let worst = efforts.iter().max_by(|a, b| (a.busy + a.starved).total_cmp(&(b.busy + b.starved)))?;
    let Effort { busy, starved } = *worst;
    let thread = format!(
        "the generator's own thread was busy {:.0} % of the time and without a core {:.0} %",
        busy * 100.0,
        starved * 100.0
    );
    if busy + starved > WANTED_SHARE_FULL {
        return Some(format!("{thread}: the rate is its limit, not the server's"));
    }
    let starving = efforts.iter().any(|effort| effort.starved > STARVED_SHARE_MAX);
    let to_blame = busy + starved > WANTED_SHARE_BUSY || starving;
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

    fn effort(ran_ms: u64, starved_ms: u64) -> Effort {
        let ms = Duration::from_millis;
        Effort::of(ThreadTime { ran: ms(ran_ms), starved: ms(starved_ms) }, ms(100))
    }

    #[test]
    fn the_generator_says_when_one_of_its_threads_was_the_limit() {
        let cases = [
            (effort(95, 0), 0.0, Some("busy 95 %")),
            (effort(50, 45), 0.0, Some("without a core 45 %")),
            (effort(75, 0), 0.06, Some("6 % of the requests left late")),
            (effort(20, 10), 0.06, Some("left late")),
            (effort(75, 0), 0.04, None),
            (effort(20, 0), 0.9, None),
        ];
        for (effort, late_share, wanted) in cases {
            for efforts in [vec![effort], vec![Effort::default(), effort]] {
                let text = bottleneck(&efforts, late_share);
                assert_eq!(text.is_some(), wanted.is_some(), "{text:?}");
                assert!(text.unwrap_or_default().contains(wanted.unwrap_or_default()), "{wanted:?}");
            }
        }
    }

    #[test]
    fn no_time_is_no_effort() {
        let thread = ThreadTime { ran: Duration::from_millis(1), starved: Duration::ZERO };
        assert_eq!(Effort::of(thread, Duration::ZERO), Effort::default());
    }
}
