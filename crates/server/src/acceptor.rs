//! The thread beside the lanes. Takes connections in and hands each to the lane that has the fewest. Stops at the
//! connection limit (the kernel's backlog then holds what comes) and for good when the drain begins; turns away at once
//! who has too many of them. Also runs errands, which take longer than a lane may be held.

use crate::drain::Phase;
use crate::errands::Errand;
use crate::lane_thread::{Carrier, Handover, Shared};
use crate::listen::{Listener, Socket};
use crate::unix_socket::SocketFile;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// After an error such as "too many open files", waiting is the only help.
const ERROR_PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn start(
    shared: Arc<Shared>,
    listeners: Vec<Listener>,
    lanes: Vec<mpsc::Sender<Handover>>,
    mut errands: mpsc::Receiver<Errand>,
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
            let run = async {
                while let Some(errand) = errands.recv().await {
                    errand(&shared);
                }
            };
            let accepted = local.run_until(async { while accepting.join_next().await.is_some() {} });
            let done = async {
                accepted.await;
                shared.drain.reached(Phase::Gone).await;
            };
            tokio::select! { () = done => {}, () = run => {} }
        });
    })
}

async fn accept(
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    listener: Listener,
    lanes: Vec<mpsc::Sender<Handover>>,
) {
    let anonymous = listener.anonymous;
    let door = match Door::open(listener.socket) {
        Ok(door) => door,
        Err(error) => return tracing::error!(%error, "a listener could not be used"),
    };
    loop {
        let accepted = tokio::select! {
            accepted = door.accept(&places) => accepted,
            () = shared.drain.reached(Phase::LameDuck) => return,
        };
        let (place, carrier, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        // Turned away without a word: whatever is said takes time that an address with too many connections has used up.
        let seat = match address.map(|address| shared.seats.take(address)) {
            Some(None) => continue,
            Some(seat) => seat,
            None => None,
        };
        let near = address.is_none_or(|address| address.to_canonical().is_loopback());
        let load = |lane: &usize| shared.connections[*lane].load(Ordering::Relaxed);
        let Some(lane) = (0..lanes.len()).min_by_key(load) else { return };
        shared.connections[lane].fetch_add(1, Ordering::Relaxed);
        // Bounded: a lane that does not take connections in holds the acceptor back, not the memory.
        if lanes[lane].send(Handover { carrier, place, seat, anonymous, near }).await.is_err() {
            shared.connections[lane].fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A listener on this thread's runtime.
enum Door {
    Tcp { listener: TcpListener, tls: bool },
    Unix(UnixListener, SocketFile),
}

impl Door {
    fn open(socket: Socket) -> io::Result<Door> {
        Ok(match socket {
            Socket::Tcp(listener) => Door::Tcp { listener: TcpListener::from_std(listener)?, tls: false },
            Socket::Tls(listener) => Door::Tcp { listener: TcpListener::from_std(listener)?, tls: true },
            Socket::Unix(listener, file) => Door::Unix(UnixListener::from_std(listener)?, file),
        })
    }

    /// The next connection with its place, and the address that it counts for.
    async fn accept(
        &self,
        places: &Arc<Semaphore>,
    ) -> io::Result<(OwnedSemaphorePermit, Carrier, Option<IpAddr>)> {
        match self {
            Door::Tcp { listener, tls } => {
                let (place, (stream, peer)) = next(places, |task| listener.poll_accept(task)).await?;
                stream.set_nodelay(true)?;
                let stream = stream.into_std()?;
                Ok((place, if *tls { Carrier::Tls(stream) } else { Carrier::Tcp(stream) }, Some(peer.ip())))
            }
            Door::Unix(listener, _file) => {
                let (place, (stream, _peer)) = next(places, |task| listener.poll_accept(task)).await?;
                Ok((place, Carrier::Unix(stream.into_std()?), None))
            }
        }
    }
}

/// Nobody is accepted before there is a place: whoever is beyond the limit waits in the kernel's backlog. And where nobody
/// waits the place is given back at once: a listener that nobody comes to would keep it from the others.
async fn next<T>(
    places: &Arc<Semaphore>,
    accept: impl Fn(&mut Context<'_>) -> Poll<io::Result<T>>,
) -> io::Result<(OwnedSemaphorePermit, T)> {
    loop {
        let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
        if let Poll::Ready(accepted) = poll_fn(|task| Poll::Ready(accept(task))).await {
            return Ok((place, accepted?));
        }
        drop(place);
        woken().await;
    }
}

/// Until the task is woken, which `accept` has seen to when it found nobody. To be woken for something else does no harm.
async fn woken() {
    let mut asked = false;
    poll_fn(|_task| if std::mem::replace(&mut asked, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;

    async fn soon<T>(what: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(10), what).await.expect("it comes in time")
    }

    #[tokio::test]
    async fn a_listener_that_nobody_comes_to_holds_no_place() {
        let places = Arc::new(Semaphore::new(1));
        let idle = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let busy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = busy.local_addr().unwrap();
        let served = async {
            for _ in 0..3 {
                let _client = TcpStream::connect(address).unwrap();
                let _accepted = next(&places, |task| busy.poll_accept(task)).await.unwrap();
            }
        };
        tokio::select! {
            biased;
            _ = next(&places, |task| idle.poll_accept(task)) => panic!("nobody came to this one"),
            () = soon(served) => {}
        }
    }

    #[tokio::test]
    async fn whoever_is_beyond_the_limit_is_left_to_the_backlog_until_a_place_is_free() {
        let places = Arc::new(Semaphore::new(1));
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = door.local_addr().unwrap();
        let accept = || next(&places, |task| door.poll_accept(task));
        let (_first, _second) = (TcpStream::connect(address).unwrap(), TcpStream::connect(address).unwrap());
        let (place, _stream) = soon(accept()).await.unwrap();
        let beyond = tokio::time::timeout(Duration::from_millis(50), accept()).await;
        assert!(beyond.is_err(), "there is no place");
        drop(place);
        assert!(soon(accept()).await.is_ok(), "the kernel has kept it");
    }

    #[tokio::test]
    async fn somebody_who_comes_later_wakes_the_listener() {
        let places = Arc::new(Semaphore::new(1));
        let door = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = door.local_addr().unwrap();
        let later = async {
            tokio::task::yield_now().await;
            TcpStream::connect(address).unwrap()
        };
        let (accepted, _client) =
            soon(async { tokio::join!(next(&places, |task| door.poll_accept(task)), later) }).await;
        assert!(accepted.is_ok());
    }
}
