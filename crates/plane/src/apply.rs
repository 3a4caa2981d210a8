//! Applying a snapshot, deployment by deployment: verify, load, probe, warm, swap. What did not change is not touched;
//! what cannot be served is refused with its reason and keeps its last good state; the others go on.

use crate::admission::Gate;
use crate::breaker::Breaker;
use crate::chores::Chores;
use crate::decision::{Surroundings, compile};
use crate::fingerprint::Fingerprint;
use crate::loaded::{Home, Terms};
use crate::schedule::{BatchWait, ModelKey};
use crate::service::Service;
use crate::watchdog::Watchdog;
use crate::{Decision, Deployment, Model, Plane, Routes};
use flyball_core::snapshot::{self, Bundle, Document, IndexEntry};
use flyball_core::{Digest, Meters, Served};
use flyball_engine::{Artifact, Batching, LoadOptions, MemoryBudget, Runtime, Surveyor};
use serde::Serialize;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What became of one deployment of a snapshot.
#[derive(Clone, Debug, Serialize)]
pub struct Ack {
    pub name: String,
    pub digest: Digest,
    pub state: AckState,
    pub reason: Option<String>,
    pub versions: Vec<VersionAck>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AckState {
    Applied,
    Kept,
    Removed,
    Refused,
}

#[derive(Clone, Debug, Serialize)]
pub struct VersionAck {
    pub version: String,
    pub batching: Batching,
}

/// Why a deployment was neither loaded nor refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLoaded {
    /// The snapshot does not name it.
    Unknown,
    Leaving,
}

/// A deployment, and what is still to be learnt about each of its versions.
type Loaded<M> = (Arc<Deployment<M>>, Vec<Surveyor>);

/// Loads models into a plane. One loader belongs to one plane.
pub struct Loader<M: Send + Sync + 'static> {
    runtime: Runtime,
    plane: Arc<Plane<M>>,
    meters: Arc<dyn Meters<M>>,
    memory: MemoryBudget,
    chores: Chores<M>,
    fingerprint: Fingerprint,
    _watchdog: Watchdog,
}

impl<M: Send + Sync + 'static> Loader<M> {
    pub fn new(
        runtime: Runtime,
        plane: Arc<Plane<M>>,
        memory: MemoryBudget,
        meters: Arc<dyn Meters<M>>,
    ) -> std::io::Result<Loader<M>> {
        let watched = Arc::clone(&plane);
        let watchdog = Watchdog::start(move || watched.runs.look(watched.clock.now()))?;
        let fingerprint = Fingerprint::new(&runtime, plane.means.build);
        let chores = Chores::start()?;
        Ok(Loader { runtime, plane, meters, memory, chores, fingerprint, _watchdog: watchdog })
    }

    /// Applies a snapshot and says what became of each deployment. Before each version it asks whether the server is
    /// `leaving`, and then stops: what was not reached stays as it was and is not acknowledged.
    pub fn apply(&self, bundle: &Bundle, leaving: &dyn Fn() -> bool) -> Vec<Ack> {
        let entries = &bundle.index.deployments;
        self.change(|routes| entries.iter().for_each(|entry| routes.load(&entry.name)));
        let mut acks: Vec<Ack> = entries
            .iter()
            .take_while(|_| !leaving())
            .map_while(|entry| self.apply_one(bundle, entry, leaving))
            .collect();
        let named = |name: &str| entries.iter().any(|entry| entry.name == name);
        for gone in self.change(|routes| routes.retain(named)) {
            acks.push(ack(&gone, AckState::Removed));
            self.chores.reap(gone);
        }
        acks.iter().for_each(log);
        acks
    }

    /// Loads one deployment of a snapshot, and leaves all others as they are. Asks whether the server is `leaving` as
    /// `apply` does.
    pub fn load_one(
        &self,
        bundle: &Bundle,
        name: &str,
        leaving: &dyn Fn() -> bool,
    ) -> Result<Ack, NotLoaded> {
        let named = bundle.index.deployments.iter().find(|entry| entry.name == name);
        let entry = named.ok_or(NotLoaded::Unknown)?;
        self.change(|routes| routes.load(name));
        let ack = self.apply_one(bundle, entry, leaving).ok_or(NotLoaded::Leaving)?;
        log(&ack);
        Ok(ack)
    }

    /// Takes a deployment out of the routes. What is in flight ends; its memory is given back then. `None` where it does
    /// not serve.
    pub fn unload(&self, name: &str) -> Option<Ack> {
        let gone = self.change(|routes| routes.unload(name))?;
        let ack = ack(&gone, AckState::Removed);
        self.chores.reap(gone);
        log(&ack);
        Some(ack)
    }

    /// Lanes see the routes as they were or as they are afterwards. A loader is the only one that changes them.
    fn change<T>(&self, edit: impl FnOnce(&mut Routes<M>) -> T) -> T {
        let mut routes = (**self.plane.routes.load()).clone();
        let edited = edit(&mut routes);
        self.plane.routes.store(Arc::new(routes));
        edited
    }

    /// `None` where the server began to leave before all versions were loaded.
    fn apply_one(&self, bundle: &Bundle, entry: &IndexEntry, leaving: &dyn Fn() -> bool) -> Option<Ack> {
        let same = |current: &&Arc<Deployment<M>>| current.digest == entry.digest;
        if let Some(current) = self.plane.routes.load().get(&entry.name).filter(same) {
            return Some(ack(current, AckState::Kept));
        }
        match self.load(bundle, entry, leaving) {
            Ok(None) => None,
            Ok(Some((deployment, surveyors))) => {
                let ack = ack(&deployment, AckState::Applied);
                self.record(bundle, &deployment);
                let before = self.change(|routes| routes.serve(Arc::clone(&deployment)));
                before.into_iter().for_each(|before| self.chores.reap(before));
                for (surveyor, model) in surveyors.into_iter().zip(&deployment.versions) {
                    self.chores.survey(surveyor, Arc::clone(model));
                }
                Some(ack)
            }
            Err(reason) => {
                self.change(|routes| routes.refuse(&entry.name, &reason));
                Some(Ack {
                    name: entry.name.clone(),
                    digest: entry.digest,
                    state: AckState::Refused,
                    reason: Some(reason),
                    versions: Vec::new(),
                })
            }
        }
    }

    fn load(
        &self,
        bundle: &Bundle,
        entry: &IndexEntry,
        leaving: &dyn Fn() -> bool,
    ) -> Result<Option<Loaded<M>>, String> {
        let bytes = bundle.document(&entry.digest).ok_or_else(|| {
            format!("its document {} is missing or is not what its digest says", entry.digest)
        })?;
        let document = snapshot::Deployment::read(bytes).map_err(|faults| faults.to_string())?;
        if document.name != entry.name {
            return Err(format!("its document is for '{}'", document.name));
        }
        let gate = Gate::new(document.limits.in_flight_max as usize);
        let mut versions = Vec::with_capacity(document.versions.len());
        let mut surveyors = Vec::with_capacity(document.versions.len());
        for version in &document.versions {
            if leaving() {
                return Ok(None);
            }
            let (model, surveyor) = self
                .load_version(&document, version, &gate, &bundle.base)
                .map_err(|refusal| format!("version {}: {refusal}", version.version))?;
            versions.push(Arc::new(model));
            surveyors.push(surveyor);
        }
        let decision = self.compile(&document, &versions, &bundle.base)?.map(Arc::new);
        let (name, route) = (document.name, document.route.version);
        let deployment = Deployment { name, digest: entry.digest, route, versions, decision };
        Ok(Some((Arc::new(deployment), surveyors)))
    }

    fn compile(
        &self,
        document: &snapshot::Deployment,
        versions: &[Arc<Model<M>>],
        base: &Path,
    ) -> Result<Option<Decision<M>>, String> {
        let Some(decision) = &document.decision else { return Ok(None) };
        let routes = self.plane.routes.load();
        let before = routes.get(&document.name).and_then(|serving| serving.decision.as_deref());
        let means = &self.plane.means;
        let around = Surroundings {
            base,
            features: &means.features,
            meters: &*self.meters,
            before,
            records: means.recorder.is_some() || means.offline,
            runtime: self.fingerprint.digest,
        };
        let compiled = compile(document, decision, versions, &around);
        compiled.map(Some).map_err(|why| format!("decision: {why}"))
    }

    /// Before the first decision: what its records name is there then.
    fn record(&self, bundle: &Bundle, deployment: &Deployment<M>) {
        let Some((recorder, decision)) = self.plane.means.recorder.as_ref().zip(deployment.decision.as_ref())
        else {
            return;
        };
        let program = &decision.program;
        recorder.served(Served {
            decision: deployment.name.clone(),
            document: program.document_digest,
            policy: program.policy_digest,
            schema: program.schema_digest,
            deployment: bundle.document(&deployment.digest).unwrap_or_default().to_vec(),
            base: bundle.base.display().to_string(),
            runtime: self.fingerprint.json.clone(),
        });
    }

    fn load_version(
        &self,
        document: &snapshot::Deployment,
        version: &snapshot::Version,
        gate: &Arc<Gate>,
        base: &Path,
    ) -> Result<(Model<M>, Surveyor), flyball_engine::Refusal> {
        let artifact = Artifact::read(&version.artifact, base, self.memory)?;
        let lanes = self.plane.lanes.sockets;
        let options = LoadOptions {
            rows_max: document.limits.batch_rows_max as usize,
            runners: lanes.min(document.limits.concurrency_max as usize),
            memory: self.memory,
        };
        let loaded = self.runtime.load(&artifact, options)?;
        // A model with fewer sessions than lanes starts at a lane of its own choosing, so that several such models do
        // not all land on the first.
        let first = usize::from(*document.name.as_bytes().last().unwrap_or(&0)) % lanes;
        let home = |(place, runner)| Home::new((first + place) % lanes, Box::new(runner));
        let rows_max = loaded.batching.rows_max;
        let model = Model {
            key: ModelKey::next(),
            name: document.name.as_str().into(),
            version: version.version.as_str().into(),
            signature: loaded.signature,
            batching: loaded.batching,
            meter: self.meters.model(&document.name, &version.version),
            labels: labels(document),
            service: Service::new(loaded.latency, artifact.facts.loops),
            row_elements: loaded.row_elements,
            terms: terms(document, rows_max),
            gate: Arc::clone(gate),
            breaker: Breaker::default(),
            homes: loaded.runners.into_iter().enumerate().map(home).collect(),
        };
        Ok((model, loaded.surveyor))
    }
}

/// What the deployment asks for, as far as a model that may run so many rows at once can give it.
fn terms(document: &snapshot::Deployment, rows_max: usize) -> Terms {
    let ms = |ms: u32| Duration::from_millis(u64::from(ms));
    let limits = &document.limits;
    let batch_wait = document
        .batch
        .filter(|_| rows_max > 1)
        .map(|wait| BatchWait { rows: rows_max.min(wait.size as usize), window: ms(wait.window_ms) });
    Terms {
        deadline: document.slo.deadline_ms.map(ms),
        queue_wait_max: ms(limits.queue_wait_ms_max),
        run_max: ms(limits.run_ms_max),
        share: limits.share,
        batch_wait,
    }
}

fn labels(document: &snapshot::Deployment) -> HashMap<String, Arc<[String]>> {
    document.labels.iter().map(|(output, labels)| (output.clone(), labels.as_slice().into())).collect()
}

fn ack<M>(deployment: &Deployment<M>, state: AckState) -> Ack {
    let versions = deployment
        .versions
        .iter()
        .map(|model| VersionAck { version: model.version.to_string(), batching: model.batching.clone() });
    Ack {
        name: deployment.name.clone(),
        digest: deployment.digest,
        state,
        reason: None,
        versions: versions.collect(),
    }
}

/// One line for each deployment that changed, with what its callers will notice.
fn log(ack: &Ack) {
    let (deployment, digest) = (&ack.name, &ack.digest);
    match ack.state {
        AckState::Kept => tracing::debug!(deployment, %digest, "deployment kept"),
        AckState::Removed => tracing::info!(deployment, %digest, "deployment removed"),
        AckState::Refused => tracing::error!(deployment, %digest, reason = ack.reason, "deployment refused"),
        AckState::Applied => {
            for VersionAck { version, batching } in &ack.versions {
                let (batch_rows_max, batch_reason) = (batching.rows_max, batching.reason.as_deref());
                tracing::info!(deployment, %digest, version, batch_rows_max, batch_reason, "deployment applied");
            }
        }
    }
}

#[cfg(test)]
mod tests;
