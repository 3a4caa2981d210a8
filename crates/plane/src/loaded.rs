//! What runs, as opposed to the documents that describe it: models with their sessions, ready on their home lanes.

use crate::Decision;
use crate::admission::Gate;
use crate::backlog::Backlog;
use crate::breaker::Breaker;
use crate::candidate::Trial;
use crate::judge::Standing;
use crate::schedule::{BatchWait, ModelKey};
use crate::service::{Conduct, Service};
use crate::states::Tried;
use flyball_core::{Digest, InferRequest, Tensor, snapshot};
use flyball_engine::{Batching, HostedModel, LatencyTable, RunError, Runner, Signature};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Ends the run that is under way, from another thread.
pub(crate) type StopRun = Arc<dyn Fn() + Send + Sync>;

/// A session as the watchdog sees it.
pub(crate) struct Watched {
    pub(crate) stop: StopRun,
    pub(crate) conduct: Arc<Conduct>,
}

/// What runs a joined batch. ONNX Runtime's sessions do; tests put simpler ones in their place.
pub(crate) trait Run: Send {
    fn clear(&mut self);
    fn add(&mut self, inputs: &[Tensor]);
    /// Before a run, and not part of its time.
    fn prepare(&mut self) -> Result<(), RunError> {
        Ok(())
    }
    fn run(&mut self, outputs: &mut Vec<Tensor>) -> Result<(), RunError>;
    fn stopper(&self) -> StopRun;
}

impl Run for Runner {
    fn clear(&mut self) {
        Runner::clear(self);
    }

    fn add(&mut self, inputs: &[Tensor]) {
        Runner::add(self, inputs);
    }

    fn run(&mut self, outputs: &mut Vec<Tensor>) -> Result<(), RunError> {
        Runner::run(self, outputs)
    }

    fn stopper(&self) -> StopRun {
        let stopper = Runner::stopper(self);
        Arc::new(move || stopper.stop())
    }
}

impl Run for HostedModel {
    fn clear(&mut self) {
        HostedModel::clear(self);
    }

    fn add(&mut self, inputs: &[Tensor]) {
        HostedModel::add(self, inputs);
    }

    fn prepare(&mut self) -> Result<(), RunError> {
        HostedModel::prepare(self)
    }

    fn run(&mut self, outputs: &mut Vec<Tensor>) -> Result<(), RunError> {
        HostedModel::run(self, outputs)
    }

    fn stopper(&self) -> StopRun {
        HostedModel::stopper(self)
    }
}

/// A deployment that serves. `M` is what measures it.
pub struct Deployment<M> {
    pub name: String,
    /// Of the document that it was made from: an equal one need not be loaded again.
    pub digest: Digest,
    /// The version for callers who name none.
    pub route: String,
    /// Those of its candidate among them.
    pub versions: Vec<Arc<Model<M>>>,
    /// What is tried on some of the requests, where there is no decision; else it is a variant of that.
    pub(crate) trial: Option<Trial<M>>,
    /// The same for whoever asks, with or without a decision.
    pub(crate) tried: Option<Tried>,
    /// What the models are asked for; none: they are served as they are.
    pub decision: Option<Arc<Decision<M>>>,
    pub standing: Standing,
    /// To be judged again by later trust; none where nobody was trusted.
    pub(crate) origin: Option<Box<Origin>>,
    /// Of the last snapshot that asked for it.
    pub(crate) generation: AtomicU64,
}

/// What a deployment was made from.
pub(crate) struct Origin {
    pub(crate) document: snapshot::Deployment,
    pub(crate) base: PathBuf,
}

impl<M> Deployment<M> {
    pub fn version(&self, version: &str) -> Option<&Arc<Model<M>>> {
        self.versions.iter().find(|model| &*model.version == version)
    }
}

/// What its deployment grants a model and asks of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// For requests that bring none.
    pub(crate) deadline: Option<Duration>,
    pub(crate) queue_wait_max: Duration,
    pub(crate) run_max: Duration,
    pub(crate) share: u32,
    pub(crate) batch_wait: Option<BatchWait>,
}

/// One model version that serves.
pub struct Model<M> {
    /// Its own for as long as the process lives, unlike its address.
    pub(crate) key: ModelKey,
    pub name: Arc<str>,
    pub version: Arc<str>,
    pub signature: Arc<Signature>,
    pub batching: Batching,
    /// What the classes of an output are called, in their order, by the output's name.
    pub labels: HashMap<String, Arc<[String]>>,
    pub meter: Arc<M>,
    pub(crate) service: Service,
    /// Elements of a row as the latency table knows it, where rows may be longer.
    pub(crate) row_elements: Option<usize>,
    pub(crate) terms: Terms,
    pub(crate) gate: Arc<Gate>,
    pub(crate) breaker: Breaker,
    pub(crate) homes: Vec<Home>,
    /// Where it runs once it was moved; none where this process has no model hosts.
    pub(crate) hosted: Option<Hosted>,
}

/// A model in a process of its own, and how to end its runs.
pub(crate) struct Hosted {
    pub(crate) runner: Mutex<Box<dyn Run>>,
    pub(crate) watched: Arc<Watched>,
}

impl Hosted {
    pub(crate) fn new(runner: impl Run + 'static, conduct: &Arc<Conduct>) -> Hosted {
        let watched = Arc::new(Watched { stop: runner.stopper(), conduct: Arc::clone(conduct) });
        Hosted { runner: Mutex::new(Box::new(runner)), watched }
    }
}

/// A session and the two lanes that may use it: one with sockets while the model is fast, and the compute lane beside it.
/// On cache lines of its own: its lanes write to it with every request.
#[repr(align(128))]
pub(crate) struct Home {
    /// The number of the lane with sockets; the compute lane follows from it.
    pub(crate) place: usize,
    /// Contended only while a model moves from one of its two lanes to the other. ONNX Runtime must not run one session
    /// from two threads.
    pub(crate) runner: Mutex<Box<dyn Run>>,
    pub(crate) watched: Arc<Watched>,
    pub(crate) socket_backlog: Backlog,
    pub(crate) compute_backlog: Backlog,
}

impl Home {
    pub(crate) fn new(place: usize, runner: Box<dyn Run>, conduct: &Arc<Conduct>) -> Home {
        let watched = Arc::new(Watched { stop: runner.stopper(), conduct: Arc::clone(conduct) });
        let (socket_backlog, compute_backlog) = (Backlog::new(), Backlog::new());
        Home { place, runner: Mutex::new(runner), watched, socket_backlog, compute_backlog }
    }
}

impl<M> Model<M> {
    /// How many runs of it there may be at once.
    pub fn sessions(&self) -> usize {
        self.homes.len()
    }

    /// The wait for a fuller batch that its deployment asks for: so many rows, or so long.
    pub fn batch_wait(&self) -> Option<(usize, Duration)> {
        self.terms.batch_wait.map(|wait| (wait.rows, wait.window))
    }

    /// Where it runs instead of on lanes; none while it runs there.
    pub(crate) fn moved(&self) -> Option<&Hosted> {
        self.hosted.as_ref().filter(|_| self.service.moved())
    }

    pub fn latency(&self) -> &LatencyTable {
        &self.service.table
    }

    pub(crate) fn key(&self) -> ModelKey {
        self.key
    }

    /// The most rows of one request that run together: as many as may lie in a batch, so that who sends many gets what each
    /// would get alone.
    pub(crate) fn rows_at_once(&self) -> usize {
        if self.batching.on() { self.batching.rows_max.max(1) } else { 1 }
    }

    /// How many rows of the latency table a request amounts to, by what it says itself: its shapes are not checked yet, and
    /// rows without elements are the client's word only.
    pub(crate) fn rows_asked(&self, request: &InferRequest) -> usize {
        if let (Some(body), Some(spec)) = (&request.whole, self.signature.inputs.first()) {
            return self.scale_of(body.len() / spec.datatype.size().unwrap_or(1), 1);
        }
        let rows = request.inputs.first().map_or(1, |first| first.rows().min(first.size())).max(1);
        rows.saturating_mul(self.scale(&request.inputs, rows))
    }

    /// How many rows of the latency table a row of these inputs amounts to.
    pub(crate) fn scale(&self, inputs: &[Tensor], rows: usize) -> usize {
        if self.row_elements.is_none() {
            return 1;
        }
        self.scale_of(inputs.iter().filter_map(|input| Tensor::elements(&input.shape)).sum(), rows)
    }

    fn scale_of(&self, elements: usize, rows: usize) -> usize {
        let Some(row_elements) = self.row_elements else { return 1 };
        elements.div_ceil(row_elements.saturating_mul(rows).max(1)).max(1)
    }
}
