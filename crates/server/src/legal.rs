//! Erasures and legal holds. Each reads the whole log, so it runs on its own thread, one at a time.
//!
//! The journal and features do the work; this module checks rights.

use crate::journal::{Rights, demand, nothing_kept, unix_ns, unkept, unrecorded};
use crate::lane_thread::LaneContext;
use crate::shared::Shared;
use flyball_core::{Fault, FaultKind, Stage, Verb};
use flyball_features::ErasedRows;
use flyball_journal::{Erasure as Order, Hold, HoldScope, Journal, JournalError, LegalError};
use flyball_wire::annotations::{Erased, Erasure, HoldFacts, HoldOrder, Release};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;

const TRY_AGAIN: Duration = Duration::from_secs(1);
/// Maximum further feature keys in one erasure.
const KEYS_MAX: usize = 64;

/// The thread of the running job.
#[derive(Default)]
pub(crate) struct LegalJob {
    busy: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl LegalJob {
    /// Called at shutdown, before the journal is closed.
    pub(crate) fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("an erasure or a hold panicked");
        }
    }
}

/// Runs `work` on its own thread and waits for the result.
async fn alone<T: Send + 'static>(
    shared: &Arc<Shared>,
    work: impl FnOnce(&Shared, &Journal) -> Result<T, Fault> + Send + 'static,
) -> Result<T, Fault> {
    let journal = Arc::clone(shared.journal.as_ref().ok_or_else(nothing_kept)?);
    if shared.legal.busy.swap(true, Ordering::AcqRel) {
        let text = "another erasure or hold is being recorded; try again shortly";
        return Err(Fault::new(FaultKind::InFlightFull, Stage::Admit, text).retry_after(TRY_AGAIN));
    }
    // The previous job has responded, so its thread is about to end.
    shared.legal.join();
    let (sender, answer) = oneshot::channel();
    let theirs = Arc::clone(shared);
    let started = thread::Builder::new().name("legal".into()).spawn(move || {
        // Released before the response is sent, and after a panic: the next job may then start.
        let busy = Busy(Arc::clone(&theirs));
        let done = work(&theirs, &journal);
        drop(busy);
        let _ = sender.send(done);
    });
    match started {
        Ok(thread) => {
            *shared.legal.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        }
        Err(error) => {
            shared.legal.busy.store(false, Ordering::Release);
            return Err(unrecorded(format!("no thread could be started: {error}")));
        }
    }
    answer.await.unwrap_or_else(|_panicked| {
        Err(Fault::new(FaultKind::Panicked, Stage::Record, "recording it panicked; see the server's log"))
    })
}

struct Busy(Arc<Shared>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.legal.busy.store(false, Ordering::Release);
    }
}

pub(crate) async fn erased(
    context: &LaneContext,
    caller: Option<&str>,
    rights: Rights<'_>,
    Erasure { subject, by, why, keys }: Erasure,
) -> Result<Erased, Fault> {
    demand(context, rights, Verb::Erase)?;
    if keys.len() > KEYS_MAX {
        return Err(Fault::malformed(format!("there are {} keys; send at most {KEYS_MAX}", keys.len())));
    }
    let order = Order { subject, by, why, caller: caller.map(str::to_owned) };
    alone(&context.shared, move |shared, journal| {
        let mut rows = ErasedRows::default();
        let all: Vec<String> = std::iter::once(order.subject.clone()).chain(keys).collect();
        let elsewhere = || {
            rows = shared.plane.services.features.erase(&all)?;
            Ok(rows.total())
        };
        let done = journal.erase(&order, shared.plane.services.wall.now_ns(), elsewhere).map_err(fault)?;
        let ErasedRows { windows, cached, stored } = rows;
        Ok(Erased { recorded: 1, records: done.records, windows, cached, stored })
    })
    .await
}

pub(crate) async fn holds(context: &LaneContext, rights: Rights<'_>) -> Result<Vec<HoldFacts>, Fault> {
    demand(context, rights, Verb::Erase)?;
    alone(&context.shared, |_, journal| Ok(journal.holds().map_err(fault)?.into_iter().map(shown).collect()))
        .await
}

pub(crate) async fn hold(
    context: &LaneContext,
    rights: Rights<'_>,
    HoldOrder { name, by, why, decision, from, to }: HoldOrder,
) -> Result<(), Fault> {
    demand(context, rights, Verb::Erase)?;
    let time = |name: &str, text: Option<String>| {
        text.as_deref().map(|text| unix_ns(name, text)).transpose().map_err(Fault::malformed)
    };
    let held = HoldScope { name, by, why, decision, from: time("from", from)?, to: time("to", to)? };
    alone(&context.shared, move |shared, journal| {
        let routes = shared.plane.routes.load();
        let served = |name: &str| routes.get(name).is_some_and(|deployment| deployment.decision.is_some());
        journal.hold(held, shared.plane.services.wall.now_ns(), served).map(drop).map_err(fault)
    })
    .await
}

pub(crate) async fn released(
    context: &LaneContext,
    rights: Rights<'_>,
    name: String,
    Release { by, why }: Release,
) -> Result<(), Fault> {
    demand(context, rights, Verb::Erase)?;
    let held = HoldScope { name, by, why, decision: None, from: None, to: None };
    alone(&context.shared, move |shared, journal| {
        journal.release(held, shared.plane.services.wall.now_ns()).map(drop).map_err(fault)
    })
    .await
}

fn shown(hold: Hold) -> HoldFacts {
    let time = |ns: i64| {
        jiff::Timestamp::from_nanosecond(i128::from(ns))
            .map_or_else(|_| ns.to_string(), |time| time.to_string())
    };
    let Hold { name, by, why, decision, from, to, at, .. } = hold;
    HoldFacts { name, by, why, decision, from: from.map(time), to: to.map(time), since: time(at) }
}

fn fault(error: LegalError) -> Fault {
    let kind = match &error {
        LegalError::NoSubject { .. } | LegalError::NoHold { .. } | LegalError::NoDecision { .. } => {
            FaultKind::RecordNotFound
        }
        LegalError::Held(_) | LegalError::InForce(_) => FaultKind::Held,
        LegalError::Annotation(_) => FaultKind::MalformedRequest,
        LegalError::Journal(JournalError::Unavailable(why)) => {
            return unkept(*why);
        }
        // The server's paths belong only in its own log.
        LegalError::Log(_) | LegalError::Journal(_) | LegalError::Elsewhere(_) => {
            tracing::error!(%error, "an erasure or a hold was not recorded");
            return unrecorded("it could not be recorded; the server's log says why");
        }
    };
    Fault::new(kind, Stage::Record, error.to_string())
}
