//! What runs, as opposed to the documents that describe it: models with their sessions, ready on their home lanes.

use crate::admission::Gate;
use flyball_core::{Digest, Tensor};
use flyball_engine::{Batching, LatencyTable, RunError, Runner, Signature};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// What runs a joined batch. ONNX Runtime's sessions do; tests put simpler ones in their place.
pub(crate) trait Run: Send {
    fn join(&mut self, requests: &mut dyn Iterator<Item = &[Tensor]>);
    fn run(&mut self) -> Result<Vec<Tensor>, RunError>;
}

impl Run for Runner {
    fn join(&mut self, requests: &mut dyn Iterator<Item = &[Tensor]>) {
        let requests: smallvec::SmallVec<[&[Tensor]; 64]> = requests.collect();
        Runner::join(self, requests.iter().copied());
    }

    fn run(&mut self) -> Result<Vec<Tensor>, RunError> {
        Runner::run(self)
    }
}

/// A deployment that serves. `M` is what measures it.
pub struct Deployment<M> {
    pub name: String,
    /// Of the document that it was made from: an equal one need not be loaded again.
    pub digest: Digest,
    /// The version for callers who name none.
    pub route: String,
    pub versions: Vec<Arc<Model<M>>>,
}

impl<M> Deployment<M> {
    pub fn version(&self, version: &str) -> Option<&Arc<Model<M>>> {
        self.versions.iter().find(|model| model.version == version)
    }
}

/// One model version that serves.
pub struct Model<M> {
    pub name: String,
    pub version: String,
    pub signature: Arc<Signature>,
    pub batching: Batching,
    pub latency: LatencyTable,
    pub meter: Arc<M>,
    pub(crate) gate: Arc<Gate>,
    /// A session for each home lane, and no others. The lock is never contended: a lane takes only its own. It is
    /// there because ONNX Runtime must not run one session from two threads.
    pub(crate) runners: Vec<(usize, Mutex<Box<dyn Run>>)>,
    pub(crate) rows_inline: OnceLock<usize>,
}

/// The longest run that may hold a lane's sockets back.
const INLINE_RUN_MAX: Duration = Duration::from_millis(1);

impl<M> Model<M> {
    pub(crate) fn runner(&self, lane: usize) -> Option<&Mutex<Box<dyn Run>>> {
        self.runners.iter().find(|(home, _)| *home == lane).map(|(_, runner)| runner)
    }

    pub(crate) fn homes(&self) -> impl Iterator<Item = usize> {
        self.runners.iter().map(|(home, _)| *home)
    }

    /// The most rows that may share a run: what probing allowed, cut to what stays within the inline limit once that
    /// has been measured. A model that exceeds the limit with a single row is not cut: it would only get slower.
    pub(crate) fn rows_max(&self) -> usize {
        if let Some(&rows) = self.rows_inline.get() {
            return rows;
        }
        let rows_max = self.batching.rows_max;
        let Some(one) = self.latency.estimate(1) else { return rows_max };
        let rows =
            if one > INLINE_RUN_MAX { rows_max } else { self.latency.rows_within(INLINE_RUN_MAX, rows_max) };
        *self.rows_inline.get_or_init(|| rows)
    }

    /// What a row is expected to cost a lane when batches are full; zero while nothing is known. One figure for all
    /// batch sizes, so that lanes' loads can be added and compared.
    pub(crate) fn row_cost(&self) -> Duration {
        let rows_max = self.rows_max();
        self.latency.estimate(rows_max).unwrap_or_default() / u32::try_from(rows_max).unwrap_or(u32::MAX)
    }
}
