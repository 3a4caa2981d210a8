//! The thread beside the lanes. Takes connections in and hands each to the lane that has the fewest. Stops at the
//! connection limit (the kernel's backlog then holds what comes) and for good when the drain begins; turns away at once
//! who has too many of them. Also runs errands, which take longer than a lane may be held.

use crate::drain::Phase;
use crate::errands::Errand;
use crate::lane_thread::{Carrier, Handover, Shared};
use crate::listen::{Listener, Socket};
use crate::unix_socket::SocketFile;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, mpsc};

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
        let accepted = async {
            // The semaphore is never closed, so a place is only waited for.
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((place, door.accept().await))
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            () = shared.drain.reached(Phase::LameDuck) => return,
        };
        let Some((place, accepted)) = accepted else { return };
        let (carrier, address) = match accepted {
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
        let load = |lane: &usize| shared.connections[*lane].load(Ordering::Relaxed);
        let Some(lane) = (0..lanes.len()).min_by_key(load) else { return };
        shared.connections[lane].fetch_add(1, Ordering::Relaxed);
        // Bounded: a lane that does not take connections in holds the acceptor back, not the memory.
        if lanes[lane].send(Handover { carrier, place, seat, anonymous }).await.is_err() {
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

    /// The next connection, and the address that it counts for.
    async fn accept(&self) -> io::Result<(Carrier, Option<IpAddr>)> {
        match self {
            Door::Tcp { listener, tls } => {
                let (stream, peer) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let stream = stream.into_std()?;
                Ok((if *tls { Carrier::Tls(stream) } else { Carrier::Tcp(stream) }, Some(peer.ip())))
            }
            Door::Unix(listener, _file) => {
                let (stream, _peer) = listener.accept().await?;
                Ok((Carrier::Unix(stream.into_std()?), None))
            }
        }
    }
}
