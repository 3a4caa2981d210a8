//! The counters of each case, and merging of tallies.

use super::*;

const MS: Duration = Duration::from_millis(1);

fn tally() -> Tally {
    Tally::new(Timeline::new(100 * MS, 10 * MS), 50 * MS, Some(25 * MS))
}

fn times(start: Instant, due: u32, left: Option<u32>, ended: u32) -> Times {
    let at = |ms| start + ms * MS;
    Times { due: at(due), left: left.map(at), ended: at(ended), prompt: true }
}

fn close(is: f64, wanted: f64) -> bool {
    (is / wanted - 1.0).abs() < 0.001
}

#[test]
fn counts_add_up_and_latency_is_from_the_due_time() {
    let start = Instant::now();
    let mut tally = tally();
    let mut record = |left, ended, ending| tally.record(start, times(start, 0, left, ended), ending);
    record(Some(0), 10, Ending::Answered);
    record(Some(5), 30, Ending::Answered);
    record(Some(0), 90, Ending::Mismatched("other".into()));
    record(Some(0), 1, Ending::Refused(Problem::new("http 503", "full")));
    record(None, 1, Ending::Unsent("generator backlog full"));
    let counts = Counts { answered: 2, refused: 1, failed: 1, mismatched: 1 };
    assert_eq!((tally.counts, tally.counts.sent()), (counts, 5));
    assert_eq!(tally.first_problem().as_deref(), Some("http 503: full"));
    assert_eq!(tally.late_share(), 0.4);
    assert_eq!(tally.past_deadline, 1);
    assert!(close(histogram::figures(&tally.service_ns).max, 25_000.0));
    let reasons: Vec<_> = tally.errors().into_iter().map(|error| (error.reason, error.count)).collect();
    assert_eq!(reasons, [("generator backlog full".into(), 1), ("http 503".into(), 1)]);
}

#[test]
fn a_request_that_times_out_counts_with_the_time_that_was_gone() {
    let start = Instant::now();
    let mut tally = tally();
    tally.record(start, times(start, 10, Some(20), 70), Ending::TimedOut);
    assert_eq!((tally.counts.failed, tally.timed_out, tally.past_deadline), (1, 1, 0));
    assert!(close(histogram::figures(&tally.latency_ns).p50, 60_000.0));
    assert!(close(histogram::figures(&tally.service_ns).p50, 50_000.0));
    assert_eq!(tally.timeline.intervals(100 * MS)[1].failed, 1);
}

#[test]
fn a_request_that_was_never_sent_counts_with_its_wait_and_with_no_less_than_the_timeout() {
    for (ended, wanted_us) in [(10, 50_000.0), (90, 80_000.0)] {
        let start = Instant::now();
        let mut tally = tally();
        tally.record(start, times(start, 10, None, ended), Ending::Unsent("generator backlog full"));
        assert_eq!((tally.counts.failed, tally.timed_out), (1, 0));
        assert!(close(histogram::figures(&tally.latency_ns).p50, wanted_us));
        assert_eq!((tally.service_ns.len(), tally.lateness_ns.len()), (0, 0));
        assert_eq!(tally.timeline.part(10 * MS).1.len(), 1, "the time line has it as well");
    }
}

#[test]
fn lateness_is_that_of_requests_that_found_a_free_connection() {
    let start = Instant::now();
    let mut tally = tally();
    tally.record(start, times(start, 0, Some(2), 3), Ending::Answered);
    let waited = Times { prompt: false, ..times(start, 0, Some(80), 81) };
    tally.record(start, waited, Ending::Answered);
    tally.record(start, Times { left: None, ..waited }, Ending::Unsent("generator backlog full"));
    tally.record(start, times(start, 0, Some(0), 1), Ending::Refused(Problem::new("http 503", "full")));
    assert_eq!(tally.waited_share(), 0.5, "the others waited in the backlog");
    assert_eq!(tally.lateness_ns.len(), 2);
    assert!(close(histogram::figures(&tally.lateness_ns).max, 2_000.0));
}

#[test]
fn tallies_of_threads_add_up_to_one_and_the_first_problem_is_the_earliest() {
    let start = Instant::now();
    let (mut one, mut two) = (tally(), tally());
    one.record(start, times(start, 0, Some(0), 40), Ending::Failed(Problem::new("http 500", "late")));
    two.record(start, times(start, 15, Some(15), 20), Ending::Failed(Problem::new("http 500", "early")));
    two.record(start, Times { prompt: false, ..times(start, 15, Some(15), 50) }, Ending::Answered);
    one.merge(two);
    assert_eq!(one.counts, Counts { answered: 1, failed: 2, ..Counts::default() });
    assert_eq!(one.first_problem().as_deref(), Some("http 500: early"));
    assert_eq!(one.errors(), [ErrorCount { reason: "http 500".into(), count: 2 }]);
    assert_eq!((one.latency_ns.len(), one.service_ns.len(), one.waited), (1, 1, 1));
    assert_eq!(one.last_answer, Some(start + 50 * MS));
    let sent: Vec<_> = one.timeline.intervals(100 * MS).iter().map(|interval| interval.sent).collect();
    assert_eq!(sent, [1, 2, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn reasons_beyond_the_limit_are_counted_together() {
    let start = Instant::now();
    let mut tally = tally();
    for status in 0..100 {
        let problem = Problem::new(format!("http {status}"), "");
        tally.record(start, times(start, 0, Some(0), 1), Ending::Failed(problem));
    }
    let errors = tally.errors();
    assert_eq!(errors.len(), REASONS_MAX + 1);
    let other = errors.iter().find(|error| error.reason == "other").map(|error| error.count);
    assert_eq!(other, Some(100 - REASONS_MAX as u64));
}
