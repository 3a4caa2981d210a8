//! The thread that looks at the process's memory, so that no lane has to. What it does about it is `plane`'s.

use crate::drain::Phase;
use crate::shared::Shared;
use flyball_plane::MemoryLooks;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A look reads one line of /proc, some microseconds.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) fn start(shared: Arc<Shared>) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new().name("memory".to_owned()).spawn(move || {
        runtime.block_on(async {
            let mut looks = MemoryLooks::default();
            let mut look = tokio::time::interval(LOOK_EVERY);
            look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    _tick = look.tick() => shared.plane.look_at_memory(&mut looks),
                    () = shared.drain.reached(Phase::Gone) => return,
                }
            }
        });
    })
}
