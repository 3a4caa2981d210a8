//! The open loop's metronome. tokio's timers tick in milliseconds, which would add up to one to every latency that is
//! measured from the due time; a timerfd wakes within microseconds.

use crate::session::Session;
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;

/// Makes requests due at `rate_per_s` from `start` until `end`, or until the session is closed.
pub(crate) async fn keep(session: &Session, rate_per_s: f64, start: Instant, end: Instant) -> io::Result<()> {
    let alarm = Alarm::new()?;
    let mut count = 0_u64;
    let mut due = start;
    while due < end {
        let now = Instant::now();
        if due > now {
            alarm.wait(due - now).await?;
        }
        if session.is_closed() {
            break;
        }
        session.offer(due);
        count += 1;
        // From the start each time: adding up intervals would drift.
        due = start + Duration::from_secs_f64(count as f64 / rate_per_s);
    }
    Ok(())
}

struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    #[expect(
        deprecated,
        reason = "the successor is unsafe, which this crate forbids; all that it asks for holds: an OwnedFd keeps its \
                  one descriptor open for as long as the AsyncFd lives"
    )]
    fn new() -> io::Result<Alarm> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Alarm(AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)?))
    }

    async fn wait(&self, time: Duration) -> io::Result<()> {
        let value = Timespec::try_from(time).map_err(|_| io::Error::other("a wait too long for a timer"))?;
        let once = Itimerspec { it_interval: Timespec::default(), it_value: value };
        timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        loop {
            let mut ready = self.0.readable().await?;
            match rustix::io::read(self.0.get_ref(), &mut [0_u8; 8]) {
                Ok(_) => return Ok(()),
                Err(Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
