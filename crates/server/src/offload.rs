//! Answers that would hold a lane for too long, as the page of metrics: made on a thread of their own, one after the other.

use crate::drain::Phase;
use crate::shared::Shared;
use flyball_core::{Fault, FaultKind, Stage};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How many answers may wait.
pub(crate) const WAITING_MAX: usize = 16;

pub(crate) type Offloaded = Box<dyn FnOnce(&Shared) + Send>;

/// Starts the thread.
pub(crate) fn start(
    shared: Arc<Shared>,
    mut waiting: mpsc::Receiver<Offloaded>,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    std::thread::Builder::new().name("offload".to_owned()).spawn(move || {
        runtime.block_on(async {
            let work = async {
                while let Some(work) = waiting.recv().await {
                    work(&shared);
                }
            };
            tokio::select! { () = work => {}, () = shared.drain.reached(Phase::Gone) => {} }
        });
    })
}

/// Has `work` done on the offload thread, and waits for its result.
pub(crate) async fn offload<T: Send + 'static>(
    shared: &Shared,
    work: impl FnOnce(&Shared) -> T + Send + 'static,
) -> Result<T, Fault> {
    let (asker, answer) = oneshot::channel();
    let work = Box::new(move |shared: &Shared| {
        let _ = asker.send(unharmed(|| work(shared)));
    });
    let full = || {
        let text = "too many requests of this kind at once; try again shortly";
        Fault::new(FaultKind::InFlightFull, Stage::Admit, text).retry_after(Duration::from_secs(1))
    };
    shared.offload.try_send(work).map_err(|_full| full())?;
    answer.await.map_err(|_gone| full())?
}

/// A panic ends its own answer, and not the thread.
fn unharmed<T>(work: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_panic| {
        tracing::error!("an offloaded answer panicked");
        Fault::new(FaultKind::Panicked, Stage::Admit, "the answer panicked; see the server's log")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_its_answer_and_not_the_thread() {
        assert_eq!(unharmed(|| 7).ok(), Some(7));
        let fault = unharmed(|| -> usize { panic!("on purpose") }).expect_err("panicked");
        assert_eq!(fault.kind, FaultKind::Panicked);
    }
}
