//! Runs work too long for a lane, such as `/metrics`, one by one on a thread of its own.

use crate::background::spawn;
use crate::drain::Phase;
use crate::shared::Shared;
use flyball_core::{Fault, FaultKind, Stage};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Maximum waiting jobs.
pub(crate) const WAITING_MAX: usize = 16;

pub(crate) type Offloaded = Box<dyn FnOnce(&Shared) + Send>;

/// Starts the thread.
pub(crate) fn start(
    shared: Arc<Shared>,
    mut waiting: mpsc::Receiver<Offloaded>,
) -> io::Result<JoinHandle<()>> {
    spawn("offload", shared, Phase::Gone, move |shared| async move {
        while let Some(work) = waiting.recv().await {
            work(&shared);
        }
    })
}

/// Runs `work` on the offload thread and waits for its result.
pub(crate) async fn offload<T: Send + 'static>(
    shared: &Shared,
    work: impl FnOnce(&Shared) -> T + Send + 'static,
) -> Result<T, Fault> {
    let (sender, answer) = oneshot::channel();
    let work = Box::new(move |shared: &Shared| {
        let _ = sender.send(unharmed(|| work(shared)));
    });
    let full = || {
        let text = "too many requests of this kind at once; try again shortly";
        Fault::new(FaultKind::InFlightFull, Stage::Admit, text).retry_after(Duration::from_secs(1))
    };
    shared.offload.try_send(work).map_err(|_full| full())?;
    answer.await.map_err(|_gone| full())?
}

/// A panic ends its job, not the thread.
fn unharmed<T>(work: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_panic| {
        tracing::error!("an offloaded job panicked");
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
