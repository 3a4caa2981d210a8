//! A lane's multiplexed connection to one Redis, opened on first use and reopened when it breaks.
//!
//! While it is known to be broken nothing waits: requests fail at once, and one attempt at a time runs in the
//! background.

use crate::LookupError;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, RedisError, RedisResult};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

const CONNECT_MAX: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// A connection without any response for this long, to several requests, is dropped: its peer may be gone
/// silently.
const SILENT_MAX: Duration = Duration::from_secs(1);
const UNANSWERED_MAX: u32 = 3;
const ASKED_MAX: usize = 4096;

enum State {
    /// Not used yet.
    Idle,
    /// The first attempt: requests wait for it, each within its own limit.
    First,
    Up(MultiplexedConnection),
    /// A later attempt: requests do not wait for it.
    Again,
    Down {
        until: Instant,
    },
}

pub(crate) struct Link {
    client: Client,
    state: RefCell<State>,
    /// Counts connections, so that a late error of an old one does not close the new one.
    generation: Cell<u64>,
    pause: Cell<Duration>,
    changed: Notify,
    asked: Cell<usize>,
    /// Since when requests have had no response, and how many gave up.
    silent: Cell<Option<(Instant, u32)>>,
    /// The outage was logged.
    logged: Cell<bool>,
}

impl Link {
    pub(crate) fn new(url: &str) -> Result<Rc<Link>, String> {
        Ok(Rc::new(Link {
            client: client(url)?,
            state: RefCell::new(State::Idle),
            generation: Cell::new(0),
            pause: Cell::new(PAUSE_MIN),
            changed: Notify::new(),
            asked: Cell::new(0),
            silent: Cell::new(None),
            logged: Cell::new(false),
        }))
    }

    /// The response to one command, within the limit.
    pub(crate) async fn ask<T>(
        self: &Rc<Self>,
        limit: Duration,
        command: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> Result<T, LookupError> {
        if self.asked.get() >= ASKED_MAX {
            return Err(LookupError::Busy);
        }
        let _place = WaitSlot::take(&self.asked);
        timeout(limit, self.answer(command)).await.unwrap_or_else(|_| {
            self.unanswered();
            Err(LookupError::Timeout)
        })
    }

    async fn answer<T>(
        self: &Rc<Self>,
        command: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> Result<T, LookupError> {
        let mut connection = self.connection().await?;
        let generation = self.generation.get();
        if self.silent.get().is_none() {
            self.silent.set(Some((Instant::now(), 0)));
        }
        match command(&mut connection).await {
            Err(error) if error.is_unrecoverable_error() => {
                self.broken(generation);
                Err(LookupError::Down)
            }
            answered => {
                self.silent.set(None);
                answered.map_err(|error| refused(&error))
            }
        }
    }

    fn unanswered(self: &Rc<Self>) {
        let Some((since, before)) = self.silent.get() else { return };
        let unanswered = before.saturating_add(1);
        self.silent.set(Some((since, unanswered)));
        if unanswered >= UNANSWERED_MAX && since.elapsed() > SILENT_MAX {
            self.broken(self.generation.get());
        }
    }

    async fn connection(self: &Rc<Self>) -> Result<MultiplexedConnection, LookupError> {
        loop {
            // Created before the state is read: a change in between is not missed.
            let changed = self.changed.notified();
            let begin = match &*self.state.borrow() {
                State::Up(connection) => return Ok(connection.clone()),
                State::Idle => Some(State::First),
                State::First => None,
                State::Down { until } if Instant::now() >= *until => Some(State::Again),
                State::Down { .. } | State::Again => return Err(LookupError::Down),
            };
            if let Some(state) = begin {
                let waits = matches!(state, State::First);
                self.state.replace(state);
                self.connect();
                if !waits {
                    return Err(LookupError::Down);
                }
            }
            changed.await;
        }
    }

    fn broken(self: &Rc<Self>, generation: u64) {
        let up = matches!(*self.state.borrow(), State::Up(_));
        if up && generation == self.generation.get() {
            self.state.replace(State::Again);
            self.connect();
        }
    }

    /// One attempt in the background. It ends on its own, at the latest with the lane's `LocalSet`.
    fn connect(self: &Rc<Self>) {
        let link = Rc::clone(self);
        drop(tokio::task::spawn_local(async move {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(CONNECT_MAX))
                .set_response_timeout(None)
                .set_pipeline_buffer_size(ASKED_MAX);
            // Accepted is not answered: a hanging server is still down.
            let connecting = async {
                let mut connection =
                    link.client.get_multiplexed_async_connection_with_config(&config).await?;
                redis::cmd("PING").exec_async(&mut connection).await?;
                RedisResult::Ok(connection)
            };
            let made = timeout(CONNECT_MAX, connecting).await;
            let state = match made {
                Ok(Ok(connection)) => link.up(connection),
                Ok(Err(error)) => link.down(&error.to_string()),
                Err(_) => link.down("no answer"),
            };
            link.state.replace(state);
            link.changed.notify_waiters();
        }));
    }

    fn up(&self, connection: MultiplexedConnection) -> State {
        self.generation.set(self.generation.get() + 1);
        self.pause.set(PAUSE_MIN);
        self.silent.set(None);
        if self.logged.replace(false) {
            tracing::info!(redis = %self.address(), "redis is reachable again");
        }
        State::Up(connection)
    }

    fn down(&self, error: &str) -> State {
        let pause = self.pause.get();
        self.pause.set((pause * 2).min(PAUSE_MAX));
        if !self.logged.replace(true) {
            tracing::warn!(redis = %self.address(), error, "redis is down; features that need it fail until it is back");
        }
        State::Down { until: Instant::now() + pause }
    }

    /// Without anything that may be a secret.
    fn address(&self) -> String {
        self.client.get_connection_info().addr().to_string()
    }
}

/// One of the waiting requests.
struct WaitSlot<'a>(&'a Cell<usize>);

impl WaitSlot<'_> {
    fn take(asked: &Cell<usize>) -> WaitSlot<'_> {
        asked.set(asked.get() + 1);
        WaitSlot(asked)
    }
}

impl Drop for WaitSlot<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// Checks the address, not whether the server is reachable.
pub(crate) fn client(url: &str) -> Result<Client, String> {
    if url.starts_with("rediss://") {
        return Err(
            "rediss:// needs TLS, which feature sources do not support; use redis:// through a tunnel"
                .to_owned(),
        );
    }
    // Requests are small and many share a connection: none may wait for another's acknowledgement.
    let tcp = TcpSettings::default().set_nodelay(true);
    let opened = url.into_connection_info().and_then(|info| Client::open(info.set_tcp_settings(tcp)));
    // The error's text may contain the address, and the address a password.
    opened.map_err(|_| {
        "the address of a redis source is not redis://[user:password@]host[:port][/database] or redis+unix:///path"
            .to_owned()
    })
}

/// It answered with an error.
fn refused(error: &RedisError) -> LookupError {
    match error.code() {
        // It is starting, or its master is gone.
        Some("LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN") => LookupError::Down,
        _ => LookupError::Bad,
    }
}
