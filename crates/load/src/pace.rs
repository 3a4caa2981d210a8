//! The open loop's timer.
//!
//! tokio's timers tick in milliseconds, which would add up to one to every latency from the due time; a
//! timerfd wakes within microseconds.

use crate::session::Session;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// Maximum sleep of the pacer: measuring may start before the next request, or the run end.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Waking takes tens of microseconds on a virtual machine. A generator with its own cores wakes this much
/// earlier, and polls for responses meanwhile.
pub(crate) const AHEAD_ALONE: Duration = Duration::from_micros(100);
/// On shared cores that would take time from the server; this only covers setting a timer.
pub(crate) const AHEAD_SHARED: Duration = Duration::from_micros(3);

/// One round of polling takes less; the excess is time that another thread had the core.
const LOOK_MOST: Duration = Duration::from_micros(20);

/// Offers requests when due until there are no more, or until the session is closed.
pub(crate) async fn keep(session: &Session, timer: &Timer, ahead: Duration) -> io::Result<()> {
    while !session.is_closed() {
        let now = Instant::now();
        let Some(next) = session.offer_due(now) else { break };
        let wait = next.saturating_duration_since(now).min(LOOK_AGAIN);
        if wait > ahead {
            timer.wait(wait - ahead).await?;
        } else {
            look_around(session, now).await;
        }
    }
    Ok(())
}

/// Lets other tasks run. If none had work, the time is counted as idle spinning.
async fn look_around(session: &Session, now: Instant) {
    let steps = session.steps();
    tokio::task::yield_now().await;
    if session.steps() == steps {
        session.add_spun(now.elapsed().min(LOOK_MOST));
    }
}

pub(crate) enum Timer {
    Alarm(AsyncFd<OwnedFd>),
    /// tokio's timer, whose virtual time advances when a test is idle.
    #[cfg(test)]
    Virtual,
}

impl Timer {
    #[expect(
        deprecated,
        reason = "the successor is unsafe, which this crate forbids; its conditions hold: an OwnedFd keeps its \
                  one descriptor open for as long as the AsyncFd lives"
    )]
    pub(crate) fn new() -> io::Result<Timer> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Timer::Alarm(AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)?))
    }

    async fn wait(&self, time: Duration) -> io::Result<()> {
        match self {
            Timer::Alarm(alarm) => ring(alarm, time).await,
            #[cfg(test)]
            Timer::Virtual => {
                tokio::time::sleep(time).await;
                Ok(())
            }
        }
    }
}

async fn ring(alarm: &AsyncFd<OwnedFd>, time: Duration) -> io::Result<()> {
    let value = Timespec::try_from(time).map_err(|_| io::Error::other("a wait too long for a timer"))?;
    let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
    timerfd_settime(alarm.get_ref(), TimerfdTimerFlags::empty(), &once)?;
    // Not read: setting the timer again clears it, and each expiry is a separate event.
    alarm.readable().await?.clear_ready();
    Ok(())
}
