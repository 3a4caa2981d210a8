//! The open loop's metronome. tokio's timers tick in milliseconds, which would add up to one to every latency that is
//! measured from the due time; a timerfd wakes within microseconds.

use crate::session::Session;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::time::Instant;

/// How soon the pacer looks again however far off the next request is: measuring may begin before it, or the run end.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Waking takes tens of microseconds on a virtual machine. A generator with cores of its own wakes so much earlier, and
/// passes the rest of the time by looking for answers.
pub(crate) const AHEAD_ALONE: Duration = Duration::from_micros(100);
/// Elsewhere that would take time from the server; this is only what setting a timer takes.
pub(crate) const AHEAD_SHARED: Duration = Duration::from_micros(3);

/// One look around takes less; what is above it is time that another thread had the core.
const LOOK_MOST: Duration = Duration::from_micros(20);

/// Makes requests due at their time until there are no more, or until the session is closed.
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

/// Gives everybody else a turn. Where nobody had anything to do, the time was not work: it is counted apart.
async fn look_around(session: &Session, now: Instant) {
    let steps = session.steps();
    tokio::task::yield_now().await;
    if session.steps() == steps {
        session.add_spun(now.elapsed().min(LOOK_MOST));
    }
}

pub(crate) enum Timer {
    Alarm(AsyncFd<OwnedFd>),
    /// tokio's own, whose time stands still until a test has nothing else to do.
    #[cfg(test)]
    Virtual,
}

impl Timer {
    #[expect(
        deprecated,
        reason = "the successor is unsafe, which this crate forbids; all that it asks for holds: an OwnedFd keeps its \
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
    // Not read: setting the timer again clears it, and each ring is an event of its own.
    alarm.readable().await?.clear_ready();
    Ok(())
}
