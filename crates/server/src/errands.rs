//! Questions whose answer takes longer than a lane may be held: they are answered on the thread beside the lanes, one after
//! the other.

use crate::lane_thread::Shared;
use flyball_core::{Fault, FaultKind, Stage};
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
        let _ = asker.send(work(shared));
    });
    let full = || {
        let text = "too many such questions at once; try again shortly";
        Fault::new(FaultKind::InFlightFull, Stage::Admit, text).retry_after(Duration::from_secs(1))
    };
    shared.errands.try_send(errand).map_err(|_full| full())?;
    answer.await.map_err(|_gone| full())
}
