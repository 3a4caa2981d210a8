//! A lane: one pinned thread with its own connections, queue and measurements. And the plane: what all lanes share,
//! namely the routing table, the bound on requests in flight, and each other's inboxes.

use crate::admission::Gate;
use crate::queue::{Job, Queue};
use crate::share::SocketCost;
use crate::{Routes, batch};
use arc_swap::ArcSwap;
use flyball_core::{Clock, Fault, FaultKind, Nanos, RequestLimits, Sink, Stage};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

#[derive(Clone, Copy, Debug)]
pub struct PlaneLimits {
    pub request: RequestLimits,
    pub in_flight_max: usize,
}

/// How many jobs other lanes may have sent and this one not yet taken in.
const INBOX_JOBS_MAX: usize = 1024;

/// What the lanes share.
pub struct Plane<M> {
    pub routes: ArcSwap<Routes<M>>,
    pub limits: PlaneLimits,
    pub clock: Clock,
    pub(crate) gate: Arc<Gate>,
    pub(crate) peers: Vec<Peer<M>>,
}

/// A lane as the others see it.
pub(crate) struct Peer<M> {
    inbox: mpsc::Sender<Job<M>>,
    /// The expected cost of what the lane has queued and is running. A hint for choosing a lane, not a promise.
    load_ns: AtomicU64,
    /// CPU time of the lane's thread when it was last looked at.
    cpu_ns: AtomicU64,
}

/// The receiving end of a lane's inbox, to be handed to [`Lane::run`].
pub struct LaneInbox<M>(mpsc::Receiver<Job<M>>);

impl<M> Plane<M> {
    pub fn new(lanes: usize, limits: PlaneLimits, clock: Clock) -> (Arc<Plane<M>>, Vec<LaneInbox<M>>) {
        let mut peers = Vec::with_capacity(lanes);
        let mut inboxes = Vec::with_capacity(lanes);
        for _ in 0..lanes {
            let (inbox, receiver) = mpsc::channel(INBOX_JOBS_MAX);
            peers.push(Peer { inbox, load_ns: AtomicU64::new(0), cpu_ns: AtomicU64::new(0) });
            inboxes.push(LaneInbox(receiver));
        }
        let routes = ArcSwap::from_pointee(Routes::default());
        let gate = Gate::new(limits.in_flight_max);
        (Arc::new(Plane { routes, limits, clock, gate, peers }), inboxes)
    }

    pub fn lanes(&self) -> usize {
        self.peers.len()
    }

    pub(crate) fn load_ns(&self, lane: usize) -> u64 {
        self.peers[lane].load_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn cpu_ns(&self, lane: usize) -> u64 {
        self.peers[lane].cpu_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn show_cpu(&self, lane: usize, cpu: Duration) {
        let cpu_ns = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
        self.peers[lane].cpu_ns.store(cpu_ns, Ordering::Relaxed);
    }

    /// Sends a job to a lane's inbox, or gives it back when that is full.
    pub(crate) fn send(&self, lane: usize, job: Job<M>) -> Result<(), Job<M>> {
        let peer = &self.peers[lane];
        let cost_ns = job.cost_ns;
        peer.load_ns.fetch_add(cost_ns, Ordering::Relaxed);
        peer.inbox.try_send(job).map_err(|full| {
            peer.load_ns.fetch_sub(cost_ns, Ordering::Relaxed);
            full.into_inner()
        })
    }
}

/// A lane, on its own thread. Not `Send`, on purpose.
pub struct Lane<S: Sink> {
    pub id: usize,
    pub plane: Arc<Plane<S::Model>>,
    pub(crate) sink: S,
    pub(crate) queue: RefCell<Queue<S::Model>>,
    pub(crate) arrived: Notify,
    pub(crate) socket_cost: SocketCost,
}

impl<S: Sink> Lane<S> {
    pub fn new(plane: Arc<Plane<S::Model>>, id: usize, sink: S) -> Rc<Lane<S>> {
        // In-flight requests are bounded for the whole server; in the worst case one lane has them all.
        let queue = RefCell::new(Queue::new(plane.limits.in_flight_max));
        Rc::new(Lane { id, plane, sink, queue, arrived: Notify::new(), socket_cost: SocketCost::new() })
    }

    /// Runs models for this lane's requests, and for those that other lanes send, for as long as it is polled.
    pub async fn run(&self, inbox: LaneInbox<S::Model>) {
        tokio::join!(batch::walk(self), self.receive(inbox));
    }

    pub fn now(&self) -> Nanos {
        self.plane.clock.now()
    }

    async fn receive(&self, mut inbox: LaneInbox<S::Model>) {
        while let Some(job) = inbox.0.recv().await {
            self.push(job);
        }
    }

    /// Queues a job here if this lane is a home of its model, else sends it to the least loaded one that is.
    pub(crate) fn accept(&self, job: Job<S::Model>) -> Result<(), Fault> {
        self.socket_cost.accepted(job.rows);
        if job.model.runner(self.id).is_some() {
            self.peer().load_ns.fetch_add(job.cost_ns, Ordering::Relaxed);
            self.push(job);
            return Ok(());
        }
        let full = || {
            Fault::new(
                FaultKind::LaneFull,
                Stage::Queue,
                "the model's lane has a full inbox; try again shortly",
            )
        };
        let home = job.model.homes().min_by_key(|&home| self.plane.load_ns(home)).ok_or_else(full)?;
        self.plane.send(home, job).map_err(|_job| full())
    }

    fn push(&self, job: Job<S::Model>) {
        if let Err(job) = self.queue.borrow_mut().push(job) {
            self.finished(job.cost_ns);
            let fault =
                Fault::new(FaultKind::LaneFull, Stage::Queue, "the lane's queue is full; try again shortly");
            job.answer(Err(fault));
            return;
        }
        self.arrived.notify_one();
    }

    /// Takes a job's cost off this lane's load.
    pub(crate) fn finished(&self, cost_ns: u64) {
        self.peer().load_ns.fetch_sub(cost_ns, Ordering::Relaxed);
    }

    fn peer(&self) -> &Peer<S::Model> {
        &self.plane.peers[self.id]
    }
}
