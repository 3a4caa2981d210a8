//! Loaded deployments and models with their sessions, as opposed to the documents that describe them.

use crate::Decision;
use crate::admission::Gate;
use crate::backlog::Backlog;
use crate::breaker::Breaker;
use crate::client_shapes::ClientShapes;
use crate::schedule::{BatchWait, ModelKey};
use crate::service::{Conduct, Service};
use flyball_core::snapshot::Layout;
use flyball_core::{Digest, InferRequest, Tensor, snapshot};
use flyball_engine::{Batching, HostedModel, LatencyTable, LoadedModel, Run, Signature, StopRun, Surveyor};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A session as the watchdog sees it.
pub(crate) struct Watched {
    pub(crate) stop: StopRun,
    pub(crate) conduct: Arc<Conduct>,
}

/// A session of a model, in this process or in a model host.
pub(crate) struct Session {
    /// Contended only while a model moves from one of its two lanes to the other. ONNX Runtime must not run one session
    /// from two threads.
    pub(crate) runner: Mutex<Box<dyn Run>>,
    pub(crate) watched: Arc<Watched>,
}

impl Session {
    fn new(runner: Box<dyn Run>, conduct: &Arc<Conduct>) -> Session {
        let watched = Arc::new(Watched { stop: runner.stopper(), conduct: Arc::clone(conduct) });
        Session { runner: Mutex::new(runner), watched }
    }
}

/// A deployment that serves. `M` is its meter.
pub struct Deployment<M> {
    pub name: String,
    /// The digest of its document: an equal document need not be loaded again.
    pub digest: Digest,
    /// The version for callers who name none.
    pub route: String,
    /// Includes those of its candidate.
    pub versions: Vec<Arc<Model<M>>>,
    /// The candidate of a deployment without a decision; with one it is a variant of the decision.
    pub trial: Option<Trial<M>>,
    /// The candidate as status pages show it, with or without a decision.
    pub candidate: Option<CandidateState>,
    /// None if callers use the models directly.
    pub decision: Option<Arc<Decision<M>>>,
    pub provenance: Provenance,
    /// For verification by later trust policies; none if nothing is verified.
    pub origin: Option<Box<Origin>>,
    /// The generation of the last snapshot that named it.
    pub generation: AtomicU64,
}

/// A model version that answers a share of the callers who name no version.
pub struct Trial<M> {
    pub model: Arc<Model<M>>,
    /// From 0 to 1.
    pub share: f64,
}

/// A candidate: its models, and its share of the requests.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CandidateState {
    pub versions: Vec<String>,
    /// From 0 to 1.
    pub share: f64,
    /// It runs for all requests and answers none; its share has no effect.
    pub shadow: bool,
}

/// Who signed and approved a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Without a signature that this server can verify.
    Unsigned,
    Signed(Approved),
}

/// A signed version of a registry and its approvers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Approved {
    pub name: String,
    pub version: u64,
    pub approvers: Vec<String>,
}

impl Serialize for Provenance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Provenance::Unsigned => serializer.serialize_str("unsigned"),
            Provenance::Signed(approved) => approved.serialize(serializer),
        }
    }
}

/// The document that a deployment was made from.
pub struct Origin {
    pub document: snapshot::Deployment,
    pub base: PathBuf,
}

impl<M> Deployment<M> {
    pub fn version(&self, version: &str) -> Option<&Arc<Model<M>>> {
        self.versions.iter().find(|model| &*model.version == version)
    }

    /// Its requests that wait or run, of all versions.
    pub fn in_flight(&self) -> usize {
        self.versions.first().map_or(0, |model| model.gate.inside())
    }

    /// Whether anything but the caller holds it: jobs in flight hold their model, and requests their decision.
    pub fn in_use(self: &Arc<Deployment<M>>) -> bool {
        let decision = self.decision.as_ref();
        let own = |model: &Arc<Model<M>>| {
            let models = decision.map_or(&[][..], |decision| &decision.models);
            let tried = self.trial.iter().map(|trial| &trial.model);
            1 + models.iter().chain(tried).filter(|other| Arc::ptr_eq(model, other)).count()
        };
        Arc::strong_count(self) > 1
            || decision.is_some_and(|decision| Arc::strong_count(decision) > 1)
            || self.versions.iter().any(|model| Arc::strong_count(model) > own(model))
    }
}

/// A deployment's limits and deadlines for its models.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// For requests without a deadline of their own.
    pub deadline: Option<Duration>,
    pub queue_wait_max: Duration,
    pub run_max: Duration,
    pub share: u32,
    pub batch_wait: Option<BatchWait>,
}

/// One model version that serves.
pub struct Model<M> {
    /// Unique for the life of the process, unlike its address.
    pub(crate) key: ModelKey,
    pub name: Arc<str>,
    pub version: Arc<str>,
    pub signature: Arc<Signature>,
    pub batching: Batching,
    /// The names of an output's classes, by the output's name.
    pub labels: HashMap<String, Arc<[String]>>,
    /// Whether the first axis counts rows, also where they are not batched.
    pub(crate) in_rows: bool,
    /// The inputs that clients may leave out, and their elements then.
    pub(crate) defaults: Vec<Tensor>,
    /// Whether BYTES inputs may be any bytes; else they are UTF-8.
    pub(crate) moves_texts: bool,
    /// None if clients use the model's own shapes.
    pub(crate) client_shapes: Option<ClientShapes>,
    pub meter: Arc<M>,
    pub(crate) service: Service,
    /// Elements of a row in the latency table, if rows may be longer.
    pub(crate) row_elements: Option<usize>,
    pub(crate) terms: Terms,
    pub(crate) gate: Arc<Gate>,
    pub(crate) breaker: Breaker,
    pub(crate) homes: Vec<Home>,
    /// Runs it once it was moved; none if this process has no model hosts.
    pub(crate) hosted: Option<Session>,
}

/// The parts of a model besides its loaded sessions.
pub struct ModelParts<M> {
    pub name: Arc<str>,
    pub version: Arc<str>,
    /// Runs the model once one of its runs could not be stopped.
    pub hosted: Option<HostedModel>,
    pub labels: HashMap<String, Arc<[String]>>,
    /// The inputs that clients may leave out, in the model's own shapes.
    pub defaults: Vec<Tensor>,
    /// No operator reads the elements of BYTES inputs, so they may be any bytes.
    pub moves_texts: bool,
    /// False if the deployment says that the model has no batch axis.
    pub may_be_rows: bool,
    pub client_shapes: Option<ClientShapes>,
    pub meter: Arc<M>,
    pub terms: Terms,
    pub gate: Arc<Gate>,
    pub conduct: Arc<Conduct>,
}

impl<M> Model<M> {
    /// `lanes` with sockets are homes of its runners. Also returns the surveyor of its latency table.
    pub fn new(parts: ModelParts<M>, loaded: LoadedModel, lanes: usize) -> (Model<M>, Surveyor) {
        // A model with fewer sessions than lanes starts at a lane that depends on its name, so that several such models do
        // not all share the first lanes.
        let first = usize::from(*parts.name.as_bytes().last().unwrap_or(&0)) % lanes;
        let conduct = parts.conduct;
        let home = |(place, runner)| Home::new((first + place) % lanes, Box::new(runner), &conduct);
        let model = Model {
            key: ModelKey::next(),
            name: parts.name,
            version: parts.version,
            in_rows: parts.may_be_rows && loaded.signature.no_batch_axis().is_none(),
            signature: loaded.signature,
            batching: loaded.batching,
            labels: parts.labels,
            defaults: parts.defaults,
            moves_texts: parts.moves_texts,
            client_shapes: parts.client_shapes,
            meter: parts.meter,
            service: Service::new(loaded.latency, Arc::clone(&conduct)),
            row_elements: loaded.row_elements,
            terms: parts.terms,
            gate: parts.gate,
            breaker: Breaker::default(),
            homes: loaded.runners.into_iter().enumerate().map(home).collect(),
            hosted: parts.hosted.map(|model| Session::new(Box::new(model), &conduct)),
        };
        (model, loaded.surveyor)
    }
}

/// A session and the two lanes that may use it: one with sockets while the model is fast, and its compute lane.
/// On cache lines of its own: its lanes write to it with every request.
#[repr(align(128))]
pub(crate) struct Home {
    /// The number of the lane with sockets; the compute lane follows from it.
    pub(crate) place: usize,
    pub(crate) session: Session,
    pub(crate) socket_backlog: Backlog,
    pub(crate) compute_backlog: Backlog,
}

impl Home {
    pub(crate) fn new(place: usize, runner: Box<dyn Run>, conduct: &Arc<Conduct>) -> Home {
        let (socket_backlog, compute_backlog) = (Backlog::new(), Backlog::new());
        Home { place, session: Session::new(runner, conduct), socket_backlog, compute_backlog }
    }
}

impl<M> Model<M> {
    /// The inputs and outputs as clients see them.
    pub fn client_signature(&self) -> &Signature {
        self.client_shapes.as_ref().map_or(&self.signature, |shapes| &shapes.signature)
    }

    /// The model's own shapes of tensors that clients see in another one, by name.
    pub fn reshaped(&self) -> HashMap<String, Vec<i64>> {
        self.client_shapes.as_ref().map(ClientShapes::reshaped).unwrap_or_default()
    }

    /// The names of the inputs that clients may leave out.
    pub fn optional_inputs(&self) -> impl Iterator<Item = &str> {
        self.defaults.iter().map(|default| &*default.name)
    }

    /// The layouts of image inputs, by name.
    pub fn layouts(&self) -> HashMap<String, Layout> {
        self.client_shapes.as_ref().map(ClientShapes::layouts).unwrap_or_default()
    }

    /// The maximum number of concurrent runs.
    pub fn sessions(&self) -> usize {
        self.homes.len()
    }

    /// The wait for a fuller batch that its deployment sets: this many rows, or this long.
    pub fn batch_wait(&self) -> Option<(usize, Duration)> {
        self.terms.batch_wait.map(|wait| (wait.rows, wait.window))
    }

    /// The hosted session, if the model was moved to a model host.
    pub(crate) fn moved(&self) -> Option<&Session> {
        self.hosted.as_ref().filter(|_| self.service.conduct.moved())
    }

    pub fn latency(&self) -> &LatencyTable {
        &self.service.table
    }

    /// The maximum rows of one request in a run: the probed batch size, so that each row gets the result it would get alone.
    pub(crate) fn rows_at_once(&self) -> usize {
        if self.batching.on() { self.batching.rows_max.max(1) } else { 1 }
    }

    /// The request's cost in rows of the latency table, by its own claims.
    ///
    /// Its shapes are not checked yet, so rows without elements do not count.
    pub(crate) fn rows_asked(&self, request: &InferRequest) -> usize {
        if let (Some(body), Some(spec)) = (&request.whole, self.signature.inputs.first()) {
            return self.scale_of(body.len() / spec.datatype.size().unwrap_or(1), 1);
        }
        let rows = request.inputs.first().map_or(1, |first| first.rows().min(first.size())).max(1);
        rows.saturating_mul(self.scale(&request.inputs, rows))
    }

    /// The cost of a row of these inputs, in rows of the latency table.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Made;
    use serde_json::json;

    #[test]
    fn a_deployment_is_in_use_while_a_job_holds_a_model_of_it_also_where_that_is_tried() {
        let mut deployment = Made::usual().deployment("m", Digest::of(b"m"));
        let job = Arc::clone(&deployment.versions[0]);
        deployment.trial = Some(Trial { model: Arc::clone(&job), share: 0.5 });
        let deployment = Arc::new(deployment);
        assert!(deployment.in_use());
        drop(job);
        assert!(!deployment.in_use());
        let _request = Arc::clone(&deployment);
        assert!(deployment.in_use());
    }

    #[test]
    fn provenance_is_one_word_or_a_version_with_its_approvers() {
        let approved = Approved { name: "m".into(), version: 4, approvers: vec!["ada".into()] };
        let written =
            [Provenance::Unsigned, Provenance::Signed(approved)].map(|it| serde_json::to_value(it).unwrap());
        assert_eq!(written[0], json!("unsigned"));
        assert_eq!(written[1], json!({"name": "m", "version": 4, "approvers": ["ada"]}));
    }
}
