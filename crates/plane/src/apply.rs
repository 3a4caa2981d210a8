//! Applying a snapshot, deployment by deployment: judge, verify, load, probe, warm, swap. What did not change is not touched;
//! what cannot be served is refused with its reason and keeps its last good state; the others go on. What was replaced stays
//! warm for a while, so that going back loads nothing.

mod ack;
mod again;
mod behind;

use crate::admission::Gate;
use crate::breaker::Breaker;
use crate::candidate::{trial, tried};
use crate::chores::{Chores, in_use};
use crate::decision::{Surroundings, compile};
use crate::fingerprint::Fingerprint;
use crate::judge::{Judge, Standing, words};
use crate::loaded::{Home, Origin, Terms};
use crate::schedule::{BatchWait, ModelKey};
use crate::service::Service;
use crate::states::{Applied, DeploymentState, State};
use crate::watchdog::Watchdog;
use crate::{Decision, Deployment, Model, Plane, Routes};
use ack::{ack, log, log_applied, refused_ack};
use behind::Behind;
use flyball_core::snapshot::{self, Bundle, Document, IndexEntry};
use flyball_core::{Meters, Registered, Served};
use flyball_engine::{Artifact, LoadOptions, MemoryBudget, Refusal, Runtime, Surveyor};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use ack::{Ack, AckState, Outcome, VersionAck};

/// How long a load that needs memory waits for those who still use what is dropped for it.
const ROOM_WAIT: Duration = Duration::from_secs(5);
const ROOM_POLL: Duration = Duration::from_millis(20);

/// Why a deployment was neither loaded nor refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLoaded {
    /// The snapshot does not name it.
    Unknown,
    Leaving,
}

/// A deployment that may serve, and what is still to be learnt about each of its versions.
struct Brought<M> {
    deployment: Arc<Deployment<M>>,
    surveyors: Vec<Surveyor>,
    /// It serves already.
    kept: bool,
}

/// Loads models into a plane. One loader belongs to one plane.
pub struct Loader<M: Send + Sync + 'static> {
    runtime: Runtime,
    plane: Arc<Plane<M>>,
    meters: Arc<dyn Meters<M>>,
    memory: MemoryBudget,
    judge: Arc<Judge>,
    behind: Mutex<Behind<M>>,
    chores: Chores<M>,
    fingerprint: Fingerprint,
    /// The last that was recorded.
    registered: Mutex<Option<Registered>>,
    _watchdog: Watchdog,
}

impl<M: Send + Sync + 'static> Loader<M> {
    pub fn new(
        runtime: Runtime,
        plane: Arc<Plane<M>>,
        memory: MemoryBudget,
        meters: Arc<dyn Meters<M>>,
        judge: Arc<Judge>,
        previous_kept: usize,
    ) -> std::io::Result<Loader<M>> {
        let watched = Arc::clone(&plane);
        let watchdog = Watchdog::start(move || watched.runs.look(watched.clock.now()))?;
        let fingerprint = Fingerprint::new(&runtime, plane.means.build);
        let chores = Chores::start()?;
        let (behind, registered) = (Mutex::new(Behind::new(previous_kept)), Mutex::default());
        Ok(Loader {
            runtime,
            plane,
            meters,
            memory,
            judge,
            behind,
            chores,
            fingerprint,
            registered,
            _watchdog: watchdog,
        })
    }

    /// Applies a snapshot and says what became of each deployment. Before each version it asks whether the server is
    /// `leaving`, and then stops: what was not reached stays as it was and is not acknowledged.
    pub fn apply(&self, bundle: &Bundle, leaving: &dyn Fn() -> bool) -> Outcome {
        let entries = &bundle.index.deployments;
        if let Err(refused) = self.judge.index(bundle) {
            let (generation, reason) = (bundle.index.generation, words(&refused));
            tracing::error!(generation, reason, "snapshot refused");
            self.tell(None, Some(&reason));
            let acks = entries.iter().map(|entry| refused_ack(entry, &reason)).collect();
            return Outcome { acks, refused: Some(reason) };
        }
        self.judge.take(bundle);
        self.change(|routes| entries.iter().for_each(|entry| routes.load(&entry.name)));
        let mut acks = self.remove_all_but(entries);
        // What takes no loading comes first: a rollback must not wait for another name's large model.
        let (at_hand, to_load): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| self.at_hand(entry));
        let bring = |entry: &IndexEntry| self.apply_one(bundle, entry, leaving);
        acks.extend(at_hand.into_iter().take_while(|_| !leaving()).map_while(bring));
        if !to_load.is_empty() {
            self.tell(None, None);
        }
        acks.extend(to_load.into_iter().take_while(|_| !leaving()).map_while(bring));
        acks.iter().for_each(log);
        self.record_origin(bundle);
        self.tell(Some(bundle.index.generation), None);
        Outcome { acks, refused: None }
    }

    /// Takes what a snapshot does not name out of the routes, and out of what is kept warm.
    fn remove_all_but(&self, entries: &[IndexEntry]) -> Vec<Ack> {
        let named = |name: &str| entries.iter().any(|entry| entry.name == name);
        let gone = self.change(|routes| routes.retain(named));
        let unnamed = self.behind().names().into_iter().filter(|name| !named(name));
        unnamed.for_each(|name| self.forget(&name));
        let removed = |gone: Arc<Deployment<M>>| {
            let ack = ack(&gone, AckState::Removed);
            self.chores.reap(gone);
            ack
        };
        gone.into_iter().map(removed).collect()
    }

    /// Whether an entry serves already, or is kept warm.
    fn at_hand(&self, entry: &IndexEntry) -> bool {
        let serving = self.plane.routes.load().get(&entry.name).map(|serving| serving.digest);
        serving == Some(entry.digest) || self.behind().has(entry)
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
        let ack = match self.judge.index(bundle) {
            Err(refused) => refused_ack(entry, &words(&refused)),
            Ok(()) => {
                self.change(|routes| routes.load(name));
                self.apply_one(bundle, entry, leaving).ok_or(NotLoaded::Leaving)?
            }
        };
        log(&ack);
        self.tell(None, None);
        Ok(ack)
    }

    /// Takes a deployment out of the routes. What is in flight ends; its memory is given back then. `None` where it does
    /// not serve.
    pub fn unload(&self, name: &str) -> Option<Ack> {
        let gone = self.change(|routes| routes.unload(name))?;
        let ack = ack(&gone, AckState::Removed);
        self.chores.reap(gone);
        self.forget(name);
        log(&ack);
        self.tell(None, None);
        Some(ack)
    }

    /// What is replaced stays warm as long as nobody needs its place.
    fn replace(&self, replaced: Arc<Deployment<M>>) {
        let gone = self.behind().keep(replaced);
        gone.into_iter().for_each(|gone| self.chores.reap(gone));
    }

    fn forget(&self, name: &str) {
        let gone = self.behind().forget(name);
        gone.into_iter().for_each(|gone| self.chores.reap(gone));
    }

    /// Drops what is only kept warm; whether there was anything.
    fn make_room(&self) -> bool {
        let gone = self.behind().let_go();
        if gone.is_empty() {
            return false;
        }
        tracing::info!(deployments = gone.len(), "memory is short: what was kept warm is dropped");
        // Here, and not by a chore: whoever asked needs the memory now. What a request or a survey holds is waited for, for a
        // while; then it goes when they end.
        let patience = Instant::now() + ROOM_WAIT;
        for deployment in gone {
            while in_use(&deployment) && Instant::now() < patience {
                std::thread::sleep(ROOM_POLL);
            }
            if in_use(&deployment) {
                self.chores.reap(deployment);
            }
        }
        flyball_engine::give_back();
        true
    }

    fn behind(&self) -> MutexGuard<'_, Behind<M>> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes what serves, what is refused and what is warm. A snapshot that was `refused` as a whole changes none of it.
    fn tell(&self, generation: Option<u64>, refused: Option<&str>) {
        let routes = self.plane.routes.load();
        let serving = routes.deployments().map(|deployment| DeploymentState::of(deployment, State::Applied));
        let mut deployments: Vec<_> = serving.chain(self.behind().states()).collect();
        deployments.sort_by(|one, other| (&one.name, one.state).cmp(&(&other.name, other.state)));
        let before = self.plane.applied.load();
        let applied = Applied {
            environment: self.judge.environment().to_owned(),
            generation: generation.unwrap_or(before.generation),
            refused: refused.map(str::to_owned),
            deployments,
        };
        log_applied(&applied, generation.is_some());
        self.plane.applied.store(Arc::new(applied));
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
        let generation = bundle.index.generation;
        match self.bring(bundle, entry, leaving) {
            Ok(None) => None,
            Ok(Some(Brought { deployment, surveyors, kept })) => {
                deployment.generation.store(generation, Ordering::Relaxed);
                self.behind().served(&deployment.name);
                if kept {
                    return Some(ack(&deployment, AckState::Kept));
                }
                let ack = ack(&deployment, AckState::Applied);
                self.record(bundle, &deployment);
                let before = self.change(|routes| routes.serve(Arc::clone(&deployment)));
                before.into_iter().for_each(|before| self.replace(before));
                for (surveyor, model) in surveyors.into_iter().zip(&deployment.versions) {
                    self.chores.survey(surveyor, Arc::clone(model));
                }
                Some(ack)
            }
            Err(reason) => {
                self.change(|routes| routes.refuse(&entry.name, &reason));
                self.behind().refuse(entry, generation, &reason);
                self.withdraw_revoked(&entry.name, generation);
                Some(refused_ack(entry, &reason))
            }
        }
    }

    /// What an entry asks for, wherever it is to be had: in the routes, kept warm, or on the disk. Signatures are judged in
    /// each case, since a key may have been revoked meanwhile; files only where they are read.
    fn bring(
        &self,
        bundle: &Bundle,
        entry: &IndexEntry,
        leaving: &dyn Fn() -> bool,
    ) -> Result<Option<Brought<M>>, String> {
        let same = |current: &&Arc<Deployment<M>>| current.digest == entry.digest;
        let serving = self.plane.routes.load().get(&entry.name).filter(same).cloned();
        let loaded = |deployment, kept| Ok(Some(Brought { deployment, surveyors: Vec::new(), kept }));
        if let (Some(serving), false) = (&serving, self.judge.trusts()) {
            return loaded(Arc::clone(serving), true);
        }
        let document = document(bundle, entry)?;
        let judged = self.judge.deployment(&document, &bundle.base).map_err(|refused| words(&refused))?;
        if let Some(serving) = serving {
            return loaded(serving, true);
        }
        if let Some(warm) = self.behind().take(entry) {
            return loaded(warm, false);
        }
        judged.check_contents(&bundle.base).map_err(|refused| words(&refused))?;
        let standing = judged.standing;
        self.load(bundle, entry, document, standing, leaving)
    }

    fn load(
        &self,
        bundle: &Bundle,
        entry: &IndexEntry,
        document: snapshot::Deployment,
        standing: Standing,
        leaving: &dyn Fn() -> bool,
    ) -> Result<Option<Brought<M>>, String> {
        let gate = Gate::new(document.limits.in_flight_max as usize);
        let mut versions = Vec::with_capacity(document.versions.len());
        let mut surveyors = Vec::with_capacity(document.versions.len());
        let candidates = document.candidate.iter().flat_map(|candidate| &candidate.versions);
        for version in document.versions.iter().chain(candidates) {
            if leaving() {
                return Ok(None);
            }
            let load = || self.load_version(&document, version, &gate, &bundle.base);
            let loaded = match load() {
                Err(Refusal::OutOfMemory { .. }) if self.make_room() => load(),
                loaded => loaded,
            };
            let (model, surveyor) =
                loaded.map_err(|refusal| format!("version {}: {refusal}", version.version))?;
            versions.push(Arc::new(model));
            surveyors.push(surveyor);
        }
        let (trial, tried) = (trial(&document, &versions)?, tried(&document));
        let decision = self.compile(&document, &versions, &bundle.base)?.map(Arc::new);
        let deployment = Arc::new(Deployment {
            name: document.name.clone(),
            digest: entry.digest,
            route: document.route.version.clone(),
            versions,
            trial,
            tried,
            decision,
            standing,
            generation: AtomicU64::new(bundle.index.generation),
            origin: self.judge.trusts().then(|| Box::new(Origin { document, base: bundle.base.clone() })),
        });
        Ok(Some(Brought { deployment, surveyors, kept: false }))
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

    /// Which event of a registry serves from now on; not told twice.
    fn record_origin(&self, bundle: &Bundle) {
        let Some((recorder, registry)) =
            self.plane.means.recorder.as_ref().zip(bundle.index.registry.as_ref())
        else {
            return;
        };
        let registered = Registered {
            sequence: registry.sequence,
            hash: registry.hash,
            generation: bundle.index.generation,
            environment: self.judge.environment().to_owned(),
        };
        let mut last = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(&registered) {
            recorder.registered(registered.clone());
            *last = Some(registered);
        }
    }

    fn load_version(
        &self,
        document: &snapshot::Deployment,
        version: &snapshot::Version,
        gate: &Arc<Gate>,
        base: &Path,
    ) -> Result<(Model<M>, Surveyor), Refusal> {
        let artifact = Artifact::read(&version.artifact, base, self.memory)?;
        let lanes = self.plane.lanes.sockets;
        let options = LoadOptions {
            rows_max: document.limits.batch_rows_max as usize,
            runners: lanes.min(document.limits.concurrency_max as usize),
            memory: self.memory,
        };
        let loaded = self.runtime.load(&artifact, options)?;
        self.plane.loads.fetch_add(1, Ordering::Relaxed);
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

/// The document of an entry, as its digest says.
fn document(bundle: &Bundle, entry: &IndexEntry) -> Result<snapshot::Deployment, String> {
    let bytes = bundle
        .document(&entry.digest)
        .ok_or_else(|| format!("its document {} is missing or is not what its digest says", entry.digest))?;
    let document = snapshot::Deployment::read(bytes).map_err(|faults| faults.to_string())?;
    if document.name != entry.name {
        return Err(format!("its document is for '{}'", document.name));
    }
    Ok(document)
}

#[cfg(test)]
mod tests;
