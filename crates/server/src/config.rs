//! The server's settings: what was written, checked as a whole. `python/flyball/documents/config` has the same keys and
//! defaults, and `docs/reference/server-config.md` is made from those; only this checks them.

use crate::hosts;
use flyball_core::snapshot::is_valid_name;
use flyball_engine::ProbeLimits;
use flyball_journal::KekSource;
use flyball_telemetry::LogLevel;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

mod read;

pub use flyball_core::snapshot::SnapshotFault as ConfigFault;
use read::{LANES_MAX, LISTS, NUMBERS, allowed, fault};

/// A key, what it is, and what it may be.
type Told = (&'static str, String, String);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// Addresses to listen on: `host:port` (port 0 takes a free one), `tls://host:port` or `unix:/path`.
    pub listen: Vec<String>,
    /// The server's certificate and those between it and its authority, PEM; read again when the file changes.
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// Whoever connects by TLS must show a certificate of these authorities.
    pub tls_client_ca: Option<PathBuf>,
    /// Of the sockets that `unix:` addresses make, octal.
    pub unix_mode: String,
    /// `user` or `user:group`, names or numbers; none given leaves them as they come.
    pub unix_owner: Option<String>,
    /// Who may call, and how much: a JSON file that is read again when it changes.
    pub callers: Option<PathBuf>,
    /// Hosts that requests may name beside this machine's own; `*` for any. None given: on loopback no others, elsewhere any.
    pub hosts: Vec<String>,
    /// Serve anonymous callers; by default on loopback and Unix sockets only.
    pub allow_anonymous: Option<bool>,
    /// One lane is one thread that serves; none given means one for each core that this process may use.
    pub lanes: Option<usize>,
    /// Threads without sockets, for slow models; none given means as many as lanes, and never more than that.
    pub compute_lanes: Option<usize>,
    /// A run that is expected to take longer is left to a thread without sockets.
    pub inline_run_us_max: u64,
    /// A load that would take the process beyond this is refused; none given means the cgroup's limit, else the
    /// machine's memory.
    pub memory_bytes_max: Option<u64>,
    /// A run that would take more fails alone; none given means half of the above.
    pub run_memory_bytes_max: Option<u64>,
    /// CPU time in which a model must be loaded and probed before it serves; four times as long on the clock.
    pub probe_ms_max: u64,
    /// Memory that loading and probing a model may take; none given means what `memory_bytes_max` leaves.
    pub probe_memory_bytes_max: Option<u64>,
    /// Keep the process's memory from being swapped out; without the right to it the server does not start.
    pub mlock: bool,
    pub ort_path: Option<PathBuf>,
    pub body_bytes_max: usize,
    /// An answer that may take more is refused before it is written.
    pub answer_bytes_max: usize,
    pub header_bytes_max: usize,
    pub connections_max: usize,
    /// Of one peer's address; Unix sockets have none, and loopback is not counted.
    pub connections_per_address_max: usize,
    /// Requests at once on one HTTP/2 connection.
    pub streams_max: usize,
    /// Requests at once on all HTTP/2 connections.
    pub streams_total_max: usize,
    pub in_flight_max: usize,
    pub header_timeout_ms: u64,
    pub body_timeout_ms: u64,
    pub idle_timeout_ms: u64,
    pub grace_ms: u64,
    /// PEM file of the root keys, which sign the trust policy.
    pub trust_root: Option<PathBuf>,
    /// The trust policy that one of them signed; read again when the file changes.
    pub trust_policy: Option<PathBuf>,
    /// The folder of the anti-rollback file; by default next to the policy.
    pub state_folder: Option<PathBuf>,
    /// What this server is for: releases and snapshots for others are refused.
    pub environment: String,
    /// Unsigned deployments: `refuse` or `allow`.
    pub unsigned: String,
    /// Deployments of each name that stay loaded after they were replaced, to go back to at once.
    pub previous_kept: usize,
    /// Apply the snapshot again whenever its index changes on disk.
    pub watch_snapshot: bool,
    /// Whether clients may load and unload models.
    pub allow_model_control: bool,
    /// Whether clients may have tensors read from and written to shared memory of this machine.
    pub allow_shared_memory: bool,
    /// Where the windows of features are kept over restarts; none given: in memory alone.
    pub features_folder: Option<PathBuf>,
    /// Where decisions are recorded; none given: nowhere.
    pub journal_folder: Option<PathBuf>,
    /// Maximum fsync delay for buffered records.
    pub journal_sync_ms: u64,
    /// Nothing more is recorded while something older than this is not on the disk.
    pub journal_loss_ms_max: u64,
    pub journal_segment_bytes: u64,
    pub journal_segment_s: u64,
    pub journal_checkpoint_s: u64,
    /// Of the key that signs checkpoints; none given: the folder's own.
    pub journal_key: Option<PathBuf>,
    /// The place of the key that subjects' keys are encrypted under; none given: the folder's own.
    pub journal_kek: Option<String>,
    /// Rows come from files: nothing is looked up or counted, and rows may bring the values of features along.
    pub offline: bool,
    /// Web pages of these origins may read answers; `*` for any.
    pub cors_origins: Vec<String>,
    /// Shorter answers are never compressed.
    pub compress_bytes_min: usize,
    pub log: String,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            listen: vec!["127.0.0.1:8080".to_owned()],
            tls_cert: None,
            tls_key: None,
            tls_client_ca: None,
            unix_mode: "0600".to_owned(),
            unix_owner: None,
            callers: None,
            hosts: Vec::new(),
            allow_anonymous: None,
            lanes: None,
            compute_lanes: None,
            inline_run_us_max: 1000,
            memory_bytes_max: None,
            run_memory_bytes_max: None,
            probe_ms_max: 30_000,
            probe_memory_bytes_max: None,
            mlock: false,
            ort_path: None,
            body_bytes_max: 64 << 20,
            answer_bytes_max: 256 << 20,
            header_bytes_max: 64 << 10,
            connections_max: 4096,
            connections_per_address_max: 1024,
            streams_max: 1024,
            streams_total_max: 4096,
            in_flight_max: 4096,
            header_timeout_ms: 10_000,
            body_timeout_ms: 10_000,
            idle_timeout_ms: 120_000,
            grace_ms: 30_000,
            trust_root: None,
            trust_policy: None,
            state_folder: None,
            environment: "production".to_owned(),
            unsigned: "refuse".to_owned(),
            previous_kept: 1,
            watch_snapshot: false,
            allow_model_control: false,
            allow_shared_memory: false,
            features_folder: None,
            journal_folder: None,
            journal_sync_ms: 200,
            journal_loss_ms_max: 2000,
            journal_segment_bytes: 64 << 20,
            journal_segment_s: 3600,
            journal_checkpoint_s: 60,
            journal_key: None,
            journal_kek: None,
            offline: false,
            cors_origins: Vec::new(),
            compress_bytes_min: 1024,
            log: "info".to_owned(),
        }
    }
}

impl ServerConfig {
    /// Every setting that is out of bounds, never just the first.
    pub fn check(&self) -> Vec<ConfigFault> {
        let mut faults = Vec::new();
        let written = serde_json::to_value(self).unwrap_or_default();
        for (key, range) in NUMBERS {
            if written[key].as_u64().is_some_and(|is| !range.contains(&is)) {
                faults.push(fault(key, written[key].clone()));
            }
        }
        for (key, count) in LISTS {
            if !count.contains(&written[key].as_array().map_or(0, Vec::len)) {
                faults.push(fault(key, written[key].clone()));
            }
        }
        let mut refuse = |path: String, is: &str, allowed: &str| {
            faults.push(ConfigFault { path, is: is.into(), allowed: allowed.to_owned() });
        };
        for (place, address) in self.listen.iter().enumerate() {
            if Endpoint::parse(address).is_none() {
                refuse(format!("listen[{place}]"), address, &allowed("listen[]"));
            }
        }
        for (place, origin) in
            self.cors_origins.iter().enumerate().filter(|(_, origin)| !sound_origin(origin))
        {
            refuse(format!("cors_origins[{place}]"), origin, &allowed("cors_origins[]"));
        }
        for (place, host) in self.hosts.iter().enumerate().filter(|(_, host)| !hosts::sound(host)) {
            refuse(format!("hosts[{place}]"), host, &allowed("hosts[]"));
        }
        for (path, is) in self.tls_faults() {
            refuse(path.to_owned(), &is, &allowed(path));
        }
        let together = [self.unix_faults(), self.trust_faults(), self.kek_faults()];
        for (path, is, allowed) in together.into_iter().flatten() {
            refuse(path.to_owned(), &is, &allowed);
        }
        for key in self.empty_paths() {
            refuse(key.to_owned(), "", &allowed(key));
        }
        if self.log_level().is_none() {
            refuse("log".to_owned(), &self.log, &allowed("log"));
        }
        if self.has_too_many_compute_lanes() {
            faults.push(fault("compute_lanes", self.compute_lanes.into()));
        }
        if self.may_lose_too_little() {
            faults.push(fault("journal_loss_ms_max", self.journal_loss_ms_max.into()));
        }
        faults
    }

    /// Paths that were given, and name nothing.
    fn empty_paths(&self) -> impl Iterator<Item = &'static str> {
        let paths = [
            ("callers", &self.callers),
            ("features_folder", &self.features_folder),
            ("journal_folder", &self.journal_folder),
            ("journal_key", &self.journal_key),
        ];
        let empty = |path: &PathBuf| path.as_os_str().is_empty();
        paths.into_iter().filter(move |(_, path)| path.as_ref().is_some_and(empty)).map(|(key, _)| key)
    }

    /// Whether the journal may lose less than two syncs' worth; each number alone has its own limits.
    fn may_lose_too_little(&self) -> bool {
        let (sync, loss) = (self.journal_sync_ms, self.journal_loss_ms_max);
        (10..=10_000).contains(&sync) && (100..2 * sync).contains(&loss)
    }

    fn kek_faults(&self) -> Vec<Told> {
        let wrong = self.journal_kek.as_ref().filter(|place| place.parse::<KekSource>().is_err());
        wrong.map(|place| ("journal_kek", place.clone(), allowed("journal_kek"))).into_iter().collect()
    }

    fn unix_faults(&self) -> Vec<Told> {
        let mut faults = Vec::new();
        if self.unix_mode().is_none() {
            faults.push(("unix_mode", self.unix_mode.clone(), allowed("unix_mode")));
        }
        if let Some(owner) = self.unix_owner.as_ref().filter(|owner| !sound_owner(owner)) {
            faults.push(("unix_owner", owner.clone(), allowed("unix_owner")));
        }
        faults
    }

    /// A policy without the keys that may sign it says nothing, nor do those without one.
    fn trust_faults(&self) -> Vec<Told> {
        let (root, policy) = (&self.trust_root, &self.trust_policy);
        let empty = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path.as_os_str().is_empty());
        let shown = |path: &Option<PathBuf>| match path {
            Some(path) => path.display().to_string(),
            None => "null".to_owned(),
        };
        let unpaired = root.is_some() != policy.is_some() && !empty(root);
        let unsigned = ["refuse", "allow"].contains(&self.unsigned.as_str());
        let wrong = [
            ("trust_root", empty(root), shown(root)),
            ("trust_policy", unpaired || empty(policy), shown(policy)),
            ("state_folder", empty(&self.state_folder), shown(&self.state_folder)),
            ("environment", !is_valid_name(&self.environment), self.environment.clone()),
            ("unsigned", !unsigned, self.unsigned.clone()),
        ];
        let wrong = wrong.into_iter().filter(|(_, wrong, _)| *wrong);
        wrong.map(|(key, _, is)| (key, is, allowed(key))).collect()
    }

    pub(crate) fn allows_unsigned(&self) -> bool {
        self.unsigned == "allow"
    }

    /// A model has one session for each lane, so a further thread would have none to run. Each number alone is told by its
    /// own bound.
    fn has_too_many_compute_lanes(&self) -> bool {
        let (lanes, compute) = (self.lanes.unwrap_or(0), self.compute_lanes.unwrap_or(0));
        lanes > 0 && (lanes + 1..=LANES_MAX).contains(&compute)
    }

    /// Certificate and key belong to `tls://` addresses: one without the other would serve what nobody meant.
    fn tls_faults(&self) -> Vec<(&'static str, String)> {
        // Where `listen` itself is refused, nobody knows what was meant.
        let sound = (1..=16).contains(&self.listen.len())
            && self.listen.iter().all(|address| Endpoint::parse(address).is_some());
        if !sound {
            return Vec::new();
        }
        let tls = self.listen.iter().any(|address| address.starts_with("tls://"));
        let files = [
            ("tls_cert", &self.tls_cert, tls),
            ("tls_key", &self.tls_key, tls),
            ("tls_client_ca", &self.tls_client_ca, false),
        ];
        let wrong = files.into_iter().filter(|(_, path, needed)| match path {
            Some(path) => !tls || path.as_os_str().is_empty(),
            None => *needed,
        });
        wrong
            .map(|(key, path, _)| {
                let is = path.as_ref().map_or_else(|| "null".to_owned(), |path| path.display().to_string());
                (key, is)
            })
            .collect()
    }

    pub(crate) fn unix_mode(&self) -> Option<u32> {
        let digits =
            self.unix_mode.strip_prefix('0').filter(|rest| rest.len() == 3).unwrap_or(&self.unix_mode);
        let octal = digits.len() == 3 && digits.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
        octal.then(|| u32::from_str_radix(digits, 8).ok())?
    }

    pub fn log_level(&self) -> Option<LogLevel> {
        match self.log.as_str() {
            "error" => Some(LogLevel::ERROR),
            "warn" => Some(LogLevel::WARN),
            "info" => Some(LogLevel::INFO),
            "debug" => Some(LogLevel::DEBUG),
            _ => None,
        }
    }

    pub(crate) fn inline_run_max(&self) -> Duration {
        Duration::from_micros(self.inline_run_us_max)
    }

    pub(crate) fn probe_limits(&self) -> ProbeLimits {
        ProbeLimits {
            cpu_max: Duration::from_millis(self.probe_ms_max),
            memory_bytes_max: self.probe_memory_bytes_max,
        }
    }

    pub(crate) fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    pub(crate) fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}

/// The kernel's limit on the path of a socket, less its closing zero.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// One parsed entry of `listen`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Endpoint<'a> {
    Tcp(&'a str),
    Tls(&'a str),
    Unix(&'a Path),
}

impl Endpoint<'_> {
    pub(crate) fn parse(text: &str) -> Option<Endpoint<'_>> {
        if let Some(path) = text.strip_prefix("unix:") {
            let sound = !path.is_empty() && path.len() <= UNIX_PATH_BYTES_MAX && !path.contains('\0');
            return sound.then(|| Endpoint::Unix(Path::new(path)));
        }
        match text.strip_prefix("tls://") {
            Some(address) => sound_address(address).then_some(Endpoint::Tls(address)),
            None => sound_address(text).then_some(Endpoint::Tcp(text)),
        }
    }
}

fn sound_address(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let plain = !host.contains([':', '/']) && !host.contains(char::is_whitespace);
    !host.is_empty() && (bracketed || plain) && port.parse::<u16>().is_ok()
}

fn sound_origin(origin: &str) -> bool {
    let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    let sound =
        |host: &str| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    origin == "*" || host.is_some_and(sound)
}

fn sound_owner(owner: &str) -> bool {
    let sound = |name: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        !name.is_empty() && name.bytes().all(allowed)
    };
    let (user, group) = owner.split_once(':').unwrap_or((owner, owner));
    sound(user) && sound(group)
}

#[cfg(test)]
mod tests;
