//! A lane's thread: pinned, with its own runtime; gets connections from the acceptor.

use crate::address_slots::AddressSlot;
use crate::callers::{Mark, Peer, Visit, Visitor};
use crate::drain::Phase;
use crate::hosts::Hosts;
use crate::open_connections::{OpenConnection, Usage};
use crate::refusals::{self, Refusals};
use crate::reply::Reply;
use crate::shared::Shared;
use crate::stream::Stream;
use crate::tls::Turns;
use crate::traces::trace;
use crate::{machine, stack};
use ::http::{HeaderMap, header};
use flyball_core::Protocol;
use flyball_plane::{Lane, LaneInbox, Walk};
use flyball_telemetry::{LaneSink, ModelMeter};
use rustix::process::setpriority_process;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::{JoinSet, LocalSet};

/// The context of a handler: its lane, and the server's shared state.
pub(crate) struct LaneContext {
    pub(crate) lane: Rc<Lane<LaneSink>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) refusals: Refusals,
    /// The turns of this lane's TLS handshakes.
    turns: Turns,
}

impl LaneContext {
    /// The caller of a request, and whether it is admitted.
    pub(crate) fn visit(&self, peer: &Peer, headers: &HeaderMap) -> Visit {
        self.visitor(peer, headers).visit()
    }

    pub(crate) fn visitor(&self, peer: &Peer, headers: &HeaderMap) -> Visitor {
        Visitor::find(self.shared.callers.as_ref(), peer, headers)
    }

    /// Begins the walk of a request whose head has been read; it is counted from here on.
    ///
    /// Every transport enters here and ends in the plane's `serve`.
    pub(crate) fn begin_walk(
        &self,
        protocol: Protocol,
        visit: &mut Visit,
        headers: &HeaderMap,
        unread: Duration,
    ) -> Walk<LaneSink> {
        let mut walk = Walk::begin(&self.lane, protocol, unread);
        walk.called_by(visit.caller, visit.access.clone());
        walk.comes_from(visit.name.take(), trace(headers));
        walk
    }

    /// How long the connection is left unread after this reply.
    pub(crate) fn pause_after(&self, reply: &Reply) -> Option<Duration> {
        // Only overload has Retry-After; a model that is being loaded does not.
        let refused = reply.headers().contains_key(header::RETRY_AFTER);
        self.refusals.count(refused);
        // Without waiting work no time needs to be freed.
        let waits =
            || self.shared.plane.backlogs().any(|backlog| backlog >= self.shared.config.inline_run_max());
        let connections = self.shared.connections[self.lane.id].load(Ordering::Relaxed);
        (refused && self.refusals.dominate() && waits()).then(|| refusals::pause(connections))
    }
}

/// A connection's socket before it is registered with a lane's runtime.
pub(crate) enum Carrier {
    Tcp(std::net::TcpStream),
    Tls(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// A connection passed from the acceptor to its lane, with its slots.
pub(crate) struct Handover {
    pub(crate) carrier: Carrier,
    pub(crate) place: OwnedSemaphorePermit,
    pub(crate) slot: Option<AddressSlot>,
    pub(crate) open: OpenConnection,
    pub(crate) hosts: Option<Arc<Hosts>>,
    /// Whether its listener serves anonymous callers.
    pub(crate) anonymous: bool,
    /// Whether it comes from this machine.
    pub(crate) near: bool,
}

pub(crate) fn start(
    shared: Arc<Shared>,
    id: usize,
    cpu: Option<usize>,
    inbox: LaneInbox<ModelMeter>,
    connections: mpsc::Receiver<Handover>,
) -> io::Result<JoinHandle<()>> {
    let cpus = shared.machine.cpus.clone();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        // Only for large compressed bodies. Without the call it would inherit the lane's core.
        .max_blocking_threads(1)
        .thread_name(format!("coding-{id}"))
        .on_thread_start(move || {
            let _ = setpriority_process(Some(rustix::thread::gettid()), COMPUTE_NICE);
            machine::pin(&cpus);
        })
        .build()?;
    std::thread::Builder::new().name(format!("lane-{id}")).spawn(move || {
        if let Some(cpu) = cpu
            && !machine::pin(&[cpu])
        {
            tracing::warn!(lane = id, cpu, "lane could not be pinned");
        }
        let lane = Lane::new(Arc::clone(&shared.plane), id, shared.telemetry.sink(id));
        let context =
            Rc::new(LaneContext { lane, shared, refusals: Refusals::default(), turns: Turns::default() });
        LocalSet::new().block_on(&runtime, serve(context, inbox, connections));
    })
}

/// Compute lanes yield to lanes with sockets: their work is long.
const COMPUTE_NICE: i32 = 10;

/// Starts a lane without sockets. Not pinned: it runs on any free core.
pub(crate) fn start_compute(
    shared: Arc<Shared>,
    id: usize,
    inbox: LaneInbox<ModelMeter>,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let name = format!("compute-{}", id - shared.plane.lanes.sockets);
    std::thread::Builder::new().name(name).spawn(move || {
        let _ = setpriority_process(Some(rustix::thread::gettid()), COMPUTE_NICE);
        let lane = Lane::new(Arc::clone(&shared.plane), id, shared.telemetry.sink(id));
        runtime.block_on(async {
            tokio::select! {
                () = lane.run(inbox) => {}
                () = shared.drain.reached(Phase::Gone) => {}
            }
        });
    })
}

async fn serve(
    context: Rc<LaneContext>,
    inbox: LaneInbox<ModelMeter>,
    mut handovers: mpsc::Receiver<Handover>,
) {
    let mut tasks = JoinSet::new();
    let batches = Rc::clone(&context);
    let mut batches = tokio::task::spawn_local(async move { batches.lane.run(inbox).await });
    let gone = context.shared.drain.clone();
    let mut open = true;
    while open || !tasks.is_empty() {
        tokio::select! {
            handover = handovers.recv(), if open => match handover {
                Some(handover) => { tasks.spawn_local(connection(Rc::clone(&context), handover)); }
                None => open = false,
            },
            Some(_ended) = tasks.join_next(), if !tasks.is_empty() => {}
            () = gone.reached(Phase::Gone) => break,
            _ended = &mut batches => {
                tracing::error!(lane = context.lane.id, "the lane's batch loop ended; the server is no longer ready");
                context.shared.drain.enter(Phase::LameDuck);
                break;
            }
        }
    }
    drop(handovers);
    tasks.shutdown().await;
    // Other lanes may still send surplus work here; the loop runs until all of them are done.
    context.shared.drain.reached(Phase::Gone).await;
    batches.abort();
}

async fn connection(context: Rc<LaneContext>, handover: Handover) {
    let open = &context.shared.connections[context.lane.id];
    let _closed = OnDrop(|| open.fetch_sub(1, Ordering::Relaxed));
    let usage = &handover.open.usage;
    if let Some((stream, mark)) = open_up(&context, handover.carrier, usage).await {
        let peer = Peer { anonymous: handover.anonymous, near: handover.near, hosts: handover.hosts, mark };
        stack::connection(Rc::clone(&context), stream, peer, usage).await;
    }
    drop((handover.place, handover.slot, handover.open));
}

/// The connection's stream, after a TLS handshake if needed, and its peer's mark.
async fn open_up(context: &LaneContext, carrier: Carrier, usage: &Usage) -> Option<(Stream, Mark)> {
    let shared = &context.shared;
    match carrier {
        Carrier::Tcp(stream) => Some((Stream::Tcp(TcpStream::from_std(stream).ok()?), Mark::Nothing)),
        Carrier::Unix(stream) => {
            let stream = UnixStream::from_std(stream).ok()?;
            let mark = stream.peer_cred().map_or(Mark::Nothing, |peer| Mark::User(peer.uid()));
            Some((Stream::Unix(stream), mark))
        }
        Carrier::Tls(stream) => {
            let (tls, stream) = (shared.tls.as_ref()?, TcpStream::from_std(stream).ok()?);
            let patience = Duration::from_millis(shared.config.header_timeout_ms);
            let stream = tokio::select! {
                shaken = tls.accept(stream, patience, &context.turns) => shaken?,
                () = shared.drain.reached(Phase::Closing) => return None,
                () = usage.evicted() => return None,
            };
            let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let mark = certificate.map_or(Mark::Nothing, |first| Mark::of_certificate(first));
            Some((Stream::Tls(stream), mark))
        }
    }
}

/// Runs a function when dropped, even if the task is cancelled.
struct OnDrop<T, F: Fn() -> T>(F);

impl<T, F: Fn() -> T> Drop for OnDrop<T, F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
