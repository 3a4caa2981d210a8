//! Creates the parts of a server from its settings: engine, limits, clocks, TLS, callers, listeners.
//!
//! Starts no thread.

use crate::ServerConfig;
use crate::build::build_info;
use crate::callers::{Callers, CallersError};
use crate::config::{ConfigFault, list};
use crate::files::{Reload, Watch};
use crate::listen::{self, Address, Listener};
use crate::machine::{Machine, lock_memory};
use crate::tls::{Tls, TlsError, TlsFiles};
use crate::trust::TrustError;
use flyball_core::{Clock, Recorder, RequestLimits, WallClock};
use flyball_deployments::Engine;
use flyball_engine::{HostCommand, LibraryError, MemoryBudget, ModelHosts, Runtime};
use flyball_features::{FeatureSettings, Features};
use flyball_journal::{Journal, JournalError};
use flyball_plane::{Build, Lanes, PlaneLimits, PlaneServices};
use flyball_telemetry::{LogFormat, LogLevel, Telemetry, init_logs};
use std::io;
use std::sync::Arc;

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
        "--listen {address} is reachable from other machines, whose callers must be known, and none is; \
         give --callers FILE, or --allow-anonymous to serve everybody"
    )]
    Nobody { address: Address },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Callers(#[from] CallersError),
    #[error(transparent)]
    Trust(#[from] TrustError),
    #[error("watch_snapshot needs a snapshot file; give --snapshot FILE, or leave watch_snapshot out")]
    Unwatchable,
    #[error("decisions cannot be recorded: {0}")]
    Journal(#[from] JournalError),
    #[error("mlock: cannot lock memory: {0}")]
    MemoryLock(io::Error),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] io::Error),
}

pub(crate) fn open_engine(
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

pub(crate) fn lock_memory_if(wanted: bool) -> Result<(), StartError> {
    if wanted { lock_memory().map_err(StartError::MemoryLock) } else { Ok(()) }
}

/// All lanes, and the number of those with sockets.
pub(crate) fn lanes(config: &ServerConfig, machine: &Machine) -> (Lanes, usize) {
    let sockets = config.lanes.unwrap_or(machine.lanes);
    (Lanes { sockets, compute: config.compute_lanes.unwrap_or(sockets) }, sockets)
}

pub(crate) fn begin_to_log(config: &ServerConfig) {
    let format = LogFormat::from_name(&config.log_format).unwrap_or(LogFormat::Json);
    init_logs(config.log_level().unwrap_or(LogLevel::INFO), format);
    if !config.offline && rustix::process::geteuid().is_root() {
        tracing::warn!(
            "the server runs as root and does not need to; start it as another user: User= in a systemd unit, \
             docker run --user 65532; a port below 1024 needs CAP_NET_BIND_SERVICE alone"
        );
    }
}

pub(crate) fn limits(config: &ServerConfig, memory: MemoryBudget) -> PlaneLimits {
    PlaneLimits {
        request: RequestLimits::for_body(config.body_bytes_max),
        in_flight_max: config.in_flight_max,
        inline_run_max: config.inline_run_max(),
        answer_bytes_max: config.answer_bytes_max,
        memory,
    }
}

/// The services that decisions need besides models.
pub(crate) fn services(config: &ServerConfig, clock: Clock, journal: Option<Arc<Journal>>) -> PlaneServices {
    // Offline windows are only read; a folder would be created, locked and written.
    let folder = config.features_folder.clone().filter(|_| !config.offline);
    let wall = WallClock::system();
    let settings = FeatureSettings { folder, clock, wall: wall.clone(), ..FeatureSettings::default() };
    let recorder = journal.map(|journal| journal as Arc<dyn Recorder>);
    let build = build_info();
    let build = Build { version: build.version, commit: build.commit };
    PlaneServices { features: Features::new(settings), wall, offline: config.offline, recorder, build }
}

/// The system's clock; in test builds one that a test may hold.
pub(crate) fn clock() -> Clock {
    #[cfg(feature = "virtual-time")]
    return crate::held_clock::clock();
    #[cfg(not(feature = "virtual-time"))]
    Clock::system()
}

/// The configured budget, else the cgroup's limit, else the machine's memory.
pub(crate) fn memory_budget(config: &ServerConfig, machine: &Machine) -> MemoryBudget {
    let allowed = machine.memory_limit_bytes.unwrap_or(u64::MAX).min(machine.memory_bytes);
    let bytes_max = config.memory_bytes_max.unwrap_or(allowed);
    // Half of it: a larger run would leave too little for everything else.
    MemoryBudget { bytes_max, run_bytes_max: config.run_memory_bytes_max.unwrap_or(bytes_max / 2) }
}

pub(crate) fn open_tls(
    config: &ServerConfig,
    watches: &mut Vec<(Watch, Reload)>,
) -> Result<Option<Tls>, TlsError> {
    let Some(files) = TlsFiles::of(config) else { return Ok(None) };
    watches.push((Watch::new(files.paths()), |shared| shared.tls.iter().for_each(Tls::reload)));
    Tls::open(files).map(Some)
}

pub(crate) fn open_callers(
    config: &ServerConfig,
    telemetry: &Arc<Telemetry>,
    watches: &mut Vec<(Watch, Reload)>,
) -> Result<Option<Callers>, CallersError> {
    let Some(path) = config.callers.clone() else { return Ok(None) };
    watches.push((Watch::new(vec![path.clone()]), |shared| shared.callers.iter().for_each(Callers::reload)));
    Callers::open(path, Arc::clone(telemetry)).map(Some)
}

pub(crate) fn listen_all(config: &ServerConfig) -> Result<Vec<Listener>, StartError> {
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
            let services = services(&config, Clock::system(), None);
            let def =
                WindowDef { name: "d/f".to_owned(), op: WindowOp::Count, last_ms: 60_000, source: None };
            services.features.window(def).expect("a window");
            assert_eq!(folder.exists(), !offline);
        }
    }
}
