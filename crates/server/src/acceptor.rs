//! The thread beside the lanes. Takes connections in and hands each to the lane that has the fewest. Stops at the connection limit (the kernel's
//! backlog then holds what comes) and for good when the drain begins. Also runs errands, which take longer than a lane may be
//! held.

use crate::drain::Phase;
use crate::errands::Errand;
use crate::lane_thread::{Handover, Shared};
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// After an error such as "too many open files", waiting is the only help.
const ERROR_PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn start(
    shared: Arc<Shared>,
    listeners: Vec<TcpListener>,
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
    listener: TcpListener,
    lanes: Vec<mpsc::Sender<Handover>>,
) {
    let listener = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => return tracing::error!(%error, "a listener could not be used"),
    };
    loop {
        let accepted = async {
            // The semaphore is never closed, so a place is only waited for.
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((place, listener.accept().await))
        };
        let accepted = tokio::select! {
            accepted = accepted => accepted,
            () = shared.drain.reached(Phase::LameDuck) => return,
        };
        let Some((place, accepted)) = accepted else { return };
        let stream = match accepted.and_then(|(stream, _peer)| {
            stream.set_nodelay(true)?;
            stream.into_std()
        }) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        let load = |lane: &usize| shared.connections[*lane].load(Ordering::Relaxed);
        let Some(lane) = (0..lanes.len()).min_by_key(load) else { return };
        shared.connections[lane].fetch_add(1, Ordering::Relaxed);
        // Bounded: a lane that does not take connections in holds the acceptor back, not the memory.
        if lanes[lane].send(Handover { stream, place }).await.is_err() {
            shared.connections[lane].fetch_sub(1, Ordering::Relaxed);
        }
    }
}
