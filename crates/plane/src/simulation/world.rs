//! The simulated world: lanes, models, callers, and a clock that jumps from event to event.

use super::checks::Checks;
use crate::batch::{self, Run};
use crate::job::Job;
use crate::reply::Waiting;
use crate::schedule::{BatchWait, Queued, Taken};
use crate::stages::admit::{Demand, admit};
use crate::stages::queue::RunTicket;
use crate::testing::{Made, Runs, column, lanes};
use crate::{Lane, LaneInbox, Model};
use flyball_core::{Fault, FaultKind, Nanos, Priority, Stage};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const US: Duration = Duration::from_micros(1);
const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    HangUp(usize),
    Free(usize),
    /// A batch window ends.
    Window,
    Look,
}

/// How a request ended, as its caller sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    Answered(Nanos),
    Refused(FaultKind),
    HungUp,
}

pub(super) struct Caller {
    pub(super) deadline: Option<Nanos>,
    waiting: Option<Waiting<'static>>,
    pub(super) end: Option<End>,
}

/// A run under way on a lane.
struct UnderWay {
    model: Arc<Model<()>>,
    batch: Vec<Job<()>>,
    began: Nanos,
    took: Duration,
    stuck: bool,
}

/// A model with its run time for the first row, and for each further row.
type Timed = (Arc<Model<()>>, Duration, Duration);

/// The settings of a world.
pub(super) struct Scene {
    seed: u64,
    random: ChaCha8Rng,
    sockets: usize,
    pub(super) models: Vec<Timed>,
    /// Offered load over the lanes' capacity.
    load: f64,
    /// The maximum size of a burst.
    crowd: usize,
    deadlines: bool,
    /// Callers hang up, runs take longer than expected, and some hang.
    trouble: bool,
}

pub(super) struct World {
    pub(super) scene: Scene,
    pub(super) lanes: Vec<(&'static Rc<Lane<Runs>>, LaneInbox<()>)>,
    running: Vec<Option<UnderWay>>,
    pub(super) callers: Vec<Caller>,
    /// Callers that wait for an answer, by index.
    waiting: Vec<usize>,
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    numbered: u64,
    arrivals_left: usize,
    mean_gap: Duration,
    pub(super) checks: Checks,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let sockets = 1 + below(&mut random, 3) as usize;
        let count = 1 + below(&mut random, 4);
        let models = (0..count).map(|_| made(&mut random, sockets)).collect();
        let load = [0.3, 0.8, 1.2, 3.0][below(&mut random, 4) as usize];
        let crowd = [1, 1, 40][below(&mut random, 3) as usize];
        let deadlines = below(&mut random, 4) > 0;
        World::of(Scene { seed, random, sockets, models, load, crowd, deadlines, trouble: true })
    }

    /// One lane and one model of a millisecond a run, at `load` times their capacity.
    pub(super) fn overloaded(seed: u64, load: f64) -> World {
        let random = ChaCha8Rng::seed_from_u64(seed);
        let made = Made { rows_max: 1, first: MS, row: Duration::ZERO, ..Made::usual() };
        let models = vec![(made.model(), MS, Duration::ZERO)];
        World::of(Scene { seed, random, sockets: 1, models, load, crowd: 1, deadlines: true, trouble: false })
    }

    fn of(scene: Scene) -> World {
        // Callers borrow their lane's slots, so a lane must outlive them; a test's few bytes may leak.
        let lanes = lanes(scene.sockets).into_iter();
        let lanes: Vec<_> = lanes.map(|(lane, inbox)| (&*Box::leak(Box::new(lane)), inbox)).collect();
        let firsts = scene.models.iter().map(|(_, first, _)| *first);
        let mean = firsts.sum::<Duration>() / scene.models.len() as u32;
        let mut world = World {
            running: lanes.iter().map(|_| None).collect(),
            lanes,
            callers: Vec::new(),
            waiting: Vec::new(),
            events: BinaryHeap::new(),
            numbered: 0,
            arrivals_left: 240 / scene.crowd.div_ceil(4),
            mean_gap: mean.div_f64(scene.load * scene.sockets as f64) * scene.crowd as u32,
            checks: Checks::default(),
            scene,
        };
        world.at(Nanos(0), Event::Arrival);
        world.at(Nanos(0), Event::Look);
        world
    }

    fn at(&mut self, time: Nanos, event: Event) {
        self.numbered += 1;
        self.events.push(Reverse((time, self.numbered, event)));
    }

    pub(super) fn now(&self) -> Nanos {
        self.lanes[0].0.now()
    }

    pub(super) fn run(&mut self) {
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            let step = time.since(self.now());
            self.lanes[0].0.plane.clock.advance(step);
            match event {
                Event::Arrival => self.arrival(),
                Event::HangUp(caller) => self.hang_up(caller),
                Event::Free(lane) => self.finish(lane),
                Event::Window => {}
                Event::Look => self.look(),
            }
            self.start_what_can_start();
            self.collect_answers();
        }
    }

    fn arrival(&mut self) {
        for _ in 0..1 + below(&mut self.scene.random, self.scene.crowd as u64) {
            self.request();
        }
        self.arrivals_left -= 1;
        if self.arrivals_left > 0 {
            let gap = self.mean_gap.mul_f64(exponential(&mut self.scene.random));
            self.at(self.now().after(gap), Event::Arrival);
        }
    }

    fn request(&mut self) {
        let Scene { random, models, deadlines, trouble, .. } = &mut self.scene;
        let (model, first, _) = models[below(random, models.len() as u64) as usize].clone();
        let sockets = self.lanes[0].0.plane.lanes.sockets as u64;
        let lane = self.lanes[below(random, sockets) as usize].0;
        let rows = if below(random, 8) == 0 { 1 + below(random, 12) as usize } else { 1 };
        let priority = Priority::ALL[[1, 1, 1, 0, 2][below(random, 5) as usize]];
        let patience = first * 4 + 20 * MS * (1 + below(random, 10) as u32);
        let deadline = (*deadlines && below(random, 5) > 0).then(|| lane.now().after(patience));
        let hangs_up = *trouble && below(random, 20) == 0;
        let number = self.callers.len();
        let mut caller = Caller { deadline, waiting: None, end: None };
        match admit(lane, &model, Demand { rows, priority, deadline }) {
            Err(fault) => caller.end = Some(End::Refused(fault.kind)),
            Ok(permit) => {
                let (promise, waiting) = lane.slots.pair();
                let inputs = vec![column(&vec![(number % 200) as u8; rows])];
                let ticket = RunTicket::new(permit, priority, deadline);
                match lane.accept(Job::new(&model, inputs, ticket, promise, lane.now())) {
                    Ok(_here) => {
                        caller.waiting = Some(waiting);
                        self.waiting.push(number);
                    }
                    Err(fault) => caller.end = Some(End::Refused(fault.kind)),
                }
            }
        }
        self.callers.push(caller);
        if hangs_up {
            let after = MS.mul_f64(exponential(&mut self.scene.random) * 5.0);
            self.at(self.now().after(after), Event::HangUp(number));
        }
    }

    fn hang_up(&mut self, caller: usize) {
        let caller = &mut self.callers[caller];
        if caller.waiting.take().is_some() {
            caller.end = Some(End::HungUp);
        }
    }

    /// Free lanes receive the jobs sent to them and begin their next run.
    fn start_what_can_start(&mut self) {
        for id in 0..self.lanes.len() {
            let lane = self.lanes[id].0;
            while let Ok(job) = self.lanes[id].1.0.try_recv() {
                lane.push(job);
            }
            if self.running[id].is_none() {
                self.start(id, lane);
            }
        }
    }

    fn start(&mut self, id: usize, lane: &Lane<Runs>) {
        let mut taken = Taken::default();
        batch::take(lane, &mut taken);
        self.checks.taken(lane, &taken);
        let Some(first) = taken.batch.first() else {
            let ready_at = lane.schedule.borrow().ready_at(self.now());
            ready_at.inspect(|&ready_at| self.at(ready_at, Event::Window));
            return;
        };
        let model = Arc::clone(&first.model);
        let rows: usize = taken.batch.iter().map(|job| job.rows).sum();
        let expected = first.run_time(rows);
        // Most runs take about the expected time; the rest is a heavy tail, and a few never end.
        let Scene { random, trouble, .. } = &mut self.scene;
        let stuck = *trouble && below(random, 500) == 0;
        let took = if *trouble { expected.mul_f64(slowness(random)) } else { expected };
        let began = self.now();
        let home = lane.plane.home(&model, id).expect("a batch is taken on a home of its model");
        lane.plane.runs.begin(id, &model.name, &home.session.watched, began.after(200 * MS));
        if !stuck {
            self.at(began.after(took), Event::Free(id));
        }
        self.running[id] = Some(UnderWay { model, batch: taken.batch, began, took, stuck });
    }

    fn finish(&mut self, id: usize) {
        let Some(mut run) = self.running[id].take() else { return };
        let lane = self.lanes[id].0;
        lane.plane.runs.end(id);
        let rows: usize = run.batch.iter().map(|job| job.rows).sum();
        let result = if run.stuck {
            Err(Fault::new(FaultKind::RunStopped, Stage::Infer, "it was stopped"))
        } else {
            lane.outputs.borrow_mut().clear();
            lane.outputs.borrow_mut().push(column(&vec![1; rows]));
            Ok(())
        };
        self.checks.ran(id, &run.model, run.took, lane);
        let expected = run.model.service.run_time(rows);
        lane.busy_until(self.now(), expected);
        let over = Run { rows, scale: 1, began: run.began, ended: self.now(), took: run.took };
        batch::settle(lane, &run.model, &mut run.batch, result, over);
    }

    /// The watchdog's check: it ends runs that hang.
    fn look(&mut self) {
        let now = self.now();
        let plane = &self.lanes[0].0.plane;
        plane.runs.look(now);
        let overdue = |run: &UnderWay| run.stuck && run.began.after(200 * MS) <= now;
        let stopped: Vec<_> =
            (0..self.running.len()).filter(|&id| self.running[id].as_ref().is_some_and(overdue)).collect();
        for id in stopped {
            if let Some(run) = &mut self.running[id] {
                run.took = now.since(run.began);
            }
            self.finish(id);
        }
        // A run may hang after all of its callers have hung up.
        let running = self.running.iter().any(Option::is_some);
        let idle = self.arrivals_left == 0 && self.waiting.is_empty() && !running;
        if !idle {
            self.at(now.after(10 * MS), Event::Look);
        }
    }

    fn collect_answers(&mut self) {
        let now = self.now();
        let mut context = Context::from_waker(Waker::noop());
        self.waiting.retain(|&number| {
            let caller = &mut self.callers[number];
            let Some(waiting) = &mut caller.waiting else { return false };
            let Poll::Ready(result) = Pin::new(waiting).poll(&mut context) else { return true };
            assert!(caller.end.is_none(), "seed {}: answered twice", self.scene.seed);
            caller.end = Some(result.map_or_else(|fault| End::Refused(fault.kind), |_| End::Answered(now)));
            caller.waiting = None;
            false
        });
    }

    pub(super) fn check_at_the_end(&self) {
        let seed = self.scene.seed;
        assert!(
            self.callers.iter().all(|caller| caller.end.is_some()),
            "seed {seed}: a caller was never answered"
        );
        Checks::at_the_end(self, seed);
    }

    pub(super) fn history(&self) -> Vec<Option<End>> {
        self.callers.iter().map(|caller| caller.end.clone()).collect()
    }

    /// Run time of requests answered by their deadline, over elapsed time.
    pub(super) fn in_time_share_of_capacity(&self) -> f64 {
        let in_time = |caller: &&Caller| match caller.end {
            Some(End::Answered(when)) => caller.deadline.is_none_or(|deadline| when <= deadline),
            _ => false,
        };
        let useful = self.scene.models[0].1 * self.callers.iter().filter(in_time).count() as u32;
        useful.as_secs_f64() / self.now().since(Nanos(0)).as_secs_f64()
    }
}

/// A fast, medium or slow model that gains more or less by batching.
fn made(random: &mut ChaCha8Rng, sockets: usize) -> Timed {
    let first = [10 * US, 400 * US, 5 * MS][below(random, 3) as usize];
    let row = first / [1, 4, 40][below(random, 3) as usize];
    let homes = 1 + below(random, sockets as u64) as usize;
    let mut made =
        Made { rows_max: [1, 8, 64][below(random, 3) as usize], first, row, homes, ..Made::usual() };
    made.in_flight_max = [8, 64, 1000][below(random, 3) as usize];
    made.terms.share = [50, 100, 200][below(random, 3) as usize];
    let wait = BatchWait { rows: 4.min(made.rows_max), window: MS * (1 + below(random, 5) as u32) };
    made.terms.batch_wait = (below(random, 4) == 0).then_some(wait);
    made.terms.queue_wait_max = [20 * MS, 1000 * MS][below(random, 2) as usize];
    (made.model(), first, row)
}

/// A run's time over its expected time: 2 % take six times as long, and one in 500 thirty times.
fn slowness(random: &mut ChaCha8Rng) -> f64 {
    let times = match below(random, 500) {
        0 => 30.0,
        1..=10 => 6.0,
        _ => 1.0,
    };
    times * (0.9 + 0.2 * unit(random))
}

fn below(random: &mut ChaCha8Rng, bound: u64) -> u64 {
    random.next_u64() % bound.max(1)
}

fn unit(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Exponentially distributed with mean one.
fn exponential(random: &mut ChaCha8Rng) -> f64 {
    -(1.0 - unit(random)).ln()
}
