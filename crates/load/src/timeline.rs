//! The measured time in intervals, by due time: shows stalls, drifts and bursts.

use crate::histogram;
use crate::tally::Counts;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// One interval in a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub start_s: f64,
    pub sent: u64,
    pub answered: u64,
    pub refused: u64,
    pub failed: u64,
    pub mismatched: u64,
    pub histogram: String,
}

#[derive(Debug)]
pub(crate) struct Timeline {
    interval: Duration,
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    counts: Counts,
    latency_ns: Histogram<u32>,
}

impl Timeline {
    pub(crate) fn new(measured: Duration, interval: Duration) -> Timeline {
        let count = (measured.as_secs_f64() / interval.as_secs_f64() - 1e-9).ceil().max(1.0) as usize;
        let part = || Part { counts: Counts::default(), latency_ns: histogram::narrow() };
        Timeline { interval, parts: (0..count).map(|_| part()).collect() }
    }

    /// The interval of a due time.
    pub(crate) fn part(&mut self, offset: Duration) -> (&mut Counts, &mut Histogram<u32>) {
        // In whole nanoseconds: a float would put a border into either interval.
        let place = offset.as_nanos() as u64 / self.interval.as_nanos() as u64;
        let last = self.parts.len() - 1;
        let part = &mut self.parts[usize::try_from(place).map_or(last, |place| place.min(last))];
        (&mut part.counts, &mut part.latency_ns)
    }

    pub(crate) fn merge(&mut self, other: &Timeline) {
        for (part, other) in self.parts.iter_mut().zip(&other.parts) {
            part.counts.add(&other.counts);
            histogram::add(&mut part.latency_ns, &other.latency_ns);
        }
    }

    /// The intervals that had started when measuring ended.
    pub(crate) fn intervals(&self, measured: Duration) -> Vec<Interval> {
        let starts = (0_u32..).map(|place| self.interval * place);
        let begun = starts.zip(&self.parts).take_while(|(start, _)| *start < measured);
        begun
            .map(|(start, part)| Interval {
                start_s: start.as_secs_f64(),
                sent: part.counts.sent(),
                answered: part.counts.answered,
                refused: part.counts.refused,
                failed: part.counts.failed,
                mismatched: part.counts.mismatched,
                histogram: histogram::encode(&part.latency_ns),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_count_in_the_interval_of_their_due_time_and_the_last_takes_what_is_behind_it() {
        let ms = Duration::from_millis;
        let mut timeline = Timeline::new(ms(300), ms(100));
        for offset in [0, 99, 100, 299, 300, 5000] {
            timeline.part(ms(offset)).0.answered += 1;
        }
        let counts = |measured| -> Vec<_> {
            timeline.intervals(measured).into_iter().map(|interval| interval.answered).collect()
        };
        assert_eq!(counts(ms(300)), [2, 1, 3]);
        assert_eq!(counts(ms(150)), [2, 1]);
    }

    #[test]
    fn a_rest_that_is_no_whole_interval_gets_one() {
        let ms = Duration::from_millis;
        assert_eq!(Timeline::new(ms(250), ms(100)).intervals(ms(250)).len(), 3);
        assert_eq!(Timeline::new(ms(50), ms(50)).intervals(ms(50)).len(), 1);
    }
}
