//! Questions whose answer takes longer than a lane may be held: they are answered on the thread beside the lanes, one after
//! the other.

use crate::lane_thread::Shared;
use flyball_core::{Fault, FaultKind, Stage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tokio::sync::oneshot;

/// How many may wait.
pub(crate) const ERRANDS_MAX: usize = 16;

pub(crate) type Errand = Box<dyn FnOnce(&Shared) + Send>;

/// Has `work` done beside the lanes, and waits for what it gives.
pub(crate) async fn aside<T: Send + 'static>(
    shared: &Shared,
    work: impl FnOnce(&Shared) -> T + Send + 'static,
) -> Result<T, Fault> {
    let (asker, answer) = oneshot::channel();
    let errand = Box::new(move |shared: &Shared| {
        // An asker who has gone is not waited for.
        let _ = asker.send(unharmed(|| work(shared)));
    });
    let full = || {
        let text = "too many such questions at once; try again shortly";
        Fault::new(FaultKind::InFlightFull, Stage::Admit, text).retry_after(Duration::from_secs(1))
    };
    shared.errands.try_send(errand).map_err(|_full| full())?;
    answer.await.map_err(|_gone| full())?
}

/// A panic ends its question, and not the thread, which also takes connections in.
fn unharmed<T>(work: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_panic| {
        tracing::error!("a question beside the lanes panicked");
        Fault::new(FaultKind::Panicked, Stage::Admit, "the answer panicked; see the server's log")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_its_question_and_not_the_thread() {
        assert_eq!(unharmed(|| 7).ok(), Some(7));
        let fault = unharmed(|| -> usize { panic!("on purpose") }).expect_err("panicked");
        assert_eq!(fault.kind, FaultKind::Panicked);
    }
}
