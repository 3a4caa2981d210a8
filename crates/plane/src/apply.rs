//! Applying a snapshot, deployment by deployment: judge, verify, load, probe, warm, swap. What did not change is not touched;
//! what cannot be served is refused with its reason and keeps its last good state; the others go on. What was replaced stays
//! warm for a while, so that going back loads nothing.

mod ack;
mod again;
mod behind;
mod version;

use crate::admission::Gate;
use crate::candidate::{trial, tried};
use crate::chores::{Chores, in_use};
use crate::decision::{Surroundings, compile};
use crate::fingerprint::Fingerprint;
use crate::judge::{Judge, Standing, words};
use crate::loaded::Origin;
use crate::service::Conduct;
use crate::states::{Applied, DeploymentState, State};
use crate::watchdog::Watchdog;
use crate::{Decision, Deployment, Model, Plane, Routes};
use ack::{ack, log, log_applied, refused_ack};
use arc_swap::ArcSwapOption;
use behind::Behind;
use flyball_core::snapshot::{self, Bundle, Document, Index, IndexEntry};
use flyball_core::{Digest, Meters, Registered, Served};
use flyball_engine::{MemoryBudget, ModelHosts, Refusal, Runtime, Surveyor};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use ack::{Ack, AckState, Outcome, VersionAck};

/// How long a load that needs memory waits for those who still use what is dropped for it.
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

/// A deployment that may serve, and what is still to be learnt about each of its versions.
struct Brought<M> {
    deployment: Arc<Deployment<M>>,
    surveyors: Vec<Surveyor>,
    /// It serves already.
    kept: bool,
}

/// What models are loaded with.
pub struct Engine {
    pub runtime: Runtime,
    pub hosts: ModelHosts,
    pub memory: MemoryBudget,
}

/// Loads models into a plane. One loader belongs to one plane, and loads one thing at a time; what is trusted may change at
/// any time, on another thread.
pub struct Loader<M: Send + Sync + 'static> {
    engine: Engine,
    plane: Arc<Plane<M>>,
    meters: Arc<dyn Meters<M>>,
    judge: Arc<Judge>,
    /// Held while routes change, and from the verification of what is to serve until it does.
    changes: Mutex<()>,
    /// Of the last snapshot that was taken.
    asked_for: ArcSwapOption<Index>,
    /// How models behave, by their files: one that was moved stays so when it is loaded again.
    conducts: Mutex<HashMap<Digest, Arc<Conduct>>>,
    behind: Mutex<Behind<M>>,
    chores: Chores<M>,
    fingerprint: Fingerprint,
    /// The last that was recorded.
    registered: Mutex<Option<Registered>>,
    _watchdog: Watchdog,
}

impl<M: Send + Sync + 'static> Loader<M> {
    pub fn new(
        engine: Engine,
        plane: Arc<Plane<M>>,
        meters: Arc<dyn Meters<M>>,
        judge: Arc<Judge>,
        previous_kept: usize,
    ) -> std::io::Result<Loader<M>> {
        let watched = Arc::clone(&plane);
        let watchdog = Watchdog::start(move || watched.runs.look(watched.clock.now()))?;
        let fingerprint = Fingerprint::new(&engine.runtime, plane.services.build);
        let chores = Chores::start()?;
        let (behind, registered) = (Mutex::new(Behind::new(previous_kept)), Mutex::default());
        Ok(Loader {
            engine,
            plane,
            meters,
            judge,
            changes: Mutex::default(),
            asked_for: ArcSwapOption::empty(),
            conducts: Mutex::default(),
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
            self.tell(&self.hold(), None, Some(&reason));
            let acks = entries.iter().map(|entry| refused_ack(entry, &reason)).collect();
            return Outcome { acks, refused: Some(reason) };
        }
        self.judge.take(bundle);
        self.asked_for.store(Some(Arc::new(bundle.index.clone())));
        self.change(&self.hold(), |routes| entries.iter().for_each(|entry| routes.load(&entry.name)));
        let mut acks = self.remove_all_but(entries);
        // What takes no loading comes first: a rollback must not wait for another name's large model.
        let (at_hand, to_load): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| self.at_hand(entry));
        let bring = |entry: &IndexEntry| self.apply_one(bundle, entry, leaving);
        acks.extend(at_hand.into_iter().take_while(|_| !leaving()).map_while(bring));
        if !to_load.is_empty() {
            self.tell(&self.hold(), None, None);
        }
        acks.extend(to_load.into_iter().take_while(|_| !leaving()).map_while(bring));
        self.engine.hosts.rest();
        acks.iter().for_each(log);
        self.record_origin(bundle);
        self.tell(&self.hold(), Some(bundle.index.generation), None);
        Outcome { acks, refused: None }
    }

    /// Takes what a snapshot does not name out of the routes, and out of what is kept warm.
    fn remove_all_but(&self, entries: &[IndexEntry]) -> Vec<Ack> {
        let named = |name: &str| entries.iter().any(|entry| entry.name == name);
        let gone = self.change(&self.hold(), |routes| routes.retain(named));
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
                self.change(&self.hold(), |routes| routes.load(name));
                let ack = self.apply_one(bundle, entry, leaving).ok_or(NotLoaded::Leaving);
                self.engine.hosts.rest();
                ack?
            }
        };
        log(&ack);
        self.tell(&self.hold(), None, None);
        Ok(ack)
    }

    /// Takes a deployment out of the routes. What is in flight ends; its memory is given back then. `None` where it does
    /// not serve.
    pub fn unload(&self, name: &str) -> Option<Ack> {
        let gone = self.change(&self.hold(), |routes| routes.unload(name))?;
        let ack = ack(&gone, AckState::Removed);
        self.chores.reap(gone);
        self.forget(name);
        log(&ack);
        self.tell(&self.hold(), None, None);
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
    fn tell(&self, _held: &Changing<'_>, generation: Option<u64>, refused: Option<&str>) {
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

    /// Whoever changes routes holds this: the loads, one after the other, and the thread that verifies what serves anew.
    fn hold(&self) -> Changing<'_> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lanes see the routes as they were or as they are afterwards.
    fn change<T>(&self, _held: &Changing<'_>, edit: impl FnOnce(&mut Routes<M>) -> T) -> T {
        let mut routes = (**self.plane.routes.load()).clone();
        let edited = edit(&mut routes);
        self.plane.routes.store(Arc::new(routes));
        edited
    }

    /// `None` where the server began to leave before all versions were loaded.
    fn apply_one(&self, bundle: &Bundle, entry: &IndexEntry, leaving: &dyn Fn() -> bool) -> Option<Ack> {
        let generation = bundle.index.generation;
        let brought = self.bring(bundle, entry, leaving);
        // A load takes its time, and keys are revoked meanwhile. From here on nothing can be, until it serves.
        let held = self.hold();
        match brought.and_then(|brought| brought.map(|brought| self.still_trusted(brought)).transpose()) {
            Ok(None) => None,
            Ok(Some(Brought { deployment, surveyors, kept })) => {
                deployment.generation.store(generation, Ordering::Relaxed);
                self.behind().served(&deployment.name);
                if kept {
                    return Some(ack(&deployment, AckState::Kept));
                }
                let ack = ack(&deployment, AckState::Applied);
                self.record(bundle, &deployment);
                let before = self.change(&held, |routes| routes.serve(Arc::clone(&deployment)));
                drop(held);
                before.into_iter().for_each(|before| self.replace(before));
                for (surveyor, model) in surveyors.into_iter().zip(&deployment.versions) {
                    self.chores.survey(surveyor, model);
                }
                Some(ack)
            }
            Err(reason) => {
                self.change(&held, |routes| routes.refuse(&entry.name, &reason));
                self.behind().refuse(entry, generation, &reason);
                self.withdraw_revoked(&held, &entry.name, generation);
                Some(refused_ack(entry, &reason))
            }
        }
    }

    fn still_trusted(&self, brought: Brought<M>) -> Result<Brought<M>, String> {
        match self.judged(&brought.deployment) {
            Ok(()) => Ok(brought),
            Err(refused) => {
                if !brought.kept {
                    self.chores.reap(brought.deployment);
                }
                Err(words(&refused))
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
        let services = &self.plane.services;
        let around = Surroundings {
            base,
            features: &services.features,
            meters: &*self.meters,
            before,
            records: services.recorder.is_some() || services.offline,
            runtime: self.fingerprint.digest,
        };
        let compiled = compile(document, decision, versions, &around);
        compiled.map(Some).map_err(|why| format!("decision: {why}"))
    }

    /// Before the first decision: what its records name is there then.
    fn record(&self, bundle: &Bundle, deployment: &Deployment<M>) {
        let Some((recorder, decision)) =
            self.plane.services.recorder.as_ref().zip(deployment.decision.as_ref())
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
            self.plane.services.recorder.as_ref().zip(bundle.index.registry.as_ref())
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
