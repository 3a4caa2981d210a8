//! The server's settings and their checks.
//!
//! `python/flyball/documents/config` has the same keys and defaults, and `docs/reference/server-config.md` is generated
//! from those; only this module checks them.

use crate::{hosts, restricted};
use flyball_core::snapshot::is_valid_name;
use flyball_engine::ProbeLimits;
use flyball_journal::KekSource;
use flyball_telemetry::{LogFormat, LogLevel};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

mod read;

pub use flyball_core::snapshot::SnapshotFault as ConfigFault;
use read::{LANES_MAX, LISTS, NUMBERS, allowed, fault};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// Addresses to listen on: `host:port` (port 0 takes a free one), `tls://host:port` or `unix:/path`.
    pub listen: Vec<String>,
    /// PEM file of the server's certificate chain; reloaded when it changes.
    pub tls_cert: Option<PathBuf>,
    pub tls_key: Option<PathBuf>,
    /// TLS clients must have a certificate of these authorities.
    pub tls_client_ca: Option<PathBuf>,
    /// The mode of `unix:` sockets, octal.
    pub unix_mode: String,
    /// The owner of `unix:` sockets: `user` or `user:group`, names or numbers. Null: the process's own.
    pub unix_owner: Option<String>,
    /// JSON file of callers, their rights and limits; reloaded when it changes.
    pub callers: Option<PathBuf>,
    /// Hosts that requests may name besides this machine's own; `*` for any. Empty: none on loopback, any elsewhere.
    pub hosts: Vec<String>,
    /// Serve anonymous callers; by default on loopback and Unix sockets only.
    pub allow_anonymous: Option<bool>,
    /// Serving threads. Null: one for each core that this process may use.
    pub lanes: Option<usize>,
    /// Threads without sockets, for slow models. Null: as many as lanes, which is the maximum.
    pub compute_lanes: Option<usize>,
    /// Runs that are expected to take longer go to a compute lane.
    pub inline_run_us_max: u64,
    /// Loads beyond this memory are refused. Null: the cgroup's limit, else the machine's memory.
    pub memory_bytes_max: Option<u64>,
    /// A run that needs more memory fails. Null: half of `memory_bytes_max`.
    pub run_memory_bytes_max: Option<u64>,
    /// Maximum CPU time to load and probe a model; four times as long in wall-clock time.
    pub probe_ms_max: u64,
    /// Maximum memory to load and probe a model. Null: the rest of `memory_bytes_max`.
    pub probe_memory_bytes_max: Option<u64>,
    /// Lock the process's memory. The server does not start without the right to do so.
    pub mlock: bool,
    pub ort_path: Option<PathBuf>,
    pub body_bytes_max: usize,
    /// A response that may be larger is refused before it is written.
    pub answer_bytes_max: usize,
    pub header_bytes_max: usize,
    pub connections_max: usize,
    /// Maximum connections of one IP address; loopback is not counted.
    pub connections_per_address_max: usize,
    /// Maximum concurrent requests on one HTTP/2 connection.
    pub streams_max: usize,
    /// Maximum concurrent requests on all HTTP/2 connections.
    pub streams_total_max: usize,
    pub in_flight_max: usize,
    pub header_timeout_ms: u64,
    pub body_timeout_ms: u64,
    pub idle_timeout_ms: u64,
    pub grace_ms: u64,
    /// PEM file of the root keys, which sign the trust policy.
    pub trust_root: Option<PathBuf>,
    /// The signed trust policy; reloaded when it changes.
    pub trust_policy: Option<PathBuf>,
    /// The folder of the anti-rollback file. Null: next to the policy.
    pub state_folder: Option<PathBuf>,
    /// This server's environment: releases and snapshots for others are refused.
    pub environment: String,
    /// Unsigned deployments: `refuse` or `allow`.
    pub unsigned: String,
    /// Replaced deployments of each name that stay loaded, for an immediate rollback.
    pub previous_kept: usize,
    /// Apply the snapshot again whenever its index changes on disk.
    pub watch_snapshot: bool,
    /// Whether clients may load and unload models.
    pub allow_model_control: bool,
    /// Whether clients may pass tensors in shared memory.
    pub allow_shared_memory: bool,
    /// The name in the server's metadata. Some clients of Triton expect "triton".
    pub server_name: String,
    /// Whether a body above the limit is answered with 400, as Triton does, instead of 413.
    pub triton_statuses: bool,
    /// Whether JSON tensors refuse NaN and Infinity.
    pub strict_json: bool,
    /// Whether the server is ready only while every model that should serve does.
    pub strict_readiness: bool,
    /// The folder in which feature windows survive restarts. Null: in memory only.
    pub features_folder: Option<PathBuf>,
    /// The folder in which decisions are recorded. Null: not recorded.
    pub journal_folder: Option<PathBuf>,
    /// Maximum fsync delay for buffered records.
    pub journal_sync_ms: u64,
    /// Recording stops while an older record is not on disk.
    pub journal_loss_ms_max: u64,
    pub journal_segment_bytes: u64,
    pub journal_segment_s: u64,
    pub journal_checkpoint_s: u64,
    /// The key that signs checkpoints. Null: in the journal's folder.
    pub journal_key: Option<PathBuf>,
    /// The source of the key that encrypts subjects' keys. Null: in the journal's folder.
    pub journal_kek: Option<String>,
    /// Rows come from files: features are not looked up or counted, and rows may contain their values.
    pub offline: bool,
    /// APIs that need a header: `API[,API…]:HEADER=VALUE`, as in Triton.
    pub restricted_apis: Vec<String>,
    /// Web pages of these origins may read responses; `*` for any.
    pub cors_origins: Vec<String>,
    /// Shorter responses are never compressed.
    pub compress_bytes_min: usize,
    pub log: String,
    /// `auto`, `json` or `text`.
    pub log_format: String,
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
            server_name: "flyball".to_owned(),
            triton_statuses: false,
            strict_json: false,
            strict_readiness: false,
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
            restricted_apis: Vec::new(),
            cors_origins: Vec::new(),
            compress_bytes_min: 1024,
            log: "info".to_owned(),
            log_format: "auto".to_owned(),
        }
    }
}

/// Whether one item of a list is valid.
type Check = fn(&str) -> bool;

impl ServerConfig {
    /// All invalid settings, not only the first.
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
        let items: [(_, _, Check); 4] = [
            ("listen", &self.listen, |address| Endpoint::parse(address).is_some()),
            ("cors_origins", &self.cors_origins, is_valid_origin),
            ("hosts", &self.hosts, hosts::is_valid),
            ("restricted_apis", &self.restricted_apis, restricted::is_valid),
        ];
        for (key, items, is_valid) in items {
            for (place, item) in items.iter().enumerate().filter(|(_, item)| !is_valid(item)) {
                let allowed = allowed(&format!("{key}[]"));
                faults.push(ConfigFault {
                    path: format!("{key}[{place}]"),
                    // What follows may be a secret.
                    is: item.split('=').next().unwrap_or_default().into(),
                    allowed,
                });
            }
        }
        let text_faults = self.tls_faults().into_iter().chain(self.text_faults());
        faults.extend(text_faults.map(|(key, is)| fault(key, is.into())));
        if self.has_too_many_compute_lanes() {
            faults.push(fault("compute_lanes", self.compute_lanes.into()));
        }
        if self.may_lose_too_little() {
            faults.push(fault("journal_loss_ms_max", self.journal_loss_ms_max.into()));
        }
        faults
    }

    /// Whether the journal may lose less than two syncs' worth; each number also has its own limits.
    fn may_lose_too_little(&self) -> bool {
        let (sync, loss) = (self.journal_sync_ms, self.journal_loss_ms_max);
        (10..=10_000).contains(&sync) && (100..2 * sync).contains(&loss)
    }

    /// Invalid texts and paths besides TLS, each with its value.
    fn text_faults(&self) -> impl Iterator<Item = (&'static str, String)> {
        let (root, policy) = (&self.trust_root, &self.trust_policy);
        let empty = |path: &Option<PathBuf>| path.as_ref().is_some_and(|path| path.as_os_str().is_empty());
        // A policy without root keys cannot be verified, and root keys without a policy have no use.
        let unpaired = root.is_some() != policy.is_some() && !empty(root);
        let owner = self.unix_owner.clone().unwrap_or_default();
        let kek = self.journal_kek.clone().unwrap_or_default();
        let wrong = [
            ("unix_mode", self.unix_mode().is_none(), self.unix_mode.clone()),
            ("unix_owner", self.unix_owner.is_some() && !is_valid_owner(&owner), owner),
            ("trust_root", empty(root), shown(root)),
            ("trust_policy", unpaired || empty(policy), shown(policy)),
            ("state_folder", empty(&self.state_folder), String::new()),
            ("environment", !is_valid_name(&self.environment), self.environment.clone()),
            ("server_name", !is_valid_name(&self.server_name), self.server_name.clone()),
            ("unsigned", !["refuse", "allow"].contains(&self.unsigned.as_str()), self.unsigned.clone()),
            ("journal_kek", self.journal_kek.is_some() && kek.parse::<KekSource>().is_err(), kek),
            ("callers", empty(&self.callers), String::new()),
            ("features_folder", empty(&self.features_folder), String::new()),
            ("journal_folder", empty(&self.journal_folder), String::new()),
            ("journal_key", empty(&self.journal_key), String::new()),
            ("log", self.log_level().is_none(), self.log.clone()),
            ("log_format", LogFormat::from_name(&self.log_format).is_none(), self.log_format.clone()),
        ];
        wrong.into_iter().filter(|(_, wrong, _)| *wrong).map(|(key, _, is)| (key, is))
    }

    pub(crate) fn allows_unsigned(&self) -> bool {
        self.unsigned == "allow"
    }

    /// A model has one session per lane, so further compute lanes would have none. Each number also has its own limits.
    fn has_too_many_compute_lanes(&self) -> bool {
        let (lanes, compute) = (self.lanes.unwrap_or(0), self.compute_lanes.unwrap_or(0));
        lanes > 0 && (lanes + 1..=LANES_MAX).contains(&compute)
    }

    /// Certificate and key belong to `tls://` addresses: one without the other is a mistake.
    fn tls_faults(&self) -> Vec<(&'static str, String)> {
        // With an invalid `listen` the intention is unknown.
        let valid = (1..=16).contains(&self.listen.len())
            && self.listen.iter().all(|address| Endpoint::parse(address).is_some());
        if !valid {
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
        wrong.map(|(key, path, _)| (key, shown(path))).collect()
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

/// All faults in one message.
pub(crate) fn list(faults: &[ConfigFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn shown(path: &Option<PathBuf>) -> String {
    path.as_ref().map_or_else(|| "null".to_owned(), |path| path.display().to_string())
}

/// The kernel's limit on a socket's path, without the terminating zero.
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
            let valid = !path.is_empty() && path.len() <= UNIX_PATH_BYTES_MAX && !path.contains('\0');
            return valid.then(|| Endpoint::Unix(Path::new(path)));
        }
        match text.strip_prefix("tls://") {
            Some(address) => is_valid_address(address).then_some(Endpoint::Tls(address)),
            None => is_valid_address(text).then_some(Endpoint::Tcp(text)),
        }
    }
}

fn is_valid_address(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let plain = !host.contains([':', '/']) && !host.contains(char::is_whitespace);
    !host.is_empty() && (bracketed || plain) && port.parse::<u16>().is_ok()
}

fn is_valid_origin(origin: &str) -> bool {
    let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    let valid =
        |host: &str| !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/');
    origin == "*" || host.is_some_and(valid)
}

fn is_valid_owner(owner: &str) -> bool {
    let valid = |name: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        !name.is_empty() && name.bytes().all(allowed)
    };
    let (user, group) = owner.split_once(':').unwrap_or((owner, owner));
    valid(user) && valid(group)
}

#[cfg(test)]
mod tests;
