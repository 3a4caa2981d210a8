//! Whether the generator itself was the limit: what its threads did while measuring.

use crate::histogram::LatencyUs;
use crate::thread_time::ThreadTime;
use std::time::Duration;

/// From here on the generator's thread limits the rate.
const WANTED_SHARE_FULL: f64 = 0.9;
/// Late wake-ups up to this are normal on small virtual machines. Above it, a tail with this share of the
/// generator's own delay is not attributed to the server.
const LATENESS_NOISE_US: f64 = 200.0;
const LATENESS_SHARE_MAX: f64 = 0.5;

/// A thread's activity, as shares of the measured time.
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

/// The message if the generator limited the rate or the tail latency. `lateness` is that of requests with a
/// free connection.
pub(crate) fn bottleneck(efforts: &[Effort], lateness: &LatencyUs, latency: &LatencyUs) -> Option<String> {
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
    let late = lateness.p99 > LATENESS_NOISE_US && lateness.p99 > LATENESS_SHARE_MAX * latency.p99;
    late.then(|| {
        format!(
            "{thread}, and the p99 of its own lateness is {:.0} µs of a p99 of {:.0} µs: the tail is its own",
            lateness.p99, latency.p99
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

    /// The verdict on a p99 of lateness and one of latency, in µs.
    fn verdict(efforts: &[Effort], (lateness, latency): (f64, f64)) -> Option<String> {
        let figures = |p99| LatencyUs { p99, ..LatencyUs::default() };
        bottleneck(efforts, &figures(lateness), &figures(latency))
    }

    #[test]
    fn the_rate_is_the_generators_limit_where_one_of_its_threads_had_no_time_left() {
        let cases = [
            (effort(95, 0), Some("busy 95 %")),
            (effort(50, 45), Some("without a core 45 %")),
            (effort(90, 0), None),
            (effort(45, 45), None),
        ];
        for (effort, wanted) in cases {
            for efforts in [vec![effort], vec![Effort::default(), effort]] {
                let text = verdict(&efforts, (0.0, 1000.0));
                assert_eq!(text.is_some(), wanted.is_some(), "{text:?}");
                assert!(text.unwrap_or_default().contains(wanted.unwrap_or_default()), "{wanted:?}");
            }
        }
    }

    #[test]
    fn a_tail_that_is_mostly_the_generators_own_is_said_to_be_however_idle_it_was() {
        let wanted = "the p99 of its own lateness is 600 µs of a p99 of 1000 µs: the tail is its own";
        let cases = [
            ((600.0, 1000.0), true),
            ((500.0, 1000.0), false),
            ((200.0, 220.0), false),
            ((201.0, 220.0), true),
            ((5000.0, 100_000.0), false),
            ((0.0, 0.0), false),
        ];
        for (p99s, told) in cases {
            let text = verdict(&[effort(20, 0)], p99s);
            assert_eq!(text.is_some(), told, "{p99s:?}: {text:?}");
        }
        assert!(verdict(&[effort(20, 0)], cases[0].0).is_some_and(|text| text.ends_with(wanted)));
    }

    #[test]
    fn where_the_rate_was_the_limit_that_is_what_is_said() {
        let text = verdict(&[effort(95, 0)], (900.0, 1000.0));
        assert!(text.is_some_and(|text| text.ends_with("the rate is its limit, not the server's")));
    }

    #[test]
    fn no_time_is_no_effort() {
        let thread = ThreadTime { ran: Duration::from_millis(1), starved: Duration::ZERO };
        assert_eq!(Effort::of(thread, Duration::ZERO), Effort::default());
    }
}
