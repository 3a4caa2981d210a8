//! One request's walk: its start, stage times and outcome. It records itself exactly once: at its end, or in `Drop` if the
//! client hung up and the future was dropped.

use crate::Lane;
use crate::admission::Permit;
use crate::batch::Ran;
use crate::reply::Answered;
use flyball_core::{
    Access, CallerIndex, Fault, FaultKind, Nanos, Outcome, Protocol, Sink, Stage, WalkRecord, nanos,
};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Begun by a transport as soon as it has read a request's head: from then on the request is counted.
pub struct Walk<S: Sink> {
    lane: Rc<Lane<S>>,
    pub(crate) protocol: Protocol,
    pub(crate) caller: CallerIndex,
    /// What the caller may do.
    pub(crate) access: Access,
    /// For records: the caller's name, and the request's trace id.
    caller_name: Option<Arc<str>>,
    trace: Option<[u8; 32]>,
    /// When the head came. Timeouts count from here.
    came: Nanos,
    began: Nanos,
    pub(crate) deadline: Option<Nanos>,
    /// A random number, drawn once for each request, so that every lookup of its route agrees.
    pub(crate) draw: u64,
    /// The rows that the model ran.
    pub(crate) rows: usize,
    /// The time of each stage until now. A stage may be entered again; all times add up to the walk's time.
    pub(crate) took: [Option<Duration>; Stage::COUNT],
    /// When the last stage ended.
    last: Nanos,
    model: Option<Arc<S::Model>>,
    fault: Option<(FaultKind, Stage)>,
    outcome: Outcome,
}

impl<S: Sink> Walk<S> {
    /// `unread`: how long the request's bytes waited before they were read, if known.
    pub fn begin(lane: &Rc<Lane<S>>, protocol: Protocol, unread: Duration) -> Walk<S> {
        lane.sink.received();
        let began = lane.now();
        Walk {
            lane: Rc::clone(lane),
            protocol,
            caller: CallerIndex::NONE,
            access: Access::default(),
            caller_name: None,
            trace: None,
            came: Nanos(began.0.saturating_sub(nanos(unread))),
            began,
            deadline: None,
            draw: lane.services.random.draw(),
            rows: 0,
            took: [None; Stage::COUNT],
            last: began,
            model: None,
            fault: None,
            outcome: Outcome::Abandoned,
        }
    }

    /// Sets the caller and its rights; a transport does so as soon as it knows them.
    pub fn called_by(&mut self, caller: CallerIndex, access: Access) {
        (self.caller, self.access) = (caller, access);
    }

    /// Sets the origin for records. `trace` is the id of a W3C trace, 32 hexadecimal digits.
    pub fn comes_from(&mut self, caller: Option<Arc<str>>, trace: Option<[u8; 32]>) {
        (self.caller_name, self.trace) = (caller, trace);
    }

    pub fn caller_name(&self) -> Option<&Arc<str>> {
        self.caller_name.as_ref()
    }

    pub fn trace(&self) -> Option<&str> {
        self.trace.as_ref().and_then(|trace| str::from_utf8(trace).ok())
    }

    /// The body has arrived: earlier time was the network's.
    pub(crate) fn body_arrived(&mut self) {
        self.began = self.lane.now();
        self.last = self.began;
    }

    /// Sets the deadline: the earliest that the caller requested, in head or body, else the deployment's.
    pub(crate) fn due(&mut self, asked: Option<Duration>, promised: Option<Duration>) {
        let asked = [self.deadline, self.after(asked)].into_iter().flatten().min();
        self.deadline = asked.or_else(|| self.after(promised));
    }

    /// The time this long after the request came.
    pub fn after(&self, time: Option<Duration>) -> Option<Nanos> {
        time.map(|time| self.came.after(time))
    }

    /// Ends a stage now, and returns its result.
    pub(crate) fn stage<T>(&mut self, stage: Stage, result: T) -> T {
        let now = self.lane.now();
        self.end_at(stage, now);
        result
    }

    /// Skips a stage that has nothing to do for this request.
    pub(crate) fn pass(&mut self, stage: Stage) {
        self.end_at(stage, self.last);
    }

    /// Ends a stage at a time measured elsewhere.
    pub(crate) fn end_at(&mut self, stage: Stage, end: Nanos) {
        let took = self.took[stage.index()].get_or_insert_default();
        *took += end.since(self.last);
        self.last = self.last.max(end);
    }

    /// Ends queue and infer with a run's result.
    pub(crate) fn ran(&mut self, ran: Answered) -> Result<(Ran, Permit), Fault> {
        match ran {
            Ok((ran, permit)) => {
                self.end_at(Stage::Queue, ran.began);
                self.end_at(Stage::Infer, ran.ended);
                Ok((ran, permit))
            }
            // The time until now belongs to the stage that failed, not to writing the refusal.
            Err(fault) => self.stage(fault.stage, Err(fault)),
        }
    }

    pub(crate) fn routed(&mut self, model: &Arc<S::Model>) {
        self.model = Some(Arc::clone(model));
    }

    pub(crate) fn is_routed(&self) -> bool {
        self.model.is_some()
    }

    pub(crate) fn answered(&mut self) {
        self.outcome = Outcome::Answered;
    }

    pub(crate) fn faulted(&mut self, fault: &Fault) {
        self.outcome = fault.kind.outcome();
        self.fault = Some((fault.kind, fault.stage));
    }
}

impl<S: Sink> Drop for Walk<S> {
    fn drop(&mut self) {
        let end = if self.outcome == Outcome::Abandoned { self.lane.now() } else { self.last };
        self.lane.sink.record(&WalkRecord {
            model: self.model.as_deref(),
            protocol: self.protocol,
            caller: self.caller,
            outcome: self.outcome,
            fault: self.fault,
            rows: self.rows,
            ended: end,
            total: end.since(self.began),
            stages: self.took,
        });
    }
}
