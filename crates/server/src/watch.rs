//! The thread that applies the snapshot again whenever its index changes on disk. A thread of its own: a load takes as long as
//! it takes, and certificates must not wait for it.

use crate::control::Control;
use crate::drain::Phase;
use crate::files::Watch;
use crate::shared::Shared;
use flyball_core::snapshot::Bundle;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A look is one system call, and a rollback waits for it.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Only the index is watched: it is written last, when its signature and its documents are there.
pub(crate) fn start(
    shared: Arc<Shared>,
    control: Arc<Control>,
    index: PathBuf,
    applied: Vec<u8>,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
        let mut watch = Watch::new(vec![index.clone()]);
        // It may have changed between the read that was applied and the first look.
        let mut changed = std::fs::read(&index).is_ok_and(|now| now != applied);
        runtime.block_on(async {
            let mut look = tokio::time::interval(LOOK_EVERY);
            loop {
                tokio::select! {
                    _tick = look.tick() => {}
                    () = shared.drain.reached(Phase::LameDuck) => return,
                }
                if std::mem::take(&mut changed) || watch.changed() {
                    apply(&control, &index);
                }
            }
        });
    })
}

/// Faults are logged, and what serves goes on; a panic ends this attempt only.
fn apply(control: &Control, index: &Path) {
    let applied =
        catch_unwind(AssertUnwindSafe(|| Bundle::from_file(index).map(|bundle| control.apply(&bundle))));
    match applied {
        Ok(Ok(_acks)) => {}
        Ok(Err(error)) => tracing::error!(%error, "snapshot refused"),
        Err(_panic) => tracing::error!("applying a snapshot panicked; what served goes on"),
    }
}
