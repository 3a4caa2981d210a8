//! A run on one of its threads: connections, warm-up, measured time, and drain.

use crate::arrivals::Offsets;
use crate::control::Control;
use crate::grpc::Caller;
use crate::http::Connection;
use crate::links::{self, Link};
use crate::outcome::WarmedUp;
use crate::pace::{self, Timer};
use crate::payloads::Payloads;
use crate::plan::{Plan, Target, Warmup};
use crate::queue::{BACKLOG_MAX, Queue};
use crate::run::LoadError;
use crate::session::{Session, Share, Source};
use crate::tally::Tally;
use crate::thread_time::ThreadTime;
use crate::timeline::Timeline;
use crate::timetable::Timetable;
use crate::warmup::{steady, window_length};
use crate::worker::work;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

/// The minimum notice before measuring starts.
///
/// By then all threads know it, including their pacers, which may sleep for `pace::LOOK_AGAIN`; and an
/// observer that polls the phase every 10 ms has had time to read the server's own counters.
const NOTICE: Duration = Duration::from_millis(60);
const _: () = assert!(NOTICE.as_nanos() >= 2 * pace::LOOK_AGAIN.as_nanos());

/// The work that all threads of a run share.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) plan: Plan,
    pub(crate) target: Arc<Target>,
    pub(crate) payloads: Arc<Payloads>,
    pub(crate) control: Arc<Control>,
}

/// The results of one thread.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) tally: Tally,
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) thread: ThreadTime,
    pub(crate) warmup: WarmedUp,
}

pub(crate) async fn drive(job: Arc<Job>, share: Share, timer: Timer) -> Result<Part, LoadError> {
    let Job { plan, target, control, .. } = &*job;
    // A run that is stopped meanwhile sends nothing, and needs no connections.
    let links = tokio::select! {
        links = links::open(target, plan.protocol, share.of(plan.connections)) => links?,
        () = control.ended() => Vec::new(),
    };
    control.opened().await;
    let begun = Instant::now();
    let session = Rc::new(open_session(&job, share, begun));
    let leads = share.index == 0;
    if !plan.warms_up() {
        if leads {
            // Workers of a closed loop start when they know; a schedule starts when all of them do.
            control.begin(if plan.arrivals.closed() { begun } else { begun + NOTICE });
        }
        control.measured_from().await.inspect(|from| session.begin(*from));
    }
    let mut workers = start_workers(plan, links, &session);
    let paced = Rc::clone(&session);
    let ahead = ahead(plan);
    let pacer = tokio::task::spawn_local(async move { pace::keep(&paced, &timer, ahead).await });

    let steady = leads && plan.warms_up() && warm_up(&job, &session, begun).await;
    let measured_from = control.measured_from().await;
    if let Some(from) = measured_from {
        session.begin(from);
        until_or_ended(from, control).await;
    }
    let start = measured_from.unwrap_or_else(Instant::now);
    let (thread_before, spun_before) = (ThreadTime::now(), session.spun());
    until_or_ended(start + plan.measured(), control).await;
    let end = Instant::now();
    let thread = ThreadTime::now().since(thread_before).without(session.spun() - spun_before);
    // Due requests count, even if the generator was too late to offer them.
    session.offer_due(end);
    session.close();
    pacer
        .await
        .map_err(|error| LoadError::Broken(error.to_string()))?
        .map_err(|error| LoadError::Broken(format!("its timer failed: {error}")))?;

    // Waiting requests may still be sent for as long as a request may take; then only those in flight finish.
    match timeout(target.timeout, join(&mut workers)).await {
        Ok(joined) => joined?,
        Err(_) => {
            session.abandon_backlog();
            join(&mut workers).await?;
        }
    }
    let session =
        Rc::into_inner(session).ok_or_else(|| LoadError::Broken("a connection outlived its run".into()))?;
    let used = if plan.warms_up() { start.saturating_duration_since(begun) } else { Duration::ZERO };
    let used_s = used.as_secs_f64();
    Ok(Part { tally: session.into_tally(), start, end, thread, warmup: WarmedUp { used_s, steady } })
}

/// Waits for a steady load and starts measuring for all threads.
///
/// The first thread observes its own part of the load, which is like the others'. Returns whether the load
/// was steady.
async fn warm_up(job: &Job, session: &Session, begun: Instant) -> bool {
    let Warmup { least_s, most_s } = job.plan.warmup;
    let at = |offset_s| begun + Duration::from_secs_f64(offset_s);
    let length = window_length(job.plan.warmup);
    let ended = || job.control.course().ended.is_some();
    let (mut windows, mut covered) = (Vec::new(), begun);
    while covered + length <= at(most_s) && !(covered >= at(least_s) && steady(&windows)) && !ended() {
        covered += length;
        until_or_ended(covered, &job.control).await;
        windows.push(session.take_window());
    }
    let steady = steady(&windows);
    if !ended() {
        let earliest = Instant::now() + NOTICE;
        job.control.begin(earliest.max(at(if steady { least_s } else { most_s })));
    }
    steady
}

/// Cores that the plan names belong to the generator.
fn ahead(plan: &Plan) -> Duration {
    let alone = plan.cpus.as_ref().is_some_and(|cpus| cpus.len() >= plan.threads);
    if alone { pace::AHEAD_ALONE } else { pace::AHEAD_SHARED }
}

fn open_session(job: &Job, share: Share, begun: Instant) -> Session {
    let plan = &job.plan;
    let (first, step) = (share.index as u64, share.threads as u64);
    let source = if plan.arrivals.closed() {
        Source::Free { next: Cell::new(first), step }
    } else {
        let warmup_s = if plan.warms_up() { f64::INFINITY } else { 0.0 };
        let warmup = Offsets::new(Arc::new(plan.arrivals.warmup(plan.duration_s)), warmup_s, first, step);
        let measured = Offsets::new(Arc::clone(&plan.arrivals), plan.duration_s, first, step);
        Source::Timetable(Box::new(RefCell::new(Timetable::new(warmup, measured, begun))))
    };
    let seats = share.of(plan.connections) * plan.streams;
    let tally =
        Tally::new(Timeline::new(plan.measured(), plan.interval()), job.target.timeout, job.target.deadline);
    Session::new(
        Arc::clone(&job.target),
        Arc::clone(&job.payloads),
        Arc::clone(&job.control),
        source,
        Queue::new(seats, BACKLOG_MAX / share.threads),
        tally,
    )
}

fn start_workers(plan: &Plan, links: Vec<Link>, session: &Rc<Session>) -> JoinSet<()> {
    let mut workers = JoinSet::new();
    let protocol = plan.protocol;
    for (place, link) in links.into_iter().enumerate() {
        match link {
            Link::Http(stream) => {
                let session = Rc::clone(session);
                workers.spawn_local(async move {
                    work(&session, place, Connection::new(&session, protocol, stream)).await;
                });
            }
            Link::Grpc(channel) => {
                for seat in (place * plan.streams..).take(plan.streams) {
                    let (session, channel) = (Rc::clone(session), Rc::clone(&channel));
                    workers.spawn_local(async move {
                        work(&session, seat, Caller::new(&session, &channel)).await;
                    });
                }
            }
        }
    }
    workers
}

async fn join(workers: &mut JoinSet<()>) -> Result<(), LoadError> {
    while let Some(worker) = workers.join_next().await {
        worker.map_err(|error| LoadError::Broken(error.to_string()))?;
    }
    Ok(())
}

/// Waits for a point in time, or for the run's early end.
async fn until_or_ended(time: Instant, control: &Control) {
    tokio::select! {
        () = sleep_until(time) => {}
        () = control.ended() => {}
    }
}

#[cfg(test)]
mod tests;
