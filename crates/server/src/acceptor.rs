//! The acceptor thread: passes each connection to the lane with the fewest.
//!
//! At the connection limit the longest idle connection is evicted; if none is idle, one connection waits here and the
//! rest in the kernel's backlog. A connection of an address with too many is closed at once.

use crate::drain::Phase;
use crate::lane_thread::{Carrier, Handover};
use crate::listen::{Listener, Socket};
use crate::open_connections::{OpenConnections, TICK};
use crate::shared::Shared;
use crate::unix_socket::SocketFile;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// The pause after an error such as "too many open files".
const ERROR_PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn start(
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    lanes: Vec<mpsc::Sender<Handover>>,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    std::thread::Builder::new().name("acceptor".to_owned()).spawn(move || {
        runtime.block_on(async {
            let places = Arc::new(Semaphore::new(shared.config.connections_max));
            let mut accepting = tokio::task::JoinSet::new();
            let local = tokio::task::LocalSet::new();
            for listener in listeners {
                let (shared, places, lanes) = (Arc::clone(&shared), Arc::clone(&places), lanes.clone());
                accepting.spawn_local_on(accept(shared, places, listener, lanes), &local);
            }
            drop(lanes);
            let accepted = local.run_until(async { while accepting.join_next().await.is_some() {} });
            let done = async {
                accepted.await;
                shared.drain.reached(Phase::Gone).await;
            };
            let ticks = async {
                let mut ticks = tokio::time::interval(TICK);
                loop {
                    ticks.tick().await;
                    shared.open.tick();
                }
            };
            tokio::select! { () = done => {}, () = ticks => {} }
        });
    })
}

async fn accept(
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    listener: Listener,
    lanes: Vec<mpsc::Sender<Handover>>,
) {
    let (anonymous, hosts) = (listener.anonymous, listener.hosts);
    let listener = match BoundListener::open(listener.socket) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "a listener could not be used"),
    };
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = shared.drain.reached(Phase::LameDuck) => return,
        };
        let (carrier, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        // Closed without a reply: an address with too many connections gets no more time.
        let slot = match address.map(|address| shared.address_slots.take(address)) {
            Some(None) => continue,
            Some(slot) => slot,
            None => None,
        };
        let place = tokio::select! {
            place = place(&places, &shared.open) => place,
            () = shared.drain.reached(Phase::LameDuck) => return,
        };
        let open = shared.open.enter();
        let near = address.is_none_or(|address| address.to_canonical().is_loopback());
        let load = |lane: &usize| shared.connections[*lane].load(Ordering::Relaxed);
        let Some(lane) = (0..lanes.len()).min_by_key(load) else { return };
        shared.connections[lane].fetch_add(1, Ordering::Relaxed);
        let hosts = hosts.clone();
        // Bounded: a lane that accepts no connections blocks the acceptor instead of filling memory.
        if lanes[lane].send(Handover { carrier, place, slot, open, hosts, anonymous, near }).await.is_err() {
            shared.connections[lane].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A connection slot; if all are in use, that of the longest idle connection.
async fn place(places: &Arc<Semaphore>, open: &OpenConnections) -> OwnedSemaphorePermit {
    loop {
        if let Ok(place) = Arc::clone(places).try_acquire_owned() {
            return place;
        }
        open.evict();
        // Retry: other connections become idle, and the evicted one may have received a request.
        let freed = tokio::time::timeout(TICK, Arc::clone(places).acquire_owned()).await;
        if let Ok(Ok(place)) = freed {
            return place;
        }
    }
}

/// A listener on this thread's runtime.
enum BoundListener {
    Tcp { listener: TcpListener, tls: bool },
    Unix(UnixListener, SocketFile),
}

impl BoundListener {
    fn open(socket: Socket) -> io::Result<BoundListener> {
        Ok(match socket {
            Socket::Tcp { listener, tls } => {
                BoundListener::Tcp { listener: TcpListener::from_std(listener)?, tls }
            }
            Socket::Unix(listener, file) => BoundListener::Unix(UnixListener::from_std(listener)?, file),
        })
    }

    /// The next connection, and the address that is limited.
    async fn accept(&self) -> io::Result<(Carrier, Option<IpAddr>)> {
        match self {
            BoundListener::Tcp { listener, tls } => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let stream = stream.into_std()?;
                Ok((if *tls { Carrier::Tls(stream) } else { Carrier::Tcp(stream) }, Some(peer.ip())))
            }
            BoundListener::Unix(listener, _file) => {
                let (stream, _peer) = listener.accept().await?;
                Ok((Carrier::Unix(stream.into_std()?), None))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn soon<T>(what: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(10), what).await.expect("it comes in time")
    }

    #[tokio::test]
    async fn where_all_places_are_taken_an_idle_connection_gives_its_own() {
        let (places, open) = (Arc::new(Semaphore::new(1)), Arc::new(OpenConnections::default()));
        let first = (soon(place(&places, &open)).await, open.enter());
        let leaves = async {
            first.1.usage.evicted().await;
            drop(first);
        };
        let (_second, ()) = soon(async { tokio::join!(place(&places, &open), leaves) }).await;
        assert_eq!(open.evictions(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn where_none_is_idle_the_next_waits_until_one_is() {
        let (places, open) = (Arc::new(Semaphore::new(1)), Arc::new(OpenConnections::default()));
        let (held, busy) = (place(&places, &open).await, open.enter());
        busy.usage.begin();
        assert!(tokio::time::timeout(TICK * 5, place(&places, &open)).await.is_err(), "there is no place");
        busy.usage.end();
        let leaves = async {
            busy.usage.evicted().await;
            drop(held);
        };
        let (_next, ()) = soon(async { tokio::join!(place(&places, &open), leaves) }).await;
    }
}
