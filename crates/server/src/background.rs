//! Threads beside the lanes, each with a small runtime of its own.

use crate::control::Control;
use crate::drain::Phase;
use crate::files::Watch;
use crate::shared::Shared;
use flyball_core::snapshot::Bundle;
use flyball_plane::MemoryLooks;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};

/// A look reads one line of /proc, which takes some microseconds.
const MEMORY_EVERY: Duration = Duration::from_millis(20);
/// A look is one system call, and a rollback waits for it.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(100);

/// Starts a thread that runs `work` until the server's shutdown reaches a phase.
pub(crate) fn spawn<F: Future>(
    name: &str,
    shared: Arc<Shared>,
    until: Phase,
    work: impl FnOnce(Arc<Shared>) -> F + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = shared.drain.reached(until) => {}
                _ended = work(Arc::clone(&shared)) => {}
            }
        });
    })
}

/// Checks the process's memory, so that no lane has to; `plane` acts on it.
pub(crate) fn watch_memory(shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    spawn("memory", shared, Phase::Gone, |shared| async move {
        let (mut looks, mut look) = (MemoryLooks::default(), interval(MEMORY_EVERY));
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            shared.plane.look_at_memory(&mut looks);
        }
    })
}

/// Applies the snapshot again whenever its index changes on disk.
///
/// Only the index is watched: it is written last, after its signature and documents. A thread of its own,
/// because certificates must not wait for a load.
pub(crate) fn watch_snapshot(
    shared: Arc<Shared>,
    control: Arc<Control>,
    index: PathBuf,
    applied: Vec<u8>,
) -> io::Result<JoinHandle<()>> {
    spawn("snapshot", shared, Phase::LameDuck, |_shared| async move {
        let mut watch = Watch::new(vec![index.clone()]);
        // It may have changed between the read that was applied and the first look.
        let mut changed = std::fs::read(&index).is_ok_and(|now| now != applied);
        let mut look = interval(SNAPSHOT_EVERY);
        loop {
            look.tick().await;
            if std::mem::take(&mut changed) || watch.changed() {
                apply(&control, &index);
            }
        }
    })
}

/// Logs faults, after which the serving state stays; a panic ends this attempt only.
fn apply(control: &Control, index: &Path) {
    let applied =
        catch_unwind(AssertUnwindSafe(|| Bundle::from_file(index).map(|bundle| control.apply(&bundle))));
    match applied {
        Ok(Ok(_acks)) => {}
        Ok(Err(error)) => tracing::error!(%error, "snapshot refused"),
        Err(_panic) => tracing::error!("applying a snapshot panicked; the previous one keeps serving"),
    }
}
