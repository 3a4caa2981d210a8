//! A server from start to stop: bind → lanes → load → accept, and later drain.
//!
//! The same for `flyballd` and the Python process.

use crate::address_slots::AddressSlots;
use crate::body::BodyBudget;
use crate::control::{self, Control, OnLoad, Order};
use crate::drain::{Drain, Phase};
use crate::files::{self, Reload, Watch};
use crate::journal::{self, Annotations};
use crate::lane_thread::{self, Handover};
use crate::legal::LegalJob;
use crate::listen::{self, Address};
use crate::machine::machine;
use crate::open_streams::OpenStreams;
use crate::refused_queries::RefusedQueries;
use crate::restricted::Restricted;
use crate::settled::settled;
use crate::setup::{
    StartError, begin_to_log, clock, lanes, limits, listen_all, lock_memory_if, open_callers, open_engine,
    open_tls, services,
};
use crate::shared::Shared;
use crate::trust;
use crate::{ServerConfig, acceptor, background, offload};
use flyball_core::snapshot::Bundle;
use flyball_deployments::{Ack, AckState, Applied, Engine, Loader, TrustGate};
use flyball_engine::HostCommand;
use flyball_plane::{LaneInbox, Plane};
use flyball_telemetry::{ModelMeter, Telemetry, Totals};
use flyball_wire::regions::Regions;
use std::borrow::Cow;
use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Maximum connections between the acceptor and one lane.
const HANDOVERS_MAX: usize = 256;
/// How long clients get `Connection: close` before idle connections are closed.
const LAME_DUCK: Duration = Duration::from_millis(300);
const POLL: Duration = Duration::from_millis(5);

pub struct Server {
    running: Arc<Running>,
    shared: Arc<Shared>,
    control: Arc<Control>,
    addresses: Vec<Address>,
    acks: Vec<Ack>,
    stopped: Arc<(Mutex<bool>, Condvar)>,
    drainer: Mutex<Option<JoinHandle<()>>>,
}

/// The threads of a server. Dropping it ends and joins them, even if the start fails halfway.
struct Running {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Running {
    fn add(&self, thread: JoinHandle<()>) {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
    }

    fn end(&self) {
        self.shared.drain.enter(Phase::Gone);
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // Repeatedly: a run that was just starting has not seen the request.
            while !thread.is_finished() && !self.shared.plane.lost_a_lane() {
                self.shared.plane.stop_runs();
                std::thread::sleep(POLL);
            }
            // A lost lane ends when its run ends, which may be never.
            if thread.is_finished() || !self.shared.plane.lost_a_lane() {
                let _ = thread.join();
            }
        }
        self.shared.legal.join();
        // No lane reads any more: write the unsaved windows.
        self.shared.plane.services.features.close();
        // No decisions are made any more: flush the records and seal the journal.
        self.shared.journal.iter().for_each(|journal| journal.close());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

impl Server {
    /// Starts a server; returns once every deployment has been applied or refused (see `acks`).
    ///
    /// Models are probed in child processes that `host` starts; without it in this process, where a model that never ends
    /// blocks the start.
    pub fn start(
        config: ServerConfig,
        bundle: &Bundle,
        host: Option<HostCommand>,
    ) -> Result<Server, StartError> {
        check(&config)?;
        begin_to_log(&config);
        let machine = machine();
        let engine = open_engine(&config, host, &machine)?;
        let mut watches = Vec::new();
        let (gate, trust) = trust::open(&config, &bundle.base, &mut watches)?;
        let tls = open_tls(&config, &mut watches)?;
        let listeners = listen_all(&config)?;
        let addresses = listeners.iter().map(|listener| listener.address.clone()).collect();
        lock_memory_if(config.mlock)?;
        let (lanes, sockets) = lanes(&config, &machine);
        let clock = clock();
        let journal = journal::open(&config, sockets)?;
        let services = services(&config, clock.clone(), journal.clone());
        let (plane, inboxes) = Plane::new(lanes, limits(&config, engine.memory), clock, services);
        let telemetry = Telemetry::new(inboxes.len());
        let callers = open_callers(&config, &telemetry, &mut watches)?;
        let (offload, offloaded) = mpsc::channel(offload::WAITING_MAX);
        let (orders, orders_in) = mpsc::channel(control::ORDERS_MAX);
        let regions = config.allow_shared_memory.then(|| Arc::new(Regions::default()));
        let shared = Arc::new(Shared {
            bodies: BodyBudget::new(config.body_bytes_max, config.body_timeout()),
            address_slots: AddressSlots::new(config.connections_per_address_max),
            streams: OpenStreams::new(config.streams_total_max),
            open: Arc::default(),
            restricted: Restricted::new(&config.restricted_apis),
            config,
            tls,
            callers,
            trust,
            journal,
            annotations: Annotations::default(),
            refused_queries: RefusedQueries::default(),
            legal: LegalJob::default(),
            plane,
            telemetry,
            drain: Drain::new(),
            ort_version: engine.runtime.version().to_owned(),
            machine,
            offload,
            orders,
            loader: OnceLock::new(),
            regions,
            connections: (0..sockets).map(|_| AtomicUsize::new(0)).collect(),
        });
        let running = Arc::new(Running { shared: Arc::clone(&shared), threads: Mutex::new(Vec::new()) });
        let senders = start_lanes(&running, inboxes)?;
        watch_files(&running, watches)?;
        running.add(acceptor::start(Arc::clone(&shared), listeners, senders)?);
        running.add(offload::start(Arc::clone(&shared), offloaded)?);
        let loader = start_loader(&shared, engine, gate)?;
        let (control, acks) = start_control(&running, loader, bundle, orders_in)?;
        log_unrecorded(&shared);
        shared.drain.enter(Phase::Serving);
        Ok(Server {
            shared,
            control,
            addresses,
            acks,
            running,
            stopped: Arc::new((Mutex::new(false), Condvar::new())),
            drainer: Mutex::new(None),
        })
    }

    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The result of each deployment at the start.
    pub fn acks(&self) -> &[Ack] {
        &self.acks
    }

    /// The status of all deployments, as `GET /v1/deployments` returns it.
    pub fn deployments(&self) -> Arc<Applied> {
        self.shared.applied()
    }

    /// The reason if nothing can be served: the snapshot has deployments, and all were refused.
    pub fn nothing_served(&self) -> Option<String> {
        let refused = |ack: &&Ack| ack.state == AckState::Refused;
        if self.acks.is_empty() || !self.acks.iter().all(|ack| refused(&ack)) {
            return None;
        }
        let reason = |ack: &Ack| format!("{}: {}", ack.name, ack.reason.as_deref().unwrap_or("refused"));
        Some(self.acks.iter().map(reason).collect::<Vec<_>>().join("; "))
    }

    /// The line that announces readiness and the addresses.
    pub fn ready_line(&self) -> String {
        let routes = self.shared.plane.routes.load();
        let mut models: Vec<_> = routes
            .deployments()
            .map(|deployment| format!("{}:{}", deployment.name, deployment.route))
            .collect();
        models.sort();
        let (address, also) = listen::ready_words(&self.addresses);
        let (models, lanes) = (models.join(","), self.shared.plane.lanes.sockets);
        format!("ready {address} models={models} lanes={lanes}{also}")
    }

    pub fn totals(&self) -> Totals {
        self.shared.telemetry.totals()
    }

    /// Applies another snapshot during live traffic, on a thread of low priority.
    pub fn apply(&self, bundle: &Bundle) -> Vec<Ack> {
        self.control.apply(bundle)
    }

    /// Sets the source of a model's newest snapshot when a client loads it.
    ///
    /// Without one the last applied snapshot is used. Later calls change nothing.
    pub fn on_load(&self, on_load: OnLoad) {
        self.control.on_load(on_load);
    }

    /// Ends all threads, including the one that drains, without waiting for requests. Dropping does the same.
    pub fn end(&self) {
        self.running.end();
        let drainer = self.drainer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(drainer) = drainer {
            let _ = drainer.join();
        }
    }

    /// Starts the drain and returns at once. Further calls change nothing.
    pub fn drain(&self) -> io::Result<()> {
        let mut drainer = self.drainer.lock().unwrap_or_else(PoisonError::into_inner);
        if drainer.is_some() {
            return Ok(());
        }
        let (running, stopped) = (Arc::clone(&self.running), Arc::clone(&self.stopped));
        let leave = move || {
            leave(&running);
            *stopped.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            stopped.1.notify_all();
        };
        *drainer = Some(std::thread::Builder::new().name("drain".to_owned()).spawn(leave)?);
        Ok(())
    }

    /// Waits until the server has stopped; `false` if it still runs after `timeout`.
    pub fn wait(&self, timeout: Duration) -> bool {
        let stopped = self.stopped.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = self.stopped.1.wait_timeout_while(stopped, timeout, |stopped| !*stopped);
        *wait.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn check(config: &ServerConfig) -> Result<(), StartError> {
    let faults = config.check();
    if faults.is_empty() { Ok(()) } else { Err(StartError::Config(faults)) }
}

fn start_loader(
    shared: &Shared,
    engine: Engine,
    gate: Arc<TrustGate>,
) -> Result<Arc<Loader<ModelMeter>>, StartError> {
    let (plane, telemetry) = (Arc::clone(&shared.plane), Arc::clone(&shared.telemetry));
    let loader = Arc::new(Loader::new(engine, plane, telemetry, gate, shared.config.previous_kept)?);
    // From here on revoked deployments stop serving, even during loads.
    let _ = shared.loader.set(Arc::clone(&loader));
    Ok(loader)
}

fn watch_files(running: &Running, watches: Vec<(Watch, Reload)>) -> io::Result<()> {
    if !watches.is_empty() {
        running.add(files::start(Arc::clone(&running.shared), watches)?);
    }
    Ok(())
}

/// Logged once at startup, not when a record is first missing.
fn log_unrecorded(shared: &Shared) {
    let decides = shared.plane.routes.load().deployments().any(|deployment| deployment.decision.is_some());
    if decides && shared.journal.is_none() && !shared.config.offline {
        tracing::info!("decisions are not recorded; give --journal-folder FOLDER to keep them");
    }
}

/// Starts the lanes and the memory watch; returns the senders of connections to lanes with sockets.
fn start_lanes(
    running: &Running,
    inboxes: Vec<LaneInbox<ModelMeter>>,
) -> io::Result<Vec<mpsc::Sender<Handover>>> {
    let shared = &running.shared;
    let (sockets, cpus) = (shared.plane.lanes.sockets, &shared.machine.cpus);
    let mut senders = Vec::with_capacity(sockets);
    running.add(background::watch_memory(Arc::clone(shared))?);
    for (id, inbox) in inboxes.into_iter().enumerate() {
        if !shared.plane.has_sockets(id) {
            running.add(lane_thread::start_compute(Arc::clone(shared), id, inbox)?);
            continue;
        }
        let (sender, connections) = mpsc::channel(HANDOVERS_MAX);
        let cpu = (sockets <= cpus.len()).then(|| cpus[id]);
        running.add(lane_thread::start(Arc::clone(shared), id, cpu, inbox, connections)?);
        senders.push(sender);
    }
    Ok(senders)
}

/// Applies the first snapshot, and starts the threads that apply others.
fn start_control(
    running: &Running,
    loader: Arc<Loader<ModelMeter>>,
    bundle: &Bundle,
    orders: mpsc::Receiver<Order>,
) -> Result<(Arc<Control>, Vec<Ack>), StartError> {
    let shared = &running.shared;
    let bundle = &*if shared.trust.is_some() { settled(bundle) } else { Cow::Borrowed(bundle) };
    let outcome = loader.apply(bundle, &|| shared.drain.leaving());
    let control = Control::new(Arc::clone(shared), loader, bundle.clone());
    running.add(control::start(Arc::clone(shared), Arc::clone(&control), orders)?);
    if shared.config.watch_snapshot {
        let index = bundle.file.clone().ok_or(StartError::Unwatchable)?;
        let applied = bundle.index_bytes.clone();
        let control = Arc::clone(&control);
        running.add(background::watch_snapshot(Arc::clone(shared), control, index, applied)?);
    }
    Ok((control, outcome.acks))
}

/// Drains: lame duck, closing, then the end of all threads.
fn leave(running: &Running) {
    let shared = &running.shared;
    let deadline = Instant::now() + shared.config.grace();
    let until = |limit: Instant| {
        while shared.connections() > 0 && Instant::now() < limit.min(deadline) {
            std::thread::sleep(POLL);
        }
    };
    tracing::info!(connections = shared.connections(), "draining");
    shared.drain.enter(Phase::LameDuck);
    until(Instant::now() + LAME_DUCK);
    shared.drain.enter(Phase::Closing);
    until(deadline);
    running.end();
    let Totals { received, answered, refused, failed, abandoned } = shared.telemetry.totals();
    tracing::info!(received, answered, refused, failed, abandoned, "drained");
}
