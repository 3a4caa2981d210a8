//! A circuit breaker for each model: after several stopped or panicked runs in a row, it refuses requests for a pause.
//!
//! Then it lets one request through as a trial. A failed run does not count: one caller's bad input must not refuse all
//! callers.

use flyball_core::Nanos;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Stopped or panicked runs in a row that open the breaker.
const FAULTS_MAX: u32 = 8;
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The pause doubles up to 2^5 times the first.
const DOUBLINGS_MAX: u32 = 5;

#[derive(Debug, Default)]
pub(crate) struct Breaker {
    faults: AtomicU32,
    doublings: AtomicU32,
    /// A trial is under way.
    trying: AtomicBool,
    /// Zero while closed.
    closed_to_callers_until: AtomicU64,
    /// When it opened, or when the last trial failed; zero while closed.
    opened_at: AtomicU64,
}

impl Breaker {
    /// How long new requests are refused; `None` if they are admitted.
    pub(crate) fn refuses(&self, now: Nanos) -> Option<Duration> {
        let until = self.closed_to_callers_until.load(Relaxed);
        (now.0 < until).then(|| Duration::from_nanos(until - now.0))
    }

    /// The retry pause for a request that has waited since `came`; `None` if it may run.
    ///
    /// A request admitted before the breaker opened would break as well, and block its lane meanwhile. A trial came later,
    /// so it runs.
    pub(crate) fn turns_away(&self, came: Nanos, now: Nanos) -> Option<Duration> {
        // Even if the pause is over: the next new request is the trial, not all of these.
        self.opened_after(came).then(|| self.refuses(now).unwrap_or(PAUSE_FIRST))
    }

    /// Whether it opened since then, and is still open.
    pub(crate) fn opened_after(&self, came: Nanos) -> bool {
        let opened_at = self.opened_at.load(Relaxed);
        opened_at != 0 && came.0 <= opened_at
    }

    /// Admits a request, or returns its retry pause. The first after a pause is the trial.
    ///
    /// Others are refused until the trial ends, but not for long: its caller may hang up before the run.
    pub(crate) fn enter(&self, now: Nanos) -> Result<(), Duration> {
        let until = self.closed_to_callers_until.load(Relaxed);
        if until == 0 {
            return Ok(());
        }
        if let Some(pause) = self.refuses(now) {
            return Err(pause);
        }
        let next = now.after(PAUSE_FIRST).0;
        let trial = self.closed_to_callers_until.compare_exchange(until, next, Relaxed, Relaxed);
        trial.map_err(|_| PAUSE_FIRST)?;
        self.trying.store(true, Relaxed);
        Ok(())
    }

    /// A run ended without being stopped.
    pub(crate) fn succeeded(&self) {
        if self.faults.load(Relaxed) != 0 {
            self.faults.store(0, Relaxed);
            self.doublings.store(0, Relaxed);
            self.trying.store(false, Relaxed);
            self.closed_to_callers_until.store(0, Relaxed);
            self.opened_at.store(0, Relaxed);
        }
    }

    /// Counts a stopped or panicked run; true if it opens the breaker.
    pub(crate) fn failed(&self, now: Nanos) -> bool {
        let faults = self.faults.fetch_add(1, Relaxed).saturating_add(1);
        let tried = self.trying.swap(false, Relaxed);
        // Runs that were under way on other lanes when it opened break as well: no new information.
        if faults < FAULTS_MAX || (faults > FAULTS_MAX && !tried) {
            return false;
        }
        let doublings = if tried { self.doublings.fetch_add(1, Relaxed) + 1 } else { 0 };
        let pause = PAUSE_FIRST * 2_u32.pow(doublings.min(DOUBLINGS_MAX));
        self.opened_at.store(now.0.max(1), Relaxed);
        self.closed_to_callers_until.store(now.after(pause).0.max(1), Relaxed);
        faults == FAULTS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened() -> Breaker {
        let breaker = Breaker::default();
        for fault in 1..=FAULTS_MAX {
            assert_eq!(breaker.enter(Nanos(5)), Ok(()));
            assert_eq!(breaker.failed(Nanos(5)), fault == FAULTS_MAX);
        }
        breaker
    }

    #[test]
    fn faults_in_a_row_open_it_and_a_success_between_them_does_not_let_it_come_to_that() {
        assert_eq!(opened().refuses(Nanos(5)), Some(PAUSE_FIRST));
        let breaker = Breaker::default();
        for _ in 0..FAULTS_MAX {
            breaker.failed(Nanos(5));
            breaker.succeeded();
        }
        assert_eq!(breaker.refuses(Nanos(5)), None);
    }

    #[test]
    fn after_the_pause_one_caller_tries_and_its_success_lets_the_others_in() {
        let breaker = opened();
        let later = Nanos(5).after(PAUSE_FIRST);
        assert_eq!(breaker.refuses(later), None, "looking is not trying");
        assert_eq!(breaker.enter(later), Ok(()), "the trial");
        assert_eq!(breaker.enter(later), Err(PAUSE_FIRST), "only one tries");
        breaker.succeeded();
        assert_eq!(breaker.enter(later), Ok(()));
    }

    #[test]
    fn a_trial_that_comes_to_nothing_is_followed_by_another_soon() {
        let breaker = opened();
        let mut now = Nanos(5);
        for _ in 0..10 {
            now = now.after(PAUSE_FIRST);
            assert_eq!(breaker.enter(now), Ok(()));
        }
    }

    #[test]
    fn what_was_running_when_it_opened_does_not_make_the_pause_longer() {
        let breaker = opened();
        (0..50).for_each(|_| assert!(!breaker.failed(Nanos(5))));
        assert_eq!(breaker.refuses(Nanos(5)), Some(PAUSE_FIRST));
    }

    #[test]
    fn what_came_before_it_opened_is_turned_away_until_a_run_ends_by_itself_and_a_trial_is_not() {
        let breaker = opened();
        assert_eq!(breaker.turns_away(Nanos(5), Nanos(5)), Some(PAUSE_FIRST));
        let trial = Nanos(5).after(PAUSE_FIRST);
        assert_eq!(
            breaker.turns_away(Nanos(5), trial),
            Some(PAUSE_FIRST),
            "the pause is over, the reason is not"
        );
        assert_eq!(breaker.enter(trial), Ok(()));
        assert_eq!(breaker.turns_away(trial, trial), None);
        breaker.failed(trial);
        assert_eq!(
            breaker.turns_away(trial, trial),
            Some(PAUSE_FIRST * 2),
            "it waited while the trial failed"
        );
        breaker.succeeded();
        assert_eq!(breaker.turns_away(Nanos(5), trial), None);
    }

    #[test]
    fn a_trial_that_fails_makes_the_next_pause_longer_up_to_a_bound() {
        let breaker = opened();
        let mut now = Nanos(5);
        for _ in 0..20 {
            let pause = breaker.refuses(now).unwrap();
            now = now.after(pause);
            assert_eq!(breaker.enter(now), Ok(()));
            breaker.failed(now);
        }
        assert_eq!(breaker.refuses(now), Some(PAUSE_FIRST * 32));
    }
}
