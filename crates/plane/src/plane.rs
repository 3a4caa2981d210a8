//! The state that lanes share: routes, the limit on requests in flight, inboxes, and each lane's load.
//!
//! Lanes with sockets come first, then the compute lanes, then the spare lane: a compute lane that idles until another lane is
//! lost or a model is moved to a model host.

use crate::Routes;
use crate::admission::Gate;
use crate::backlog::Backlog;
use crate::job::Job;
use crate::loaded::{Home, Model};
use crate::pressure::Pressure;
use crate::watchdog::{Runs, Watchdog};
use arc_swap::ArcSwap;
use flyball_core::{Clock, Nanos, Priority, Recorder, RequestLimits, WallClock, nanos};
use flyball_engine::{MemoryBudget, thread_cpu_time};
use flyball_features::{FeatureSettings, Features};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::mpsc;

#[derive(Clone, Copy, Debug)]
pub struct PlaneLimits {
    pub request: RequestLimits,
    pub in_flight_max: usize,
    /// The longest run that may block a lane's sockets.
    pub inline_run_max: Duration,
    /// The maximum size of an answer.
    pub answer_bytes_max: usize,
    pub memory: MemoryBudget,
}

/// The services that decisions need besides models.
#[derive(Clone)]
pub struct PlaneServices {
    pub features: Arc<Features>,
    pub wall: WallClock,
    /// Rows come from files: they may contain features, and windows are only read.
    pub offline: bool,
    pub recorder: Option<Arc<dyn Recorder>>,
    pub build: Build,
}

/// The version of this program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Build {
    pub version: &'static str,
    pub commit: &'static str,
}

impl PlaneServices {
    /// With these clocks, windows in memory only, and no recorder.
    pub fn in_memory(clock: Clock, wall: WallClock) -> PlaneServices {
        let settings =
            FeatureSettings { folder: None, window_keys_max: WINDOW_KEYS_MAX, clock, wall: wall.clone() };
        let (features, build) = (Features::new(settings), Build::default());
        PlaneServices { features, wall, offline: false, recorder: None, build }
    }
}

/// How many lanes there are of each kind.
#[derive(Clone, Copy, Debug)]
pub struct Lanes {
    pub sockets: usize,
    /// Lanes without sockets, for long runs. At most as many as lanes with sockets.
    pub compute: usize,
}

/// Maximum jobs in a lane's inbox.
const INBOX_JOBS_MAX: usize = 1024;
const UNSTRETCHED: u32 = 1000;
const WINDOW_KEYS_MAX: usize = 1_000_000;

pub struct Plane<M> {
    pub routes: ArcSwap<Routes<M>>,
    pub limits: PlaneLimits,
    pub clock: Clock,
    pub services: PlaneServices,
    /// A thread's CPU time. Simulations replace it, because they must not depend on the machine.
    pub(crate) thread_time: fn() -> Duration,
    pub lanes: Lanes,
    pub(crate) gate: Arc<Gate>,
    pub(crate) runs: Runs,
    pub(crate) pressure: Pressure,
    peers: Vec<Peer<M>>,
}

/// A lane as the others see it. On cache lines of its own: lanes write to theirs with every request.
#[repr(align(128))]
struct Peer<M> {
    inbox: mpsc::Sender<Job<M>>,
    /// The expected cost of the lane's queued and running jobs. An estimate, for choosing a lane.
    load_ns: AtomicU64,
    /// The sum of the shares of all models with jobs there.
    shares: AtomicU64,
    /// The CPU time of the lane's thread when it was last read.
    cpu_ns: AtomicU64,
    /// Elapsed time over expected cost while the lane was busy, in thousandths: sockets cost time too, and other threads may
    /// use the core.
    stretch: AtomicU32,
}

impl<M> Peer<M> {
    fn new() -> (Peer<M>, LaneInbox<M>) {
        let (inbox, receiver) = mpsc::channel(INBOX_JOBS_MAX);
        let zero = AtomicU64::default;
        let stretch = AtomicU32::new(UNSTRETCHED);
        (Peer { inbox, load_ns: zero(), shares: zero(), cpu_ns: zero(), stretch }, LaneInbox(receiver))
    }
}

/// The receiving end of a lane's inbox, for [`crate::Lane::run`].
pub struct LaneInbox<M>(pub(crate) mpsc::Receiver<Job<M>>);

impl<M> Plane<M> {
    pub fn new(
        lanes: Lanes,
        limits: PlaneLimits,
        clock: Clock,
        services: PlaneServices,
    ) -> (Arc<Plane<M>>, Vec<LaneInbox<M>>) {
        let lanes =
            Lanes { sockets: lanes.sockets.max(1), compute: lanes.compute.clamp(1, lanes.sockets.max(1)) };
        let count = lanes.sockets + lanes.compute + 1;
        let (peers, inboxes) = (0..count).map(|_| Peer::new()).unzip();
        let plane = Plane {
            routes: ArcSwap::from_pointee(Routes::default()),
            limits,
            clock,
            services,
            thread_time: thread_cpu_time,
            lanes,
            gate: Gate::new(limits.in_flight_max),
            runs: Runs::new(count),
            pressure: Pressure::default(),
            peers,
        };
        (Arc::new(plane), inboxes)
    }

    pub fn has_sockets(&self, lane: usize) -> bool {
        lane < self.lanes.sockets
    }

    /// The expected cost of each lane's queued and running jobs.
    pub fn backlogs(&self) -> impl Iterator<Item = Duration> {
        self.peers.iter().map(|peer| Duration::from_nanos(peer.load_ns.load(Relaxed)))
    }

    /// Starts the watchdog thread.
    pub fn watch(self: &Arc<Plane<M>>) -> std::io::Result<Watchdog>
    where
        M: Send + Sync + 'static,
    {
        let plane = Arc::clone(self);
        Watchdog::start(move || plane.runs.look(plane.clock.now()))
    }

    /// Requests a stop of every run, so that the lanes can end.
    pub fn stop_runs(&self) {
        self.runs.stop_all();
    }

    /// The lane that replaces lost lanes.
    pub(crate) fn spare(&self) -> usize {
        self.lanes.sockets + self.lanes.compute
    }

    /// Whether a lane is in a run that nothing can stop.
    pub fn lost_a_lane(&self) -> bool {
        (0..=self.spare()).any(|lane| self.runs.lost(lane))
    }

    /// The session of a model that a lane may use.
    pub(crate) fn home<'m>(&self, model: &'m Model<M>, lane: usize) -> Option<&'m Home> {
        if lane == self.spare() {
            // Always the same home, so that bookings are removed where they were added.
            return model.homes.first();
        }
        let sockets = self.has_sockets(lane);
        model.homes.iter().find(|home| lane_of(self.lanes, home.place, sockets) == lane)
    }

    /// The lanes of one kind that may run a model.
    pub(crate) fn homes<'m>(
        &'m self,
        model: &'m Model<M>,
        sockets: bool,
    ) -> impl Iterator<Item = usize> + Clone + 'm {
        let moved = model.moved().is_some();
        model.homes.iter().map(move |home| match lane_of(self.lanes, home.place, sockets) {
            lane if !sockets && (moved || self.runs.lost(lane)) => self.spare(),
            lane => lane,
        })
    }

    /// The least loaded of them.
    pub(crate) fn least_loaded(&self, model: &Model<M>, sockets: bool) -> Option<usize> {
        // A lane whose run is overdue may never run another job.
        self.homes(model, sockets).min_by_key(|&home| (self.runs.overdue(home), self.load_ns(home)))
    }

    fn backlog<'m>(&self, model: &'m Model<M>, lane: usize) -> Option<&'m Backlog> {
        let home = self.home(model, lane)?;
        Some(if self.has_sockets(lane) { &home.socket_backlog } else { &home.compute_backlog })
    }

    pub(crate) fn load_ns(&self, lane: usize) -> u64 {
        self.peers[lane].load_ns.load(Relaxed)
    }

    pub(crate) fn cpu_ns(&self, lane: usize) -> u64 {
        self.peers[lane].cpu_ns.load(Relaxed)
    }

    pub(crate) fn show_cpu(&self, lane: usize, cpu: Duration) {
        self.peers[lane].cpu_ns.store(nanos(cpu), Relaxed);
    }

    pub(crate) fn show_shares(&self, lane: usize, shares: u64) {
        self.peers[lane].shares.store(shares, Relaxed);
    }

    /// Updates a lane's stretch with the time that it took for an expected cost.
    pub(crate) fn show_stretch(&self, lane: usize, took: Duration, cost: Duration) {
        const SAMPLE_MAX: f64 = 32.0;
        let sample = (took.as_secs_f64() / cost.as_secs_f64().max(1e-9)).clamp(1.0, SAMPLE_MAX);
        let sample = (sample * f64::from(UNSTRETCHED)) as u32;
        let stretch = &self.peers[lane].stretch;
        stretch.store((stretch.load(Relaxed) * 15 + sample) / 16, Relaxed);
    }

    /// Books a job's cost on a lane.
    pub(crate) fn book(&self, lane: usize, job: &mut Job<M>) {
        self.peers[lane].load_ns.fetch_add(job.cost_ns, Relaxed);
        let backlog = self.backlog(&job.model, lane);
        job.booking =
            backlog.map(|backlog| backlog.add(job.priority, job.deadline, self.clock.now(), job.cost_ns));
    }

    /// Removes the booking: the job was answered or moves.
    pub(crate) fn unbook(&self, lane: usize, job: &mut Job<M>) {
        self.peers[lane].load_ns.fetch_sub(job.cost_ns, Relaxed);
        if let (Some(booking), Some(backlog)) = (job.booking.take(), self.backlog(&job.model, lane)) {
            backlog.remove(booking);
        }
    }

    /// Sends a job to a lane's inbox, or returns it if the inbox is full.
    pub(crate) fn send(&self, lane: usize, mut job: Job<M>) -> Option<Job<M>> {
        self.book(lane, &mut job);
        let mut back = self.peers[lane].inbox.try_send(job).err()?.into_inner();
        self.unbook(lane, &mut back);
        Some(back)
    }

    /// The expected wait of a job of this class and deadline on a lane.
    ///
    /// All work before it, or, if other models have much to do, its own model's work scaled by the models' shares.
    pub(crate) fn wait(
        &self,
        lane: usize,
        model: &Model<M>,
        priority: Priority,
        deadline: Option<Nanos>,
        now: Nanos,
    ) -> Duration {
        let peer = &self.peers[lane];
        let all_ns = peer.load_ns.load(Relaxed);
        if all_ns == 0 {
            return Duration::ZERO;
        }
        let own_ns = self.backlog(model, lane).map_or(0, |own| own.ahead_ns(priority, deadline, now));
        let share = u64::from(model.terms.share.max(1));
        let shares = peer.shares.load(Relaxed).max(share);
        let run_ns = nanos(self.limits.inline_run_max);
        let fair_ns = own_ns.saturating_mul(shares).saturating_div(share).saturating_add(run_ns);
        let wait_ns = all_ns.min(fair_ns);
        let stretch = u64::from(peer.stretch.load(Relaxed));
        Duration::from_nanos(wait_ns.saturating_mul(stretch) / u64::from(UNSTRETCHED))
    }
}

fn lane_of(lanes: Lanes, place: usize, sockets: bool) -> usize {
    if sockets { place } else { lanes.sockets + place % lanes.compute }
}
