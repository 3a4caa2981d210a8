//! A cheap deadline for each request.
//!
//! The timer is reset only when it fires, not for each request (that would cost a fifth of a microsecond
//! each).

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};

pub(crate) struct Patience {
    timeout: Duration,
    alarm: Pin<Box<Sleep>>,
}

impl Patience {
    pub(crate) fn new(timeout: Duration) -> Patience {
        Patience { timeout, alarm: Box::pin(sleep_until(Instant::now())) }
    }

    /// The result of the work; `None` if it has not ended within the timeout from `start`.
    pub(crate) async fn within<T>(&mut self, start: Instant, work: impl Future<Output = T>) -> Option<T> {
        let end = start + self.timeout;
        let mut work = pin!(work);
        poll_fn(|context| {
            if let Poll::Ready(done) = work.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            // Set for an earlier request: firing means nothing yet.
            while self.alarm.as_mut().poll(context).is_ready() {
                if Instant::now() >= end {
                    return Poll::Ready(None);
                }
                self.alarm.as_mut().reset(end);
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    const MS: Duration = Duration::from_millis(1);

    #[tokio::test(start_paused = true)]
    async fn each_piece_of_work_has_the_whole_timeout_from_its_own_start() {
        let mut patience = Patience::new(50 * MS);
        for _ in 0..5 {
            let start = Instant::now();
            assert_eq!(patience.within(start, sleep(40 * MS)).await, Some(()));
            assert_eq!(start.elapsed(), 40 * MS);
        }
        let start = Instant::now();
        assert_eq!(patience.within(start, sleep(60 * MS)).await, None);
        assert_eq!(start.elapsed(), 50 * MS);
    }
}
