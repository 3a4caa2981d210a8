//! A lane: one thread with its own queue, buffers and measurements. Most have connections; compute lanes have none.

use crate::batch;
use crate::job::Job;
use crate::lane_services::LaneServices;
use crate::out::OutBuffers;
use crate::plane::{LaneInbox, Plane};
use crate::pressure::memory_full;
use crate::reply::Slots;
use crate::schedule::{RunLimit, Schedule};
use crate::shadow_walk;
use crate::share::SocketCost;
use bytes::BytesMut;
use flyball_core::{Fault, FaultKind, LaneRecorder, Nanos, Sink, Stage, Tensor};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Maximum expected time of a batch on a compute lane. A slower model runs its requests one by one, so that others get their
/// turn.
const COMPUTE_RUN_MAX: Duration = Duration::from_millis(10);
/// Smaller answers are written without a check of the process's memory.
const COUNTED_ANSWER_BYTES: usize = 1 << 20;
/// Maximum vectors kept for the next requests.
const SPARE_MAX: usize = 1024;

/// A lane, on its own thread. Not `Send`, on purpose.
pub struct Lane<S: Sink> {
    pub id: usize,
    pub plane: Arc<Plane<S::Model>>,
    pub(crate) sink: S,
    pub(crate) schedule: RefCell<Schedule<Job<S::Model>>>,
    pub(crate) limit: RunLimit,
    pub(crate) arrived: Notify,
    pub(crate) socket_cost: SocketCost,
    pub(crate) slots: Slots,
    /// Jobs on their way to other lanes.
    pub(crate) given: RefCell<Vec<Job<S::Model>>>,
    /// The outputs of the last run.
    pub(crate) outputs: RefCell<Vec<Tensor>>,
    /// Buffers that answers are written to.
    pub(crate) out: RefCell<OutBuffers>,
    /// Used by decisions only.
    pub(crate) services: LaneServices<S::Model>,
    spare: RefCell<Vec<Vec<Tensor>>>,
    swept_at: Cell<Nanos>,
    /// When the last run ended, if jobs were waiting then.
    busy_since: Cell<Option<Nanos>>,
}

impl<S: Sink> Lane<S> {
    pub fn new(plane: Arc<Plane<S::Model>>, id: usize, sink: S) -> Rc<Lane<S>> {
        let limit = if plane.has_sockets(id) {
            RunLimit { time: plane.limits.inline_run_max, strict: true }
        } else {
            RunLimit { time: COMPUTE_RUN_MAX, strict: false }
        };
        // Only lanes with sockets serve requests.
        let recorder = plane.services.recorder.as_ref().filter(|_| plane.has_sockets(id));
        let services =
            LaneServices::new(plane.services.features.lane(), recorder.map(|recorder| recorder.lane(id)));
        Rc::new(Lane {
            id,
            plane,
            sink,
            services,
            schedule: RefCell::new(Schedule::new()),
            limit,
            arrived: Notify::new(),
            socket_cost: SocketCost::new(),
            slots: Slots::default(),
            given: RefCell::new(Vec::new()),
            outputs: RefCell::new(Vec::new()),
            out: RefCell::new(OutBuffers::new()),
            spare: RefCell::new(Vec::new()),
            swept_at: Cell::new(Nanos(0)),
            busy_since: Cell::new(None),
        })
    }

    /// Runs models for this lane's requests, for those that other lanes send, and for shadows, for as long as it is polled.
    pub async fn run(&self, mut inbox: LaneInbox<S::Model>) {
        tokio::join!(batch::walk(self, &mut inbox), shadow_walk::walk(self));
    }

    pub fn now(&self) -> Nanos {
        self.plane.clock.now()
    }

    /// This lane's recorder; none if nothing is recorded.
    pub fn recorder(&self) -> Option<&dyn LaneRecorder> {
        self.services.recorder.as_deref()
    }

    /// Queues jobs that other lanes have sent. Called before every run: the newest may be the most urgent.
    pub(crate) fn take_in(&self, inbox: &mut LaneInbox<S::Model>) {
        while let Ok(job) = inbox.0.try_recv() {
            self.push(job);
        }
    }

    /// Whether this lane has connections.
    pub(crate) fn has_sockets(&self) -> bool {
        self.plane.has_sockets(self.id)
    }

    /// Queues a job here if this lane is a home of its model and the run is short, else on the least loaded home.
    ///
    /// Returns whether it is queued here.
    pub(crate) fn accept(&self, mut job: Job<S::Model>) -> Result<bool, Fault> {
        self.socket_cost.accepted(job.rows);
        let inline = job.model.service.inline(job.rows * job.scale, self.plane.limits.inline_run_max);
        if inline && self.plane.home(&job.model, self.id).is_some() {
            self.plane.book(self.id, &mut job);
            self.push(job);
            return Ok(true);
        }
        let home = self.plane.least_loaded(&job.model, inline).ok_or_else(lane_full)?;
        match self.plane.send(home, job) {
            None => Ok(false),
            Some(_back) => Err(lane_full()),
        }
    }

    /// Queues a job that is booked here.
    pub(crate) fn push(&self, job: Job<S::Model>) {
        self.schedule.borrow_mut().push(job);
        self.arrived.notify_one();
    }

    /// Answers a job that was booked here.
    pub(crate) fn answer(&self, mut job: Job<S::Model>, result: Result<batch::Ran, Fault>) {
        self.plane.unbook(self.id, &mut job);
        job.answer(result);
    }

    /// Sends a job that was booked here to a compute lane, where its run blocks no sockets.
    pub(crate) fn send_to_compute(&self, mut job: Job<S::Model>) {
        self.plane.unbook(self.id, &mut job);
        job.promise.moves();
        let back = match self.plane.least_loaded(&job.model, false) {
            Some(home) => self.plane.send(home, job),
            None => Some(job),
        };
        if let Some(job) = back {
            job.answer(Err(lane_full()));
        }
    }

    /// Drops abandoned jobs now and then: far back in a long queue they would count as requests in flight until their turn.
    pub(crate) fn sweep(&self, unwanted: &mut Vec<Job<S::Model>>) {
        const SWEEP_EVERY: Duration = Duration::from_millis(50);
        let now = self.now();
        if now.since(self.swept_at.get()) >= SWEEP_EVERY {
            self.swept_at.set(now);
            self.schedule.borrow_mut().sweep(unwanted);
        }
    }

    /// Updates the lane's stretch after a run of this expected cost.
    ///
    /// While jobs wait, the time from the end of one run to the end of the next is what that cost really takes here.
    pub(crate) fn busy_until(&self, ended: Nanos, cost: Duration) {
        // Jobs that wait for their batch window do not make a lane busy.
        let waiting = self.schedule.borrow().ready_at(ended).is_some_and(|ready_at| ready_at <= ended);
        match self.busy_since.replace(waiting.then_some(ended)) {
            Some(since) => self.plane.show_stretch(self.id, ended.since(since), cost),
            // An outdated stretch must not keep refusing the requests whose runs would correct it.
            None => self.plane.show_stretch(self.id, cost, cost),
        }
    }

    /// Writes an answer of at most `bytes_max` bytes, or fails if that is more than allowed.
    pub(crate) fn write<T>(
        &self,
        bytes_max: usize,
        write: impl FnOnce(&mut BytesMut) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let limits = &self.plane.limits;
        if bytes_max > limits.answer_bytes_max {
            return Err(too_large(bytes_max, limits.answer_bytes_max));
        }
        if bytes_max > COUNTED_ANSWER_BYTES && !limits.memory.has_room(bytes_max as u64) {
            return Err(memory_full(Stage::Respond, limits.memory.bytes_max));
        }
        self.out.borrow_mut().write(bytes_max, write)
    }

    /// An empty vector for a request's tensors, reused if possible.
    pub(crate) fn spare(&self) -> Vec<Tensor> {
        self.spare.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn keep(&self, mut tensors: Vec<Tensor>) {
        let mut spare = self.spare.borrow_mut();
        if spare.len() < SPARE_MAX {
            tensors.clear();
            spare.push(tensors);
        }
    }
}

fn too_large(bytes: usize, bytes_max: usize) -> Fault {
    let text = format!(
        "the answer takes up to {bytes} bytes, and {bytes_max} are allowed (answer_bytes_max): ask for fewer rows or \
         outputs, for binary outputs where they are JSON (binary_data_output), for outputs in shared memory, or raise the \
         limit"
    );
    Fault::new(FaultKind::AnswerTooLarge, Stage::Respond, text)
}

pub(crate) fn lane_full() -> Fault {
    let text = "the inbox of the model's lane is full; try again shortly";
    Fault::new(FaultKind::LaneFull, Stage::Queue, text).retry_after(Duration::from_secs(1))
}
