//! Applies a snapshot, deployment by deployment: verify, load, probe, warm up, swap.
//!
//! Unchanged deployments are not touched. One that cannot be served is refused with its reason and keeps its last good state;
//! the others go on. Replaced deployments stay warm, so that a rollback loads nothing.

mod ack;
mod recheck;
mod version;

use crate::candidate;
use crate::fingerprint::Fingerprint;
use crate::reaper::Reaper;
use crate::states::{Applied, DeploymentState, State};
use crate::trust_gate::{TrustGate, reason};
use crate::warm_pool::WarmPool;
use ack::{ack, log, log_applied, refused_ack};
use arc_swap::{ArcSwap, ArcSwapOption};
use flyball_core::snapshot::{self, Bundle, Document, Index, IndexEntry};
use flyball_core::{Digest, Meters, Registered, Served};
use flyball_engine::{MemoryBudget, ModelHosts, Refusal, Runtime, Surveyor};
use flyball_plane::{
    Conduct, Decision, DecisionContext, Deployment, Gate, Model, Origin, Plane, Provenance, Routes, Watchdog,
    compile_decision,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use ack::{Ack, AckState, Outcome, VersionAck};

/// How long a load that needs memory waits for requests that still use a dropped deployment.
const ROOM_WAIT: Duration = Duration::from_secs(5);
const ROOM_POLL: Duration = Duration::from_millis(20);

type Changing<'l> = MutexGuard<'l, ()>;

/// Why a deployment was neither loaded nor refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotLoaded {
    /// The snapshot does not name it.
    Unknown,
    Leaving,
}

/// A deployment that is ready to serve, and the surveys that its versions still need.
struct Ready<M> {
    deployment: Arc<Deployment<M>>,
    surveyors: Vec<Surveyor>,
    /// It already serves.
    kept: bool,
}

/// The means to load models.
pub struct Engine {
    pub runtime: Runtime,
    pub hosts: ModelHosts,
    pub memory: MemoryBudget,
}

/// Loads models into a plane, one at a time. A plane has one loader. Trust may change at any time, on another thread.
pub struct Loader<M: Send + Sync + 'static> {
    engine: Engine,
    plane: Arc<Plane<M>>,
    meters: Arc<dyn Meters<M>>,
    gate: Arc<TrustGate>,
    /// Held while routes change, and from the last verification of a deployment until it serves.
    changes: Mutex<()>,
    /// The index of the last applied snapshot.
    asked_for: ArcSwapOption<Index>,
    /// The conduct of models by digest: a model that was moved to a model host stays there when it is loaded again.
    conducts: Mutex<HashMap<Digest, Arc<Conduct>>>,
    warm: Mutex<WarmPool<M>>,
    reaper: Reaper<M>,
    applied: ArcSwap<Applied>,
    /// Model versions loaded since the start.
    loads: AtomicU64,
    fingerprint: Fingerprint,
    /// The last registry event that was recorded.
    registered: Mutex<Option<Registered>>,
    _watchdog: Watchdog,
}

impl<M: Send + Sync + 'static> Loader<M> {
    pub fn new(
        engine: Engine,
        plane: Arc<Plane<M>>,
        meters: Arc<dyn Meters<M>>,
        gate: Arc<TrustGate>,
        previous_kept: usize,
    ) -> std::io::Result<Loader<M>> {
        let watchdog = plane.watch()?;
        let fingerprint = Fingerprint::new(&engine.runtime, plane.services.build);
        let reaper = Reaper::start()?;
        Ok(Loader {
            engine,
            plane,
            meters,
            gate,
            changes: Mutex::default(),
            asked_for: ArcSwapOption::empty(),
            conducts: Mutex::default(),
            warm: Mutex::new(WarmPool::new(previous_kept)),
            reaper,
            applied: ArcSwap::default(),
            loads: AtomicU64::new(0),
            fingerprint,
            registered: Mutex::default(),
            _watchdog: watchdog,
        })
    }

    /// The status of all deployments.
    pub fn applied(&self) -> Arc<Applied> {
        self.applied.load_full()
    }

    /// Model versions loaded since the start.
    pub fn loads(&self) -> u64 {
        self.loads.load(Ordering::Relaxed)
    }

    /// Applies a snapshot and acknowledges each deployment. Stops before the next version if the server is `leaving`: the
    /// remaining deployments stay as they were and are not acknowledged.
    pub fn apply(&self, bundle: &Bundle, leaving: &dyn Fn() -> bool) -> Outcome {
        let entries = &bundle.index.deployments;
        if let Err(refused) = self.gate.index(bundle) {
            let (generation, reason) = (bundle.index.generation, reason(&refused));
            tracing::error!(generation, reason, "snapshot refused");
            self.publish(&self.hold(), None, Some(&reason));
            let acks = entries.iter().map(|entry| refused_ack(entry, &reason)).collect();
            return Outcome { acks, refused: Some(reason) };
        }
        self.gate.advance(bundle);
        self.asked_for.store(Some(Arc::new(bundle.index.clone())));
        self.change(&self.hold(), |routes| entries.iter().for_each(|entry| routes.load(&entry.name)));
        let mut acks = self.remove_all_but(entries);
        let unavailable = &bundle.index.unavailable;
        self.change(&self.hold(), |routes| {
            unavailable.iter().for_each(|not| routes.refuse(&not.name, &not.reason))
        });
        // Loaded deployments come first: a rollback must not wait for another deployment's large model.
        let (loaded, to_load): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| self.is_loaded(entry));
        let bring = |entry: &IndexEntry| self.apply_one(bundle, entry, leaving);
        acks.extend(loaded.into_iter().take_while(|_| !leaving()).map_while(bring));
        if !to_load.is_empty() {
            self.publish(&self.hold(), None, None);
        }
        acks.extend(to_load.into_iter().take_while(|_| !leaving()).map_while(bring));
        self.engine.hosts.rest();
        acks.iter().for_each(log);
        self.record_origin(bundle);
        self.publish(&self.hold(), Some(bundle.index.generation), None);
        Outcome { acks, refused: None }
    }

    /// Removes deployments that a snapshot does not name from the routes and the warm pool.
    fn remove_all_but(&self, entries: &[IndexEntry]) -> Vec<Ack> {
        let named = |name: &str| entries.iter().any(|entry| entry.name == name);
        let gone = self.change(&self.hold(), |routes| routes.retain(named));
        let unnamed = self.warm().names().into_iter().filter(|name| !named(name));
        unnamed.for_each(|name| self.forget(&name));
        let removed = |gone: Arc<Deployment<M>>| {
            let ack = ack(&gone, AckState::Removed);
            self.reaper.reap(gone);
            ack
        };
        gone.into_iter().map(removed).collect()
    }

    /// Whether an entry serves already, or is kept warm.
    fn is_loaded(&self, entry: &IndexEntry) -> bool {
        let serving = self.plane.routes.load().get(&entry.name).map(|serving| serving.digest);
        serving == Some(entry.digest) || self.warm().has(entry)
    }

    /// Loads one deployment of a snapshot, without changing others. Stops if the server is `leaving`, like `apply`.
    pub fn load_one(
        &self,
        bundle: &Bundle,
        name: &str,
        leaving: &dyn Fn() -> bool,
    ) -> Result<Ack, NotLoaded> {
        let named = bundle.index.deployments.iter().find(|entry| entry.name == name);
        let entry = named.ok_or(NotLoaded::Unknown)?;
        let ack = match self.gate.index(bundle) {
            Err(refused) => refused_ack(entry, &reason(&refused)),
            Ok(()) => {
                self.change(&self.hold(), |routes| routes.load(name));
                let ack = self.apply_one(bundle, entry, leaving).ok_or(NotLoaded::Leaving);
                self.engine.hosts.rest();
                ack?
            }
        };
        log(&ack);
        self.publish(&self.hold(), None, None);
        Ok(ack)
    }

    /// Removes a deployment from the routes; `None` if it does not serve. Its memory is freed once the requests in flight have
    /// ended.
    pub fn unload(&self, name: &str) -> Option<Ack> {
        let gone = self.change(&self.hold(), |routes| routes.unload(name))?;
        let ack = ack(&gone, AckState::Removed);
        self.reaper.reap(gone);
        self.forget(name);
        log(&ack);
        self.publish(&self.hold(), None, None);
        Some(ack)
    }

    /// Keeps a replaced deployment warm. A full pool drops its oldest.
    fn replace(&self, replaced: Arc<Deployment<M>>) {
        let gone = self.warm().keep(replaced);
        gone.into_iter().for_each(|gone| self.reaper.reap(gone));
    }

    fn forget(&self, name: &str) {
        let gone = self.warm().forget(name);
        gone.into_iter().for_each(|gone| self.reaper.reap(gone));
    }

    /// Drops the warm pool; false if it was empty.
    fn make_room(&self) -> bool {
        let gone = self.warm().drain();
        if gone.is_empty() {
            return false;
        }
        tracing::info!(deployments = gone.len(), "memory is short: the warm deployments are dropped");
        // Not by the reaper: the caller needs the memory now. Waits a while for requests and surveys in flight; beyond that the
        // reaper takes over.
        let patience = Instant::now() + ROOM_WAIT;
        for deployment in gone {
            while deployment.in_use() && Instant::now() < patience {
                std::thread::sleep(ROOM_POLL);
            }
            if deployment.in_use() {
                self.reaper.reap(deployment);
            }
        }
        flyball_engine::give_back();
        true
    }

    fn warm(&self) -> MutexGuard<'_, WarmPool<M>> {
        self.warm.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the status of all deployments. A snapshot that was `refused` as a whole changes none of them.
    fn publish(&self, _held: &Changing<'_>, generation: Option<u64>, refused: Option<&str>) {
        let routes = self.plane.routes.load();
        let serving = routes.deployments().map(|deployment| DeploymentState::of(deployment, State::Applied));
        let mut deployments: Vec<_> = serving.chain(self.warm().states()).collect();
        deployments.sort_by(|one, other| (&one.name, one.state).cmp(&(&other.name, other.state)));
        let before = self.applied.load();
        let applied = Applied {
            environment: self.gate.environment().to_owned(),
            generation: generation.unwrap_or(before.generation),
            refused: refused.map(str::to_owned),
            deployments,
        };
        log_applied(&applied, generation.is_some());
        self.applied.store(Arc::new(applied));
    }

    /// Locks the routes for a change: by loads, one after the other, and by the thread that verifies serving deployments.
    fn hold(&self) -> Changing<'_> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the routes atomically.
    fn change<T>(&self, _held: &Changing<'_>, edit: impl FnOnce(&mut Routes<M>) -> T) -> T {
        let mut routes = (**self.plane.routes.load()).clone();
        let edited = edit(&mut routes);
        self.plane.routes.store(Arc::new(routes));
        edited
    }

    /// `None` if the server began to leave before all versions were loaded.
    fn apply_one(&self, bundle: &Bundle, entry: &IndexEntry, leaving: &dyn Fn() -> bool) -> Option<Ack> {
        let generation = bundle.index.generation;
        let ready = self.bring(bundle, entry, leaving);
        // Keys may be revoked during a load. Under this lock none can be, until the deployment serves.
        let held = self.hold();
        match ready.and_then(|ready| ready.map(|ready| self.still_trusted(ready)).transpose()) {
            Ok(None) => None,
            Ok(Some(Ready { deployment, surveyors, kept })) => {
                deployment.generation.store(generation, Ordering::Relaxed);
                self.warm().served(&deployment.name);
                if kept {
                    return Some(ack(&deployment, AckState::Kept));
                }
                let ack = ack(&deployment, AckState::Applied);
                self.record(bundle, &deployment);
                let before = self.change(&held, |routes| routes.serve(Arc::clone(&deployment)));
                drop(held);
                before.into_iter().for_each(|before| self.replace(before));
                for (surveyor, model) in surveyors.into_iter().zip(&deployment.versions) {
                    self.reaper.survey(surveyor, model);
                }
                Some(ack)
            }
            Err(reason) => {
                self.change(&held, |routes| routes.refuse(&entry.name, &reason));
                self.warm().refuse(entry, generation, &reason);
                self.withdraw_revoked(&held, &entry.name, generation);
                Some(refused_ack(entry, &reason))
            }
        }
    }

    fn still_trusted(&self, ready: Ready<M>) -> Result<Ready<M>, String> {
        match self.verify(&ready.deployment) {
            Ok(()) => Ok(ready),
            Err(refused) => {
                if !ready.kept {
                    self.reaper.reap(ready.deployment);
                }
                Err(reason(&refused))
            }
        }
    }

    /// Finds an entry's deployment in the routes or the warm pool, or loads it. Signatures are verified in each case, since a
    /// key may have been revoked meanwhile; files only if they are read.
    fn bring(
        &self,
        bundle: &Bundle,
        entry: &IndexEntry,
        leaving: &dyn Fn() -> bool,
    ) -> Result<Option<Ready<M>>, String> {
        let same = |current: &&Arc<Deployment<M>>| current.digest == entry.digest;
        let serving = self.plane.routes.load().get(&entry.name).filter(same).cloned();
        let loaded = |deployment, kept| Ok(Some(Ready { deployment, surveyors: Vec::new(), kept }));
        if let (Some(serving), false) = (&serving, self.gate.trusts()) {
            return loaded(Arc::clone(serving), true);
        }
        let document = document(bundle, entry)?;
        let verified = self.gate.deployment(&document, &bundle.base).map_err(|refused| reason(&refused))?;
        if let Some(serving) = serving {
            return loaded(serving, true);
        }
        if let Some(warm) = self.warm().take(entry) {
            return loaded(warm, false);
        }
        verified.check_contents(&bundle.base).map_err(|refused| reason(&refused))?;
        let provenance = verified.provenance;
        self.load(bundle, entry, document, provenance, leaving)
    }

    fn load(
        &self,
        bundle: &Bundle,
        entry: &IndexEntry,
        document: snapshot::Deployment,
        provenance: Provenance,
        leaving: &dyn Fn() -> bool,
    ) -> Result<Option<Ready<M>>, String> {
        let gate = Gate::new(document.limits.in_flight_max as usize);
        let mut versions = Vec::with_capacity(document.versions.len());
        let mut surveyors = Vec::with_capacity(document.versions.len());
        let candidates = document.candidate.iter().flat_map(|candidate| &candidate.versions);
        for version in document.versions.iter().chain(candidates) {
            if leaving() {
                return Ok(None);
            }
            let load = || self.load_version(&document, version, &gate, &bundle.base, leaving);
            let loaded = match load() {
                Err(Refusal::OutOfMemory { .. }) if self.make_room() => load(),
                Err(Refusal::Leaving) => return Ok(None),
                loaded => loaded,
            };
            let (model, surveyor) =
                loaded.map_err(|refusal| format!("version {}: {refusal}", version.version))?;
            versions.push(Arc::new(model));
            surveyors.push(surveyor);
        }
        let (trial, candidate) = (candidate::trial(&document, &versions)?, candidate::state(&document));
        let decision = self.compile(&document, &versions, &bundle.base)?.map(Arc::new);
        let deployment = Arc::new(Deployment {
            name: document.name.clone(),
            digest: entry.digest,
            route: document.route.version.clone(),
            versions,
            trial,
            candidate,
            decision,
            provenance,
            generation: AtomicU64::new(bundle.index.generation),
            origin: self.gate.trusts().then(|| Box::new(Origin { document, base: bundle.base.clone() })),
        });
        Ok(Some(Ready { deployment, surveyors, kept: false }))
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
        let services = &self.plane.services;
        let context = DecisionContext {
            base,
            features: &services.features,
            meters: &*self.meters,
            before,
            records: services.recorder.is_some() || services.offline,
            runtime: self.fingerprint.digest,
        };
        let compiled = compile_decision(document, decision, versions, &context);
        compiled.map(Some).map_err(|why| format!("decision: {why}"))
    }

    /// Records the documents of a decision before its first record refers to them.
    fn record(&self, bundle: &Bundle, deployment: &Deployment<M>) {
        let Some(recorder) = &self.plane.services.recorder else { return };
        let Some(decision) = &deployment.decision else { return };
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

    /// Records once which registry event serves from now on.
    fn record_origin(&self, bundle: &Bundle) {
        let Some(recorder) = &self.plane.services.recorder else { return };
        let Some(registry) = &bundle.index.registry else { return };
        let registered = Registered {
            sequence: registry.sequence,
            hash: registry.hash,
            generation: bundle.index.generation,
            environment: self.gate.environment().to_owned(),
        };
        let mut last = self.registered.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref() != Some(&registered) {
            recorder.registered(registered.clone());
            *last = Some(registered);
        }
    }
}

/// The document that an entry's digest names.
fn document(bundle: &Bundle, entry: &IndexEntry) -> Result<snapshot::Deployment, String> {
    let bytes = bundle
        .document(&entry.digest)
        .ok_or_else(|| format!("its document {} is missing or does not match its digest", entry.digest))?;
    let document = snapshot::Deployment::read(bytes).map_err(|faults| faults.to_string())?;
    if document.name != entry.name {
        return Err(format!("its document is for '{}'", document.name));
    }
    Ok(document)
}

#[cfg(test)]
mod tests;
