//! The server's settings: what was written, checked as a whole. `python/flyball/config` has the same keys, defaults
//! and limits, and `docs/reference/server-config.md` is made from those.

use flyball_journal::KekPlace;
use flyball_telemetry::LogLevel;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A smaller budget is a slip of the unit: ONNX Runtime and one small model want more.
const MEMORY_BYTES_LEAST: u64 = 64 << 20;
const LANES_MAX: usize = 256;

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
    /// Serve those who are no known callers; none given means on loopback and Unix sockets only.
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
    /// Keep the process's memory from being swapped out; without the right to it the server does not start.
    pub mlock: bool,
    pub ort_path: Option<PathBuf>,
    pub body_bytes_max: usize,
    pub header_bytes_max: usize,
    pub connections_max: usize,
    /// Of one peer's address; Unix sockets have none, and loopback is not counted.
    pub connections_per_address_max: usize,
    /// Requests at once on one HTTP/2 connection.
    pub streams_max: usize,
    pub in_flight_max: usize,
    pub header_timeout_ms: u64,
    pub body_timeout_ms: u64,
    pub idle_timeout_ms: u64,
    pub grace_ms: u64,
    /// Whether clients may load and unload models.
    pub allow_model_control: bool,
    /// Whether clients may have tensors read from and written to shared memory of this machine.
    pub allow_shared_memory: bool,
    /// Where the windows of features are kept over restarts; none given: in memory alone.
    pub features_folder: Option<PathBuf>,
    /// Where decisions are recorded; none given: nowhere.
    pub journal_folder: Option<PathBuf>,
    /// What nobody waits for is on the disk after so long.
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
            allow_anonymous: None,
            lanes: None,
            compute_lanes: None,
            inline_run_us_max: 1000,
            memory_bytes_max: None,
            mlock: false,
            ort_path: None,
            body_bytes_max: 64 << 20,
            header_bytes_max: 64 << 10,
            connections_max: 4096,
            connections_per_address_max: 1024,
            streams_max: 1024,
            in_flight_max: 4096,
            header_timeout_ms: 10_000,
            body_timeout_ms: 10_000,
            idle_timeout_ms: 120_000,
            grace_ms: 30_000,
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

/// One setting that is out of bounds, and what it may be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConfigFault {
    pub path: String,
    pub is: String,
    pub allowed: String,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}; allowed: {}", self.path, self.is, self.allowed)
    }
}

impl ServerConfig {
    /// Every setting that is out of bounds, never just the first.
    pub fn check(&self) -> Vec<ConfigFault> {
        let mut faults = Vec::new();
        let mut bound = |path: &str, is: u64, range: RangeInclusive<u64>| {
            if !range.contains(&is) {
                let allowed = format!("{} to {}", range.start(), range.end());
                faults.push(ConfigFault { path: path.to_owned(), is: is.to_string(), allowed });
            }
        };
        bound("listen", self.listen.len() as u64, 1..=16);
        bound("lanes", self.lanes.unwrap_or(1) as u64, 1..=LANES_MAX as u64);
        bound("compute_lanes", self.compute_lanes.unwrap_or(1) as u64, 1..=LANES_MAX as u64);
        bound("inline_run_us_max", self.inline_run_us_max, 50..=100_000);
        bound(
            "memory_bytes_max",
            self.memory_bytes_max.unwrap_or(MEMORY_BYTES_LEAST),
            MEMORY_BYTES_LEAST..=(1 << 53) - 1,
        );
        bound("body_bytes_max", self.body_bytes_max as u64, 1 << 10..=(1 << 31) - 1);
        bound("header_bytes_max", self.header_bytes_max as u64, 8 << 10..=1 << 20);
        bound("connections_max", self.connections_max as u64, 1..=1_000_000);
        bound("connections_per_address_max", self.connections_per_address_max as u64, 1..=1_000_000);
        bound("streams_max", self.streams_max as u64, 1..=100_000);
        bound("in_flight_max", self.in_flight_max as u64, 1..=1_000_000);
        bound("header_timeout_ms", self.header_timeout_ms, 10..=3_600_000);
        bound("body_timeout_ms", self.body_timeout_ms, 10..=3_600_000);
        bound("idle_timeout_ms", self.idle_timeout_ms, 10..=3_600_000);
        bound("grace_ms", self.grace_ms, 0..=3_600_000);
        self.journal_bounds().into_iter().for_each(|(path, is, range)| bound(path, is, range));
        bound("cors_origins", self.cors_origins.len() as u64, 0..=64);
        bound("compress_bytes_min", self.compress_bytes_min as u64, 0..=(1 << 31) - 1);
        let mut refuse = |path: String, is: &str, allowed: &str| {
            faults.push(ConfigFault { path, is: is.to_owned(), allowed: allowed.to_owned() });
        };
        if let Some((is, allowed)) = self.too_many_compute_lanes() {
            refuse("compute_lanes".to_owned(), &is, &allowed);
        }
        for (place, address) in self.listen.iter().enumerate() {
            if Endpoint::parse(address).is_none() {
                refuse(format!("listen[{place}]"), address, ADDRESSES);
            }
        }
        for (place, origin) in
            self.cors_origins.iter().enumerate().filter(|(_, origin)| !sound_origin(origin))
        {
            refuse(format!("cors_origins[{place}]"), origin, "* or http[s]://host[:port]");
        }
        for (path, allowed, is) in self.tls_faults() {
            refuse(path.to_owned(), &is, allowed);
        }
        if self.unix_mode().is_none() {
            refuse(
                "unix_mode".to_owned(),
                &self.unix_mode,
                "three octal digits, with or without a leading 0",
            );
        }
        if let Some(owner) = self.unix_owner.as_deref().filter(|owner| !sound_owner(owner)) {
            refuse("unix_owner".to_owned(), owner, "user or user:group, names or numbers");
        }
        for (path, is, allowed) in self.journal_faults() {
            refuse(path.to_owned(), &is, &allowed);
        }
        for (path, allowed) in self.empty_paths() {
            refuse(path.to_owned(), "", allowed);
        }
        if self.log_level().is_none() {
            refuse("log".to_owned(), &self.log, "error, warn, info or debug");
        }
        faults
    }

    fn journal_bounds(&self) -> [(&'static str, u64, RangeInclusive<u64>); 5] {
        [
            ("journal_sync_ms", self.journal_sync_ms, 10..=10_000),
            ("journal_loss_ms_max", self.journal_loss_ms_max, 100..=60_000),
            ("journal_segment_bytes", self.journal_segment_bytes, 1 << 20..=4 << 30),
            ("journal_segment_s", self.journal_segment_s, 1..=604_800),
            ("journal_checkpoint_s", self.journal_checkpoint_s, 1..=3600),
        ]
    }

    /// Paths that were given, and name nothing.
    fn empty_paths(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let paths = [
            ("callers", "the path of a file", &self.callers),
            ("features_folder", "the path of a folder", &self.features_folder),
            ("journal_folder", "the path of a folder", &self.journal_folder),
            ("journal_key", "the path of a file", &self.journal_key),
        ];
        let empty = |path: &PathBuf| path.as_os_str().is_empty();
        let named = paths.into_iter().filter(move |(_, _, path)| path.as_ref().is_some_and(empty));
        named.map(|(key, allowed, _)| (key, allowed))
    }

    /// What a journal's settings say together; each number alone is told by its own bound.
    fn journal_faults(&self) -> Vec<(&'static str, String, String)> {
        let mut faults = Vec::new();
        let (sync, loss) = (self.journal_sync_ms, self.journal_loss_ms_max);
        if (10..=10_000).contains(&sync) && (100..2 * sync).contains(&loss) {
            let allowed = format!("{} to 60000, twice journal_sync_ms or more", 2 * sync);
            faults.push(("journal_loss_ms_max", loss.to_string(), allowed));
        }
        if let Some(place) = self.journal_kek.as_ref().filter(|place| place.parse::<KekPlace>().is_err()) {
            let allowed = "file:PATH, env:NAME or command:PROGRAM ARGUMENT…".to_owned();
            faults.push(("journal_kek", place.clone(), allowed));
        }
        faults
    }

    /// A model has one session for each lane, so a further thread would have none to run. Each number alone is told by its
    /// own bound.
    fn too_many_compute_lanes(&self) -> Option<(String, String)> {
        let lanes = self.lanes.filter(|lanes| *lanes > 0)?;
        let compute = self.compute_lanes.filter(|compute| (lanes + 1..=LANES_MAX).contains(compute))?;
        Some((compute.to_string(), format!("1 to {lanes}, no more than lanes")))
    }

    /// Certificate and key belong to `tls://` addresses: one without the other would serve what nobody meant.
    fn tls_faults(&self) -> Vec<(&'static str, &'static str, String)> {
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
                (key, "a path where listen has a tls:// address, else null", is)
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
            "error" => Some(LogLevel::Error),
            "warn" => Some(LogLevel::Warn),
            "info" => Some(LogLevel::Info),
            "debug" => Some(LogLevel::Debug),
            _ => None,
        }
    }

    pub(crate) fn inline_run_max(&self) -> Duration {
        Duration::from_micros(self.inline_run_us_max)
    }

    pub(crate) fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    pub(crate) fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }
}

const ADDRESSES: &str = "host:port, tls://host:port or unix:/path; an IPv6 host in brackets";

/// The kernel's limit on the path of a socket, less its closing zero.
const UNIX_PATH_BYTES_MAX: usize = 107;

/// One entry of `listen`, told apart.
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
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_sound() {
        assert_eq!(ServerConfig::default().check(), []);
    }

    #[test]
    fn one_address_cannot_take_every_place() {
        let config = ServerConfig::default();
        assert_eq!(config.connections_per_address_max, config.connections_max / 4);
    }

    #[test]
    fn every_setting_out_of_bounds_is_reported_at_once() {
        let config = ServerConfig {
            lanes: Some(0),
            compute_lanes: Some(257),
            inline_run_us_max: 49,
            memory_bytes_max: Some((64 << 20) - 1),
            grace_ms: u64::MAX,
            log: "loud".into(),
            ..ServerConfig::default()
        };
        let paths: Vec<_> = config.check().into_iter().map(|fault| fault.path).collect();
        let wanted = ["lanes", "compute_lanes", "inline_run_us_max", "memory_bytes_max", "grace_ms", "log"];
        assert_eq!(paths, wanted);
    }

    #[test]
    fn there_are_no_more_compute_lanes_than_lanes_where_both_are_given() {
        let faults = |lanes, compute_lanes| {
            let compute_lanes = Some(compute_lanes);
            ServerConfig { lanes, compute_lanes, ..ServerConfig::default() }.check()
        };
        assert_eq!(faults(Some(2), 2), []);
        assert_eq!(faults(None, 256), [], "the machine decides on lanes, and the server on the rest");
        let told: Vec<_> = faults(Some(2), 3).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["compute_lanes is 3; allowed: 1 to 2, no more than lanes"]);
        assert_eq!(faults(Some(2), 257).len(), 1, "told once");
        assert_eq!(faults(Some(0), 3).len(), 1, "only lanes is wrong");
    }

    #[test]
    fn addresses_are_tcp_tls_or_unix_with_ipv6_in_brackets() {
        for address in ["127.0.0.1:0", "localhost:8080", "[::1]:0"] {
            assert_eq!(Endpoint::parse(address), Some(Endpoint::Tcp(address)));
            assert_eq!(Endpoint::parse(&format!("tls://{address}")), Some(Endpoint::Tls(address)));
        }
        assert_eq!(Endpoint::parse("unix:/run/f.sock"), Some(Endpoint::Unix(Path::new("/run/f.sock"))));
        let long = format!("unix:/{}", "x".repeat(107));
        for address in [
            "::1:0",
            "8080",
            ":8080",
            "localhost:",
            "localhost:65536",
            "",
            "tls://",
            "unix:",
            "http://h:1",
            &long,
        ] {
            assert_eq!(Endpoint::parse(address), None, "{address}");
        }
    }

    #[test]
    fn certificates_are_needed_for_tls_and_only_there() {
        let paths =
            |config: ServerConfig| -> Vec<_> { config.check().into_iter().map(|fault| fault.path).collect() };
        let file = || Some(PathBuf::from("f.pem"));
        let listen = vec!["tls://localhost:0".to_owned()];
        let bare = ServerConfig { listen: listen.clone(), ..ServerConfig::default() };
        assert_eq!(paths(bare), ["tls_cert", "tls_key"]);
        let whole = ServerConfig {
            listen,
            tls_cert: file(),
            tls_key: file(),
            tls_client_ca: file(),
            ..ServerConfig::default()
        };
        assert!(paths(whole).is_empty());
        let idle = ServerConfig { tls_key: file(), tls_client_ca: file(), ..ServerConfig::default() };
        assert_eq!(paths(idle), ["tls_key", "tls_client_ca"]);
    }

    #[test]
    fn modes_owners_and_origins_are_checked() {
        for (mode, wanted) in
            [("0600", Some(0o600)), ("660", Some(0o660)), ("0888", None), ("60", None), ("01600", None)]
        {
            let config = ServerConfig { unix_mode: mode.to_owned(), ..ServerConfig::default() };
            assert_eq!(config.unix_mode(), wanted, "{mode}");
        }
        assert!(["root", "1000:1000", "www-data:web"].iter().all(|owner| sound_owner(owner)));
        assert!(["", ":", "a:", ":b", "a:b:c", "a b"].iter().all(|owner| !sound_owner(owner)));
        assert!(
            ["*", "https://a.example", "http://localhost:3000"].iter().all(|origin| sound_origin(origin))
        );
        assert!(
            ["", "a.example", "https://", "https://a/b", "ftp://a"]
                .iter()
                .all(|origin| !sound_origin(origin))
        );
    }

    #[test]
    fn a_journal_may_lose_no_less_than_two_rounds_to_the_disk() {
        let faults = |sync, loss| {
            let config =
                ServerConfig { journal_sync_ms: sync, journal_loss_ms_max: loss, ..ServerConfig::default() };
            config.check().iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(faults(1000, 2000), [""; 0]);
        let allowed = "allowed: 2000 to 60000, twice journal_sync_ms or more";
        assert_eq!(faults(1000, 1999), [format!("journal_loss_ms_max is 1999; {allowed}")]);
        assert_eq!(faults(1000, 99), ["journal_loss_ms_max is 99; allowed: 100 to 60000"]);
    }

    #[test]
    fn the_place_of_a_key_is_a_file_the_environment_or_a_command() {
        let sound = |place: &str| {
            ServerConfig { journal_kek: Some(place.to_owned()), ..ServerConfig::default() }.check().is_empty()
        };
        assert!(["file:/run/kek", "env:KEK", "command:vault read kek"].into_iter().all(sound));
        assert!(!["", "kek", "file:", "command: ", "env:A=B", "vault:x"].into_iter().any(sound));
    }

    #[test]
    fn an_unknown_setting_is_refused() {
        assert!(serde_json::from_str::<ServerConfig>(r#"{"lane": 2}"#).is_err());
    }
}
