//! A server from start to stop: bind → lanes → load → accept, and later drain. The same for `flyballd` and for the
//! Python process.

use crate::body::BodyBudget;
use crate::build::build_info;
use crate::callers::{Callers, CallersError};
use crate::config::ConfigFault;
use crate::control::{self, Control, OnLoad, Order};
use crate::drain::{Drain, Phase};
use crate::files::{self, Reload, Watch};
use crate::journal::{self, Tellings};
use crate::lane_thread::{self, Handover, Shared};
use crate::ledger::LedgerDesk;
use crate::listen::{self, Address, Listener};
use crate::machine::{Machine, lock_memory, machine};
use crate::open_streams::OpenStreams;
use crate::seats::Seats;
use crate::settled::settled;
use crate::tls::{Tls, TlsError, TlsFiles};
use crate::trust::{self, TrustError};
use crate::unwalked::Unwalked;
use crate::{ServerConfig, acceptor, errands, memory_watch, watch};
use flyball_core::WallClock;
use flyball_core::snapshot::Bundle;
use flyball_core::{Clock, Recorder, RequestLimits};
use flyball_engine::{HostCommand, LibraryError, MemoryBudget, ModelHosts, Runtime};
use flyball_features::{FeatureSettings, Features};
use flyball_journal::{Journal, JournalError};
use flyball_plane::{
    Ack, AckState, Applied, Build, Engine, Judge, LaneInbox, Lanes, Loader, Means, Plane, PlaneLimits,
};
use flyball_telemetry::{LogLevel, ModelMeter, Telemetry, Totals, init_logs};
use flyball_wire::regions::Regions;
use std::borrow::Cow;
use std::io;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("{}", list(.0))]
    Config(Vec<ConfigFault>),
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(
        "cannot listen on {address}: {cause}; is another server running there? Choose another with --listen"
    )]
    Bind { address: String, cause: io::Error },
    #[error(
        "{address} would serve nobody: beyond this machine only known callers are served, and there are none; \
         give --callers FILE, or --allow-anonymous to serve everybody"
    )]
    Nobody { address: Address },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Callers(#[from] CallersError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error(
        "watch_snapshot is true, and the snapshot comes from no file; serve one by --snapshot, or leave it out"
    )]
    Unwatchable,
    #[error("decisions cannot be recorded: {0}")]
    Journal(#[from] JournalError),
    #[error("the setting mlock cannot be kept: {0}")]
    MemoryLock(io::Error),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

fn list(faults: &[ConfigFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// How many connections may be on their way from the acceptor to one lane.
const HANDOVERS_MAX: usize = 256;
/// How long clients of idle connections get to see `Connection: close` before those are closed under them.
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

/// The threads of a server. Dropping it ends and joins them, also when the start fails half-way.
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
            // Asked again and again: a run that was just beginning has not heard it.
            while !thread.is_finished() && !self.shared.plane.lost_a_lane() {
                self.shared.plane.stop_runs();
                std::thread::sleep(POLL);
            }
            // A lane that is lost ends when it can: nobody knows when that is.
            if thread.is_finished() || !self.shared.plane.lost_a_lane() {
                let _ = thread.join();
            }
        }
        self.shared.ledger.join();
        // No lane reads any more: what windows have not written yet is written now.
        self.shared.plane.means.features.close();
        // And nothing is decided: what was is brought to the disk, and sealed.
        self.shared.journal.iter().for_each(|journal| journal.close());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

impl Server {
    /// Returns once every deployment of the snapshot has been applied or refused; `acks` says which. Models are proven in
    /// processes that `host` starts; without one in this process, where one without an end holds everything up.
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
        let (judge, trust) = trust::open(&config, &bundle.base, &mut watches)?;
        let tls = open_tls(&config, &mut watches)?;
        let listeners = listen(&config)?;
        let addresses = listeners.iter().map(|listener| listener.address.clone()).collect();
        lock_memory_if(config.mlock)?;
        let (lanes, sockets) = lanes(&config, &machine);
        let clock = clock();
        let journal = journal::open(&config, sockets)?;
        let means = means(&config, clock.clone(), journal.clone());
        let (plane, inboxes) = Plane::new(lanes, limits(&config, engine.memory), clock, means);
        let telemetry = Telemetry::new(inboxes.len());
        let callers = open_callers(&config, &telemetry, &mut watches)?;
        let (errands, errands_in) = mpsc::channel(errands::ERRANDS_MAX);
        let (orders, orders_in) = mpsc::channel(control::ORDERS_MAX);
        let regions = config.allow_shared_memory.then(|| Arc::new(Regions::default()));
        let shared = Arc::new(Shared {
            bodies: BodyBudget::new(config.body_bytes_max),
            seats: Seats::new(config.connections_per_address_max),
            streams: OpenStreams::new(config.streams_total_max),
            open: Arc::default(),
            config,
            tls,
            callers,
            trust,
            journal,
            tellings: Tellings::default(),
            unwalked: Unwalked::default(),
            ledger: LedgerDesk::default(),
            plane,
            telemetry,
            drain: Drain::new(),
            ort_version: engine.runtime.version().to_owned(),
            machine,
            errands,
            orders,
            loader: OnceLock::new(),
            regions,
            connections: (0..sockets).map(|_| AtomicUsize::new(0)).collect(),
        });
        let running = Arc::new(Running { shared: Arc::clone(&shared), threads: Mutex::new(Vec::new()) });
        let senders = start_lanes(&running, inboxes)?;
        watch_files(&running, watches)?;
        running.add(acceptor::start(Arc::clone(&shared), listeners, senders, errands_in)?);
        let loader = start_loader(&shared, engine, judge)?;
        let (control, acks) = start_control(&running, loader, bundle, orders_in)?;
        tell_unrecorded(&shared);
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

    /// What became of each deployment at the start.
    pub fn acks(&self) -> &[Ack] {
        &self.acks
    }

    /// What serves now, what was refused and why, and what is warm: what `GET /v1/deployments` answers.
    pub fn deployments(&self) -> Arc<Applied> {
        self.shared.plane.applied.load_full()
    }

    /// Why nothing can be served, where that is so: the snapshot names deployments, and all were refused.
    pub fn nothing_served(&self) -> Option<String> {
        let refused = |ack: &&Ack| ack.state == AckState::Refused;
        if self.acks.is_empty() || !self.acks.iter().all(|ack| refused(&ack)) {
            return None;
        }
        let reason = |ack: &Ack| format!("{}: {}", ack.name, ack.reason.as_deref().unwrap_or("refused"));
        Some(self.acks.iter().map(reason).collect::<Vec<_>>().join("; "))
    }

    /// The one line that says that the server is ready, and where.
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

    /// Applies another snapshot beside live traffic, on a thread that gives way to the lanes.
    pub fn apply(&self, bundle: &Bundle) -> Vec<Ack> {
        self.control.apply(bundle)
    }

    /// Whom to ask for a model's newest snapshot when a client wants it loaded. Without one, and for models that were
    /// unloaded, it is the snapshot that was applied last. The first one stays.
    pub fn on_load(&self, on_load: OnLoad) {
        self.control.on_load(on_load);
    }

    /// Ends the server's threads without waiting for requests, also the one that drains. Dropping it does the same.
    pub fn end(&self) {
        self.running.end();
        let drainer = self.drainer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(drainer) = drainer {
            let _ = drainer.join();
        }
    }

    /// Begins to leave; returns at once. Further calls change nothing.
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

    /// Waits until the server has stopped; `false` when it still runs after `timeout`.
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

fn open_engine(
    config: &ServerConfig,
    host: Option<HostCommand>,
    machine: &Machine,
) -> Result<Engine, LibraryError> {
    let hosts = ModelHosts::new(host, config.probe_limits());
    let library = config.ort_path.clone().map_or_else(flyball_engine::beside_executable, Ok)?;
    // A model host opens the library at the same time, on another core.
    hosts.prepare(&library);
    let memory = memory_budget(config, machine);
    Ok(Engine { runtime: Runtime::open(&library)?.within(memory), hosts, memory })
}

fn start_loader(
    shared: &Shared,
    engine: Engine,
    judge: Arc<Judge>,
) -> Result<Arc<Loader<ModelMeter>>, StartError> {
    let (plane, telemetry) = (Arc::clone(&shared.plane), Arc::clone(&shared.telemetry));
    let loader = Arc::new(Loader::new(engine, plane, telemetry, judge, shared.config.previous_kept)?);
    // From here on what is revoked is taken out, whatever is being loaded.
    let _ = shared.loader.set(Arc::clone(&loader));
    Ok(loader)
}

fn lock_memory_if(wanted: bool) -> Result<(), StartError> {
    if wanted { lock_memory().map_err(StartError::MemoryLock) } else { Ok(()) }
}

/// All lanes, and how many of them have sockets.
fn lanes(config: &ServerConfig, machine: &Machine) -> (Lanes, usize) {
    let sockets = config.lanes.unwrap_or(machine.lanes);
    (Lanes { sockets, compute: config.compute_lanes.unwrap_or(sockets) }, sockets)
}

fn watch_files(running: &Running, watches: Vec<(Watch, Reload)>) -> io::Result<()> {
    if !watches.is_empty() {
        running.add(files::start(Arc::clone(&running.shared), watches)?);
    }
    Ok(())
}

fn begin_to_log(config: &ServerConfig) {
    init_logs(config.log_level().unwrap_or(LogLevel::Info));
    if !config.offline && rustix::process::geteuid().is_root() {
        tracing::warn!(
            "the server runs as root, and needs no such rights; start it as another user: User= in a systemd unit, \
             docker run --user 65532; a port below 1024 needs CAP_NET_BIND_SERVICE alone"
        );
    }
}

fn limits(config: &ServerConfig, memory: MemoryBudget) -> PlaneLimits {
    PlaneLimits {
        request: RequestLimits::for_body(config.body_bytes_max),
        in_flight_max: config.in_flight_max,
        inline_run_max: config.inline_run_max(),
        answer_bytes_max: config.answer_bytes_max,
        memory,
    }
}

/// What decisions need beside models.
fn means(config: &ServerConfig, clock: Clock, journal: Option<Arc<Journal>>) -> Means {
    // Offline, windows are read and not written: a folder would be made, locked and written to.
    let folder = config.features_folder.clone().filter(|_| !config.offline);
    let wall = WallClock::system();
    let settings = FeatureSettings { folder, clock, wall: wall.clone(), ..FeatureSettings::default() };
    let recorder = journal.map(|journal| journal as Arc<dyn Recorder>);
    let build = build_info();
    let build = Build { version: build.version, commit: build.commit };
    Means { features: Features::new(settings), wall, offline: config.offline, recorder, build }
}

/// Once, at the start: whoever needs records later should not find out then.
fn tell_unrecorded(shared: &Shared) {
    let decides = shared.plane.routes.load().deployments().any(|deployment| deployment.decision.is_some());
    if decides && shared.journal.is_none() && !shared.config.offline {
        tracing::info!("decisions are not recorded; give --journal-folder FOLDER to keep them");
    }
}

/// The system's; in builds of the tests one that a test may hold.
fn clock() -> Clock {
    #[cfg(feature = "virtual-time")]
    return crate::held_clock::clock();
    #[cfg(not(feature = "virtual-time"))]
    Clock::system()
}

/// What was set, else what the cgroup allows, else what the machine has.
fn memory_budget(config: &ServerConfig, machine: &Machine) -> MemoryBudget {
    let allowed = machine.memory_limit_bytes.unwrap_or(u64::MAX).min(machine.memory_bytes);
    let bytes_max = config.memory_bytes_max.unwrap_or(allowed);
    // Half of it: a run that takes more leaves too little for everything else.
    MemoryBudget { bytes_max, run_bytes_max: config.run_memory_bytes_max.unwrap_or(bytes_max / 2) }
}

/// One thread for each lane, and the one that looks at their memory; gives where each lane with sockets takes its connections from.
fn start_lanes(
    running: &Running,
    inboxes: Vec<LaneInbox<ModelMeter>>,
) -> io::Result<Vec<mpsc::Sender<Handover>>> {
    let shared = &running.shared;
    let (sockets, cpus) = (shared.plane.lanes.sockets, &shared.machine.cpus);
    let mut senders = Vec::with_capacity(sockets);
    running.add(memory_watch::start(Arc::clone(shared))?);
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

/// Applies the first snapshot, and starts what applies others.
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
        running.add(watch::start(Arc::clone(shared), Arc::clone(&control), index, applied)?);
    }
    Ok((control, outcome.acks))
}

/// Certificates are read before anything is bound, and looked after from before they are read.
fn open_tls(config: &ServerConfig, watches: &mut Vec<(Watch, Reload)>) -> Result<Option<Tls>, TlsError> {
    let Some(files) = TlsFiles::of(config) else { return Ok(None) };
    watches.push((Watch::new(files.paths()), |shared| shared.tls.iter().for_each(Tls::reload)));
    Tls::open(files).map(Some)
}

fn open_callers(
    config: &ServerConfig,
    telemetry: &Arc<Telemetry>,
    watches: &mut Vec<(Watch, Reload)>,
) -> Result<Option<Callers>, CallersError> {
    let Some(path) = config.callers.clone() else { return Ok(None) };
    watches.push((Watch::new(vec![path.clone()]), |shared| shared.callers.iter().for_each(Callers::reload)));
    Callers::open(path, Arc::clone(telemetry)).map(Some)
}

fn listen(config: &ServerConfig) -> Result<Vec<Listener>, StartError> {
    let bind = |address: &String| {
        let fail = |cause| StartError::Bind { address: address.clone(), cause };
        let listener = listen::bind(address, config).map_err(fail)?;
        if !listener.anonymous && config.callers.is_none() {
            return Err(StartError::Nobody { address: listener.address });
        }
        Ok(listener)
    };
    config.listen.iter().map(bind).collect()
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_core::WindowOp;
    use flyball_features::WindowDef;

    #[test]
    fn offline_no_folder_of_windows_is_opened() {
        let parent = tempfile::tempdir().expect("a temporary folder");
        for offline in [false, true] {
            let folder = parent.path().join(offline.to_string());
            let config =
                ServerConfig { features_folder: Some(folder.clone()), offline, ..ServerConfig::default() };
            let means = means(&config, Clock::system(), None);
            let def =
                WindowDef { name: "d/f".to_owned(), op: WindowOp::Count, last_ms: 60_000, source: None };
            means.features.window(def).expect("a window");
            assert_eq!(folder.exists(), !offline);
        }
    }
}
