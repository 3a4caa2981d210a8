//! A lane's thread: pinned, with a runtime of its own, fed with connections by the acceptor.

use crate::body::BodyBudget;
use crate::callers::{Callers, Mark, Peer, Visit, Visitor};
use crate::control::Order;
use crate::drain::{Drain, Phase};
use crate::errands::Errand;
use crate::journal::Tellings;
use crate::machine::Machine;
use crate::refusals::{self, Refusals};
use crate::reply::Reply;
use crate::seats::{Seat, Seats};
use crate::stream::Stream;
use crate::tls::{Tls, Turns};
use crate::trust::TrustFiles;
use crate::{ServerConfig, machine, stack};
use ::http::{HeaderMap, header};
use flyball_journal::Journal;
use flyball_plane::{Lane, LaneInbox, Loader, Plane};
use flyball_telemetry::{LaneSink, ModelMeter, Telemetry};
use flyball_wire::regions::Regions;
use rustix::process::setpriority_process;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::task::{JoinSet, LocalSet};

/// What every thread of a server shares.
pub(crate) struct Shared {
    pub(crate) config: ServerConfig,
    pub(crate) plane: Arc<Plane<ModelMeter>>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) drain: Drain,
    pub(crate) machine: Machine,
    pub(crate) ort_version: String,
    /// Bytes of request bodies that are in memory.
    pub(crate) bodies: BodyBudget,
    /// For what takes longer than a lane may be held.
    pub(crate) errands: mpsc::Sender<Errand>,
    /// Loads and unloads that clients ask for.
    pub(crate) orders: mpsc::Sender<Order>,
    /// Who loads models, and takes out what is revoked; none while the server starts.
    pub(crate) loader: OnceLock<Arc<Loader<ModelMeter>>>,
    /// Shared memory that clients registered; none where that is not allowed.
    pub(crate) regions: Option<Arc<Regions>>,
    pub(crate) tls: Option<Tls>,
    pub(crate) callers: Option<Callers>,
    /// Whom it trusts; none where only what is unsigned is served.
    pub(crate) trust: Option<TrustFiles>,
    /// Where decisions are recorded; none where they are not.
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) tellings: Tellings,
    /// Connections of each address.
    pub(crate) seats: Arc<Seats>,
    /// Open connections of each lane.
    pub(crate) connections: Vec<AtomicUsize>,
}

impl Shared {
    pub(crate) fn ready(&self) -> bool {
        self.drain.serving()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.iter().map(|lane| lane.load(Ordering::Relaxed)).sum()
    }
}

/// What a handler has at hand.
pub(crate) struct LaneContext {
    pub(crate) lane: Rc<Lane<LaneSink>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) refusals: Refusals,
    /// Of the handshakes on this lane.
    turns: Turns,
}

impl LaneContext {
    /// Whose a request is, and whether that caller may make it.
    pub(crate) fn visit(&self, peer: &Peer, headers: &HeaderMap) -> Visit {
        self.visitor(peer, headers).visit()
    }

    pub(crate) fn visitor(&self, peer: &Peer, headers: &HeaderMap) -> Visitor {
        Visitor::find(self.shared.callers.as_ref(), peer, headers)
    }

    /// How long a connection is to be left unread after this reply.
    pub(crate) fn pause_after(&self, reply: &Reply) -> Option<Duration> {
        // Only overload comes with advice on when to come again; a model that is being loaded does not.
        let refused = reply.headers().contains_key(header::RETRY_AFTER);
        self.refusals.count(refused);
        // While nothing waits there is nobody to make room for.
        let waits =
            || self.shared.plane.backlogs().any(|backlog| backlog >= self.shared.config.inline_run_max());
        let connections = self.shared.connections[self.lane.id].load(Ordering::Relaxed);
        (refused && self.refusals.dominate() && waits()).then(|| refusals::pause(connections))
    }
}

/// What carries a connection, before a lane's runtime has it.
pub(crate) enum Carrier {
    Tcp(std::net::TcpStream),
    Tls(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// A connection on its way from the acceptor to its lane, with its places among the allowed ones.
pub(crate) struct Handover {
    pub(crate) carrier: Carrier,
    pub(crate) place: OwnedSemaphorePermit,
    pub(crate) seat: Option<Seat>,
    /// Whether those who are no known caller are served where it came in.
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
        // For large bodies in a coding, and for nothing else. It would inherit the lane's core.
        .max_blocking_threads(1)
        .thread_name(format!("coding-{id}"))
        .on_thread_start(move || {
            let _ = setpriority_process(Some(rustix::thread::gettid()), COMPUTE_NICE);
            machine::unpin(&cpus);
        })
        .build()?;
    std::thread::Builder::new().name(format!("lane-{id}")).spawn(move || {
        if let Some(cpu) = cpu
            && !machine::pin(cpu)
        {
            tracing::warn!(lane = id, cpu, "lane could not be pinned");
        }
        let lane = Lane::new(Arc::clone(&shared.plane), id, shared.telemetry.sink(id));
        let context =
            Rc::new(LaneContext { lane, shared, refusals: Refusals::default(), turns: Turns::default() });
        LocalSet::new().block_on(&runtime, serve(context, inbox, connections));
    })
}

/// Compute lanes give way to the lanes with sockets: their work is long, and theirs is short.
const COMPUTE_NICE: i32 = 10;

/// A lane without sockets. Not pinned: it takes whatever core has time.
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
    // Other lanes may still send their surplus here; the loop goes on until all of them are done.
    context.shared.drain.reached(Phase::Gone).await;
    batches.abort();
}

async fn connection(context: Rc<LaneContext>, handover: Handover) {
    let open = &context.shared.connections[context.lane.id];
    let _closed = OnDrop(|| open.fetch_sub(1, Ordering::Relaxed));
    if let Some((stream, mark)) = open_up(&context, handover.carrier).await {
        let peer = Peer { anonymous: handover.anonymous, near: handover.near, mark };
        stack::connection(Rc::clone(&context), stream, peer).await;
    }
    drop((handover.place, handover.seat));
}

/// The connection's bytes, once TLS has shaken hands where it must, and whose they are.
async fn open_up(context: &LaneContext, carrier: Carrier) -> Option<(Stream, Mark)> {
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
            };
            let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
            let mark = certificate.map_or(Mark::Nothing, |first| Mark::of_certificate(first));
            Some((Stream::Tls(stream), mark))
        }
    }
}

/// Runs its function when dropped, also when the task is cut off.
struct OnDrop<T, F: Fn() -> T>(F);

impl<T, F: Fn() -> T> Drop for OnDrop<T, F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
