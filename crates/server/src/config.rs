//! The server's settings: what was written, checked as a whole. `python/flyball/config` has the same keys, defaults
//! and limits, and `docs/reference/server-config.md` is made from those.

use flyball_telemetry::LogLevel;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// A smaller budget is a slip of the unit: ONNX Runtime and one small model want more.
const MEMORY_BYTES_LEAST: u64 = 64 << 20;
const LANES_MAX: usize = 256;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerConfig {
    /// Addresses to listen on, `host:port`; port 0 takes a free one.
    pub listen: Vec<String>,
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
    pub in_flight_max: usize,
    pub header_timeout_ms: u64,
    pub body_timeout_ms: u64,
    pub idle_timeout_ms: u64,
    pub grace_ms: u64,
    pub log: String,
}

impl Default for ServerConfig {
    fn default() -> ServerConfig {
        ServerConfig {
            listen: vec!["127.0.0.1:8080".to_owned()],
            lanes: None,
            compute_lanes: None,
            inline_run_us_max: 1000,
            memory_bytes_max: None,
            mlock: false,
            ort_path: None,
            body_bytes_max: 64 << 20,
            header_bytes_max: 64 << 10,
            connections_max: 4096,
            in_flight_max: 4096,
            header_timeout_ms: 10_000,
            body_timeout_ms: 10_000,
            idle_timeout_ms: 120_000,
            grace_ms: 30_000,
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
        bound("in_flight_max", self.in_flight_max as u64, 1..=1_000_000);
        bound("header_timeout_ms", self.header_timeout_ms, 10..=3_600_000);
        bound("body_timeout_ms", self.body_timeout_ms, 10..=3_600_000);
        bound("idle_timeout_ms", self.idle_timeout_ms, 10..=3_600_000);
        bound("grace_ms", self.grace_ms, 0..=3_600_000);
        // A model has one session for each lane, so a further thread would have none to run. Each number alone is told above.
        let compute = self.compute_lanes.filter(|compute| *compute <= LANES_MAX);
        if let (Some(lanes @ 1..), Some(compute)) = (self.lanes, compute)
            && compute > lanes
        {
            let allowed = format!("1 to {lanes}, no more than lanes");
            faults.push(ConfigFault { path: "compute_lanes".to_owned(), is: compute.to_string(), allowed });
        }
        for (place, address) in self.listen.iter().enumerate().filter(|(_, address)| !sound_address(address))
        {
            let allowed = "host:port, an IPv6 host in brackets".to_owned();
            faults.push(ConfigFault { path: format!("listen[{place}]"), is: address.clone(), allowed });
        }
        if self.log_level().is_none() {
            let allowed = "error, warn, info or debug".to_owned();
            faults.push(ConfigFault { path: "log".to_owned(), is: self.log.clone(), allowed });
        }
        faults
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

fn sound_address(address: &str) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    !host.is_empty() && (bracketed || !host.contains(':')) && port.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_sound() {
        assert_eq!(ServerConfig::default().check(), []);
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
    fn addresses_are_host_and_port_with_ipv6_in_brackets() {
        for address in ["127.0.0.1:0", "localhost:8080", "[::1]:0"] {
            assert!(sound_address(address), "{address}");
        }
        for address in ["::1:0", "8080", ":8080", "localhost:", "localhost:65536", ""] {
            assert!(!sound_address(address), "{address}");
        }
    }

    #[test]
    fn an_unknown_setting_is_refused() {
        assert!(serde_json::from_str::<ServerConfig>(r#"{"lane": 2}"#).is_err());
    }
}
