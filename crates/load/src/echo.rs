//! A minimal HTTP/1.1 server on one thread, to measure the generator itself.
//!
//! It costs next to nothing, and its faults are known because they are configured. Level-triggered epoll by
//! hand: no runtime and no library in between.

mod connection;

use crate::run::cpu_set;
use connection::{Connection, Service};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::thread::sched_setaffinity;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const CONNECTIONS_MAX: usize = 10_000;
const REPLY_BYTES_MAX: usize = 16 << 20;
const EVENTS_AT_ONCE: usize = 256;

/// Tokens of the two descriptors that are not connections.
const LISTENER: u64 = u64::MAX;
const STOP: u64 = u64::MAX - 1;

/// Echo options, as the caller writes them (JSON; unknown keys are errors).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EchoOptions {
    pub listen: String,
    /// Cores for its thread.
    pub cpus: Option<Vec<usize>>,
    /// Responses are padded with spaces to this length.
    pub reply_bytes: usize,
    /// The thread spins this long for each request.
    pub service_us: u64,
    /// Every `stall_every_s` from the start, the thread sleeps this long without reading or answering.
    pub stall_ms: u64,
    pub stall_every_s: f64,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EchoError {
    #[error("echo: {0}")]
    Options(String),
    #[error("the echo cannot listen on {listen}: {cause}")]
    Listen { listen: String, cause: String },
    #[error("the echo cannot start: {0}")]
    Start(String),
}

/// A running echo. Dropping it stops it.
#[derive(Debug)]
pub struct Echo {
    address: SocketAddr,
    /// Outlives the thread, which waits on it.
    wake: OwnedFd,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Default for EchoOptions {
    fn default() -> EchoOptions {
        EchoOptions {
            listen: "127.0.0.1:0".into(),
            cpus: None,
            reply_bytes: 0,
            service_us: 0,
            stall_ms: 0,
            stall_every_s: 0.0,
        }
    }
}

impl EchoOptions {
    pub fn from_json(bytes: &[u8]) -> Result<EchoOptions, EchoError> {
        serde_json::from_slice(bytes).map_err(|error| EchoError::Options(error.to_string()))
    }

    fn check(&self) -> Result<(), EchoError> {
        let stalls_ok = self.stall_ms == 0 || (0.001..=86_400.0).contains(&self.stall_every_s);
        let rules = [
            (self.reply_bytes <= REPLY_BYTES_MAX, "reply_bytes exceeds 16777216"),
            (self.service_us <= 60_000_000, "service_us exceeds 60000000"),
            (stalls_ok, "stall_ms needs stall_every_s: 0.001 to 86400"),
            (self.stall_ms <= 3_600_000, "stall_ms exceeds 3600000"),
        ];
        match rules.into_iter().find(|(met, _)| !met) {
            Some((_, text)) => Err(EchoError::Options(text.into())),
            None => Ok(()),
        }
    }
}

impl Echo {
    /// Listens, and serves from then on.
    pub fn start(options: &EchoOptions) -> Result<Echo, EchoError> {
        options.check()?;
        let unheard =
            |error: io::Error| EchoError::Listen { listen: options.listen.clone(), cause: error.to_string() };
        let listener = TcpListener::bind(&options.listen).map_err(unheard)?;
        let address = listener.local_addr().map_err(unheard)?;
        listener.set_nonblocking(true).map_err(unheard)?;
        let unstarted = |error: io::Error| EchoError::Start(error.to_string());
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| unstarted(error.into()))?;
        let server = Server::new(listener, &wake, options).map_err(unstarted)?;
        let cpus = options.cpus.clone();
        let (ready, started) = std::sync::mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("flyball-echo".into()).spawn(move || {
            let pinned = pin(cpus.as_deref());
            let run = pinned.is_ok();
            let _ = ready.send(pinned);
            if run {
                server.serve();
            }
        });
        let thread = thread.map_err(unstarted)?;
        started.recv().map_err(|error| EchoError::Start(error.to_string()))?.map_err(unstarted)?;
        Ok(Echo { address, wake, thread: Mutex::new(Some(thread)) })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Stops it with all connections; waits until it has ended.
    pub fn stop(&self) {
        // Fails only if it is already full of stops.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // It has no state that a panic could leave inconsistent.
            let _ = thread.join();
        }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop();
    }
}

fn pin(cpus: Option<&[usize]>) -> io::Result<()> {
    let Some(set) = cpu_set(cpus).map_err(io::Error::other)? else { return Ok(()) };
    sched_setaffinity(None, &set)
        .map_err(|error| io::Error::other(format!("cannot pin its thread to the cpus: {error}")))
}

struct Server {
    listener: TcpListener,
    epoll: OwnedFd,
    service: Service,
    stalls: Option<Stalls>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
}

/// Sleeps at known times.
struct Stalls {
    time: Duration,
    every: Duration,
    next: Instant,
}

impl Server {
    fn new(listener: TcpListener, wake: &OwnedFd, options: &EchoOptions) -> io::Result<Server> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, wake, EventData::new_u64(STOP), EventFlags::IN)?;
        let every = Duration::from_secs_f64(options.stall_every_s.max(0.0));
        let stalls = (options.stall_ms > 0).then(|| Stalls {
            time: Duration::from_millis(options.stall_ms),
            every,
            next: Instant::now() + every,
        });
        let service = Service::new(options.reply_bytes, Duration::from_micros(options.service_us));
        Ok(Server { listener, epoll, service, stalls, connections: Vec::new(), free: Vec::new() })
    }

    /// Serves until stopped, or until waiting itself fails.
    fn serve(mut self) {
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        loop {
            events.clear();
            let wait = self.stalls.as_ref().map(Stalls::wait);
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), wait.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
            if let Some(stalls) = &mut self.stalls {
                stalls.sleep_when_due();
            }
            for event in &events {
                match event.data.u64() {
                    STOP => return,
                    LISTENER => self.accept(),
                    place => self.advance(place as usize),
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _peer)) = self.listener.accept() {
            if self.free.is_empty() && self.connections.len() < CONNECTIONS_MAX {
                self.free.push(self.connections.len());
                self.connections.push(None);
            }
            // Without a free slot or system resources, dropping the stream informs the caller.
            let Some(&place) = self.free.last() else { continue };
            let Ok(connection) = Connection::new(stream) else { continue };
            let data = EventData::new_u64(place as u64);
            if epoll::add(&self.epoll, connection.stream(), data, EventFlags::IN).is_ok() {
                self.connections[place] = Some(connection);
                self.free.pop();
            }
        }
    }

    fn advance(&mut self, place: usize) {
        let Some(Some(connection)) = self.connections.get_mut(place) else { return };
        let wrote_before = connection.is_writing();
        if connection.advance(&mut self.service, &mut self.stalls).is_err() {
            // Closing the descriptor removes it from the set.
            self.connections[place] = None;
            self.free.push(place);
            return;
        }
        if connection.is_writing() != wrote_before {
            let wanted = if connection.is_writing() { EventFlags::OUT } else { EventFlags::IN };
            // Fails only without memory; the connection then waits for its peer to give up.
            let _ = epoll::modify(&self.epoll, connection.stream(), EventData::new_u64(place as u64), wanted);
        }
    }
}

impl Stalls {
    /// The maximum wait before the next stall.
    fn wait(&self) -> Timespec {
        let wait = self.next.saturating_duration_since(Instant::now());
        Timespec::try_from(wait).unwrap_or_default()
    }

    fn sleep_when_due(&mut self) {
        if Instant::now() >= self.next {
            std::thread::sleep(self.time);
            self.next += self.every;
        }
    }
}

#[cfg(test)]
mod tests;
