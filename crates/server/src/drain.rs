//! The phases of a server: Loading → Serving → LameDuck → Closing → Gone.
//!
//! In LameDuck the server is not ready, listeners are closed, responses have `Connection: close`, and HTTP/2 gets GOAWAY.
//! In Closing idle connections are closed. A request whose head was read is answered in every phase, until the grace
//! period ends.

use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The first snapshot is being applied; not ready yet.
    Loading,
    Serving,
    LameDuck,
    Closing,
    /// The grace period is over: open connections are cut off.
    Gone,
}

/// The server's phase; every connection watches it.
#[derive(Clone, Debug)]
pub(crate) struct Drain(watch::Sender<Phase>);

impl Drain {
    pub(crate) fn new() -> Drain {
        Drain(watch::Sender::new(Phase::Loading))
    }

    /// Advances to `phase`; never goes back.
    pub(crate) fn enter(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let on = phase > *now;
            *now = (*now).max(phase);
            on
        });
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    pub(crate) fn serving(&self) -> bool {
        self.phase() == Phase::Serving
    }

    /// Whether the shutdown has begun.
    pub(crate) fn leaving(&self) -> bool {
        self.phase() > Phase::Serving
    }

    /// Wakes the watchers after a change other than the phase.
    pub(crate) fn touch(&self) {
        self.0.send_modify(|_phase| {});
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Phase> {
        self.0.subscribe()
    }

    /// Returns once `phase` or a later one is entered.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut watch = self.watch();
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = watch.wait_for(|now| *now >= phase).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_never_goes_back() {
        let drain = Drain::new();
        drain.enter(Phase::Closing);
        drain.enter(Phase::LameDuck);
        assert_eq!(drain.phase(), Phase::Closing);
    }
}
