//! Changes the serving models during live traffic: snapshots, and loads and unloads by clients.
//!
//! One change at a time, on a thread of low priority; a lane only waits for the result.

use crate::background::spawn;
use crate::drain::{Drain, Phase};
use crate::machine::SpareTime;
use crate::shared::Shared;
use flyball_core::snapshot::Bundle;
use flyball_core::{Fault, FaultKind, Stage, triton_texts};
use flyball_deployments::{Ack, AckState, Loader, NotLoaded};
use flyball_telemetry::ModelMeter;
use rustix::process::setpriority_process;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

/// Maximum waiting orders; each holds a name, and a load the configuration of its request's body.
pub(crate) const ORDERS_MAX: usize = 64;
/// The largest models load for minutes; after this time the caller is referred to the index.
const ORDER_WAIT_MAX: Duration = Duration::from_secs(600);
/// The nice value of a load on a busy machine.
///
/// With spare CPU time a load runs under the idle policy, so that it does not delay lanes. Without spare time
/// it would then never end, and a new version may be the remedy.
const LOADER_NICE: i32 = 10;
const SPARE_MIN: f64 = 0.1;

/// Returns the newest snapshot with a model, if it is newer than the applied one.
///
/// The second argument is the configuration that the client sent, the third whether the model serves now. `None`: the model
/// no longer exists.
pub type OnLoad = Box<dyn Fn(&str, Option<&str>, bool) -> Result<Option<Bundle>, String> + Send + Sync>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// With the configuration that the client sent, in JSON.
    Load {
        config: Option<String>,
    },
    Unload,
}

/// A client's load or unload, sent to the control thread.
pub(crate) struct Order {
    model: String,
    action: Action,
    done: oneshot::Sender<Result<(), Fault>>,
}

/// Runs an order and waits for its result. It completes even if the caller leaves.
pub(crate) async fn order(shared: &Shared, model: &str, action: Action) -> Result<(), Fault> {
    let (done, outcome) = oneshot::channel();
    let refused = |kind, text: String| Err(Fault::new(kind, Stage::Route, text));
    match shared.orders.try_send(Order { model: model.to_owned(), action, done }) {
        Ok(()) => {}
        Err(TrySendError::Closed(_)) => return Err(leaving()),
        Err(TrySendError::Full(_)) => {
            let text = format!("{ORDERS_MAX} loads are already waiting; try again later");
            return refused(FaultKind::InFlightFull, text);
        }
    }
    match tokio::time::timeout(ORDER_WAIT_MAX, outcome).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_dropped)) => Err(leaving()),
        Err(_elapsed) => {
            let text = format!(
                "the load or unload of model '{model}' is still running; query the repository index for its state"
            );
            refused(FaultKind::ModelNotReady, text)
        }
    }
}

pub(crate) struct Control {
    shared: Arc<Shared>,
    loader: Arc<Loader<ModelMeter>>,
    /// The last applied snapshot; locked during a load.
    applied: Mutex<Bundle>,
    on_load: OnceLock<OnLoad>,
    spare: Mutex<SpareTime>,
}

impl Control {
    pub(crate) fn new(shared: Arc<Shared>, loader: Arc<Loader<ModelMeter>>, applied: Bundle) -> Arc<Control> {
        let spare = Mutex::new(SpareTime::begin(&shared.machine));
        Arc::new(Control { shared, loader, applied: Mutex::new(applied), on_load: OnceLock::new(), spare })
    }

    /// Later calls change nothing.
    pub(crate) fn on_load(&self, on_load: OnLoad) {
        let _ = self.on_load.set(on_load);
    }

    pub(crate) fn apply(&self, bundle: &Bundle) -> Vec<Ack> {
        self.at_low_priority(|applied| {
            let outcome = self.loader.apply(bundle, &|| self.shared.drain.leaving());
            // A snapshot that was refused as a whole is not a source for later loads.
            if outcome.refused.is_none() {
                *applied = bundle.clone();
            }
            outcome.acks
        })
    }

    fn carry_out(&self, model: &str, action: &Action) -> Result<(), Fault> {
        self.at_low_priority(|applied| match action {
            // Waiting for the lock may have taken as long as another snapshot's load.
            _ if self.shared.drain.leaving() => Err(leaving()),
            Action::Load { config } => self.load(applied, model, config.as_deref()),
            Action::Unload => self.unload(model),
        })
    }

    fn load(&self, applied: &Bundle, model: &str, config: Option<&str>) -> Result<(), Fault> {
        let failed = |reason: &str| {
            let whole = reason.starts_with(triton_texts::FAILED_TO_LOAD);
            let start = if whole { String::new() } else { format!("{}: ", triton_texts::load_failed(model)) };
            Err(Fault::new(FaultKind::ModelNotReady, Stage::Route, format!("{start}{reason}")))
        };
        let serves = self.shared.plane.routes.load().get(model).is_some();
        let newest = match self.on_load.get().map(|on_load| on_load(model, config, serves)) {
            None if config.is_some() => {
                let text = "a load with 'config' is offered by `flyball serve --model-repository` alone; change the snapshot";
                return Err(Fault::not_offered(text));
            }
            None => None,
            Some(Ok(Some(bundle))) => Some(bundle),
            Some(Ok(None)) => return Err(unknown(triton_texts::no_such_folder(model))),
            Some(Err(reason)) => return failed(&reason),
        };
        let bundle = newest.as_ref().unwrap_or(applied);
        match self.loader.load_one(bundle, model, &|| self.shared.drain.leaving()) {
            Err(NotLoaded::Unknown) => Err(unknown(triton_texts::no_such_folder(model))),
            Err(NotLoaded::Leaving) => Err(leaving()),
            Ok(Ack { state: AckState::Refused, reason, .. }) => {
                failed(reason.as_deref().unwrap_or("it was refused"))
            }
            Ok(_) => Ok(()),
        }
    }

    fn unload(&self, model: &str) -> Result<(), Fault> {
        let known = || self.shared.plane.routes.load().absence(model).is_some();
        if self.loader.unload(model).is_some() || known() {
            Ok(())
        } else {
            Err(unknown(triton_texts::unknown_model(model)))
        }
    }

    /// Runs `work` on a new thread: a thread cannot raise its priority again.
    fn at_low_priority<T: Send>(&self, work: impl FnOnce(&mut Bundle) -> T + Send) -> T {
        let mut guard = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        let applied: &mut Bundle = &mut guard;
        std::thread::scope(|scope| {
            let load = scope.spawn(|| {
                let spare =
                    self.spare.lock().unwrap_or_else(PoisonError::into_inner).share(&self.shared.machine);
                if spare >= SPARE_MIN {
                    flyball_engine::set_idle_policy();
                } else {
                    let _ = setpriority_process(Some(rustix::thread::gettid()), LOADER_NICE);
                }
                let outcome = work(applied);
                self.shared.drain.touch();
                outcome
            });
            load.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

fn leaving() -> Fault {
    Fault::new(FaultKind::ModelNotReady, Stage::Route, "the server is leaving")
}

fn unknown(text: String) -> Fault {
    Fault::new(FaultKind::ModelNotFound, Stage::Route, text)
}

/// Starts the control thread.
pub(crate) fn start(
    shared: Arc<Shared>,
    control: Arc<Control>,
    mut orders: mpsc::Receiver<Order>,
) -> io::Result<JoinHandle<()>> {
    spawn("control", shared, Phase::Gone, |shared| async move {
        while let Some(order) = next(&shared.drain, &mut orders).await {
            let carry_out = AssertUnwindSafe(|| control.carry_out(&order.model, &order.action));
            // A panic ends its order and no other.
            let outcome = catch_unwind(carry_out).unwrap_or_else(|_panic| {
                let text = "the load panicked; see the server's log";
                Err(Fault::new(FaultKind::Panicked, Stage::Route, text))
            });
            let _ = order.done.send(outcome);
        }
    })
}

/// A draining server starts no further order; waiting callers get an error when their orders are dropped.
async fn next(drain: &Drain, orders: &mut mpsc::Receiver<Order>) -> Option<Order> {
    tokio::select! {
        biased;
        () = drain.reached(Phase::LameDuck) => None,
        order = orders.recv() => order,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_leaves_begins_no_order_that_waits() {
        let (drain, (orders, mut waiting)) = (Drain::new(), mpsc::channel(ORDERS_MAX));
        let order = || {
            let (done, outcome) = oneshot::channel();
            let order = Order { model: "m".to_owned(), action: Action::Load { config: None }, done };
            orders.try_send(order).expect("there is room");
            outcome
        };
        let _carried_out = order();
        assert!(next(&drain, &mut waiting).await.is_some());
        // More than one: a choice by chance would be right now and then.
        let outcomes = [(); ORDERS_MAX].map(|()| order());
        drain.enter(Phase::LameDuck);
        for _ in 0..ORDERS_MAX {
            assert!(next(&drain, &mut waiting).await.is_none());
        }
        drop(waiting);
        for outcome in outcomes {
            assert!(outcome.await.is_err(), "waiting callers get an error");
        }
    }
}
