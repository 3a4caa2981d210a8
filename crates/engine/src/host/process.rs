//! The parent's end of a model host: starts it, queries it, and kills it at a limit.
//!
//! A host is started without `fork` handlers, so that a large server is not copied: it sets its own limits
//! once it runs. It inherits the starting thread's scheduling, and no file but its socket.

use super::HostCommand;
use super::frame::{self, FrameError};
use super::message::{Answer, Ask};
use std::cell::RefCell;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Hosts of another build are rejected: a package may be replaced under a running server.
pub(super) const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), "/1");
/// How often limits are checked while a host works.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Wall-time limit as a multiple of CPU time, for busy machines.
const WALL_TIMES: u32 = 4;
/// Maximum response of a host in one frame.
pub(super) const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Why a host did not respond.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    #[error("cannot start the model host: {0}")]
    Unstartable(io::Error),
    #[error("the model host ended: {0}")]
    Ended(String),
    #[error("the model host sent {0}")]
    Garbled(String),
    #[error("the model host did not finish within its time limit")]
    TooLong,
    #[error("the server is leaving")]
    Leaving,
}

/// How long a host may take, and whether the caller still waits.
pub(super) struct WaitLimit<'p> {
    cpu_max: Duration,
    wall_max: Duration,
    leaving: &'p dyn Fn() -> bool,
}

impl<'p> WaitLimit<'p> {
    /// A CPU-time limit, with a multiple of it as wall-time limit.
    pub(super) fn cpu(cpu_max: Duration, leaving: &'p dyn Fn() -> bool) -> WaitLimit<'p> {
        WaitLimit { cpu_max, wall_max: wall_max(cpu_max), leaving }
    }

    pub(super) fn wall(wall_max: Duration) -> WaitLimit<'static> {
        WaitLimit { cpu_max: wall_max, wall_max, leaving: &|| false }
    }
}

pub(super) fn wall_max(cpu_max: Duration) -> Duration {
    cpu_max.saturating_mul(WALL_TIMES)
}

/// A running host. Dropping it kills it.
pub(super) struct Host {
    pub(super) stream: UnixStream,
    pub(super) process: Arc<Process>,
}

/// Its process, which another thread may kill.
pub(super) struct Process {
    id: u32,
    pub(super) child: Mutex<Child>,
}

impl Host {
    pub(super) fn start(command: &HostCommand, ort_path: &Path) -> Result<Host, HostError> {
        let (stream, theirs) = UnixStream::pair().map_err(HostError::Unstartable)?;
        let mut start = Command::new(&command.program);
        start.args(&command.arguments).env_clear();
        // The library path; a model must see nothing else of the server's environment.
        start.envs(std::env::var_os("LD_LIBRARY_PATH").map(|path| ("LD_LIBRARY_PATH", path)));
        // Its own process group: Ctrl-C is for the server, which stops its hosts.
        start
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let child = start.spawn().map_err(HostError::Unstartable)?;
        // The command holds the other end: only the host may, or its exit would not be noticed.
        drop(start);
        let process = Arc::new(Process { id: child.id(), child: Mutex::new(child) });
        let mut host = Host { stream, process };
        let ask = Ask::Open { build: BUILD.to_owned(), ort_path: ort_path.to_owned() };
        // It fits into the socket's buffer.
        host.send(&ask, &[], &WaitLimit::wall(LOOK_EVERY))?;
        Ok(host)
    }

    /// Sends a request and waits for the response within limits. A failed host must not be used again.
    pub(super) fn ask(
        &mut self,
        ask: &Ask,
        payload: &[&[u8]],
        patience: &WaitLimit<'_>,
    ) -> Result<(Answer, Vec<u8>), HostError> {
        self.send(ask, payload, patience)?;
        let mut reading = LimitedSocket::new(self, patience);
        match frame::read(&mut reading, ANSWER_BYTES_MAX) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(reading.why(None)),
            Err(FrameError::Io(error)) => Err(reading.why(Some(&error))),
            Err(FrameError::Garbled(what)) => Err(HostError::Garbled(what)),
        }
    }

    pub(super) fn send(
        &mut self,
        ask: &Ask,
        payload: &[&[u8]],
        patience: &WaitLimit<'_>,
    ) -> Result<(), HostError> {
        let mut writing = LimitedSocket::new(self, patience);
        frame::write(&mut writing, ask, payload).map_err(|error| writing.why(Some(&error)))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.process.end();
    }
}

impl Process {
    pub(super) fn kill(&self) {
        // It fails if the process has already ended, which is fine.
        let _ = self.child().kill();
    }

    /// Kills it if it still runs, and describes how it ended.
    fn end(&self) -> String {
        let mut child = self.child();
        let ended = match child.try_wait() {
            Ok(Some(ended)) => Ok(ended),
            _ => {
                let _ = child.kill();
                child.wait()
            }
        };
        match ended {
            Ok(status) => match status.signal() {
                Some(signal) => format!("killed by signal {signal}"),
                None => format!("exit status {}", status.code().unwrap_or_default()),
            },
            Err(error) => error.to_string(),
        }
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its CPU time so far; none if the system does not report it.
    fn cpu_time(&self) -> Option<Duration> {
        cpu_time(self.id)
    }
}

#[cfg(target_os = "linux")]
fn cpu_time(process: u32) -> Option<Duration> {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls write one value of their own type to the given pointer, and fail for a process that
    // is gone.
    let told = unsafe {
        libc::clock_getcpuclockid(libc::pid_t::try_from(process).ok()?, &raw mut clock) == 0
            && libc::clock_gettime(clock, &raw mut time) == 0
    };
    told.then(|| Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32))
}

#[cfg(not(target_os = "linux"))]
fn cpu_time(_process: u32) -> Option<Duration> {
    None
}

/// A host's socket, read and written until a limit is reached.
struct LimitedSocket<'h> {
    host: &'h Host,
    patience: &'h WaitLimit<'h>,
    until: Instant,
    cpu_before: Duration,
    /// Why it gave up.
    why: RefCell<Option<HostError>>,
}

impl<'h> LimitedSocket<'h> {
    fn new(host: &'h Host, patience: &'h WaitLimit<'h>) -> LimitedSocket<'h> {
        // Waits are short, so that limits are checked in between; setting it on our own socket cannot fail.
        let _ = host.stream.set_read_timeout(Some(LOOK_EVERY));
        let _ = host.stream.set_write_timeout(Some(LOOK_EVERY));
        let cpu_before = host.process.cpu_time().unwrap_or_default();
        LimitedSocket {
            host,
            patience,
            until: Instant::now() + patience.wall_max,
            cpu_before,
            why: RefCell::default(),
        }
    }

    /// Checks the limits after a wait without data.
    fn look(&self) -> io::Result<()> {
        let cpu = self.host.process.cpu_time().unwrap_or_default().saturating_sub(self.cpu_before);
        let why = if (self.patience.leaving)() {
            HostError::Leaving
        } else if Instant::now() >= self.until || cpu >= self.patience.cpu_max {
            HostError::TooLong
        } else {
            return Ok(());
        };
        self.host.process.kill();
        *self.why.borrow_mut() = Some(why);
        Err(ErrorKind::TimedOut.into())
    }

    /// Why no more data came, or could be sent.
    fn why(self, error: Option<&io::Error>) -> HostError {
        if let Some(why) = self.why.into_inner() {
            return why;
        }
        let how = self.host.process.end();
        match error.map(io::Error::kind) {
            None | Some(ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                HostError::Ended(how)
            }
            Some(kind) => HostError::Ended(format!("{kind}, {how}")),
        }
    }

    fn patiently(&self, mut attempt: impl FnMut(&UnixStream) -> io::Result<usize>) -> io::Result<usize> {
        loop {
            match attempt(&self.host.stream) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    self.look()?
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

impl Read for LimitedSocket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.patiently(|mut stream| stream.read(buffer))
    }
}

impl Write for LimitedSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.patiently(|mut stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
