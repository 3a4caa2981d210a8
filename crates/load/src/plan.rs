//! The plan of a run: what to send, where, and how fast; and its checked target.

use crate::arrivals::Arrivals;
use crate::stream::Address;
use serde::{Deserialize, Serialize};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Maximum intervals of a timeline; each has a histogram.
const INTERVALS_MAX: f64 = 240.0;
const INTERVALS_USUAL: f64 = 60.0;
const INTERVAL_LEAST_S: f64 = 0.05;

/// Maximum time to try one of several addresses.
const CONNECT_MOST: Duration = Duration::from_secs(1);

/// A run, as the caller writes it (JSON; unknown keys are errors).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// `http://host:port`, `grpc://host:port` or `unix:/path`; `protocol` selects the protocol, not the
    /// scheme.
    pub url: String,
    pub model: String,
    #[serde(default)]
    pub protocol: Protocol,
    #[serde(default = "sixteen")]
    pub connections: usize,
    /// Concurrent requests on each connection; more than one needs gRPC.
    #[serde(default = "one")]
    pub streams: usize,
    /// Threads that share the connections and arrivals.
    #[serde(default = "one")]
    pub threads: usize,
    /// Shared: a trace may have millions, and every thread reads all.
    #[serde(default)]
    pub arrivals: Arc<Arrivals>,
    #[serde(default = "five_s")]
    pub duration_s: f64,
    #[serde(default)]
    pub warmup: Warmup,
    #[serde(default = "one_second_ms")]
    pub timeout_ms: u64,
    /// Sent to the server with each request; later responses are counted.
    #[serde(default)]
    pub deadline_ms: Option<u64>,
    /// A request without a free connection for this long is given up, as callers with a bounded pool do.
    /// None: it waits.
    #[serde(default)]
    pub connection_wait_ms: Option<u64>,
    /// Cores for the generator's threads.
    #[serde(default)]
    pub cpus: Option<Vec<usize>>,
    /// Replaces `/v2/models/<model>/infer`, for other servers and for an echo.
    #[serde(default)]
    pub path: Option<String>,
    /// The length of a timeline interval; `None` chooses one.
    #[serde(default)]
    pub interval_s: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// V2 JSON.
    #[default]
    Http,
    /// V2 with the binary tensor extension, in both directions.
    HttpBinary,
    Grpc,
    /// JSON bodies sent unchanged to `path`, for other protocols than V2, such as decisions.
    Json,
}

/// Lasts `least_s`, then continues until the load is steady, at most `most_s`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Warmup {
    pub least_s: f64,
    pub most_s: f64,
}

impl Default for Warmup {
    fn default() -> Warmup {
        Warmup { least_s: 1.0, most_s: 1.0 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("plan: {0}")]
    NotJson(String),
    #[error("plan: {key} is {is}; allowed: {allowed}")]
    NotAllowed { key: &'static str, is: String, allowed: &'static str },
    #[error("plan: cannot resolve {authority}: {cause}")]
    NoAddress { authority: String, cause: String },
}

const URL_ALLOWED: &str = "http://host:port, grpc://host:port or unix:/path";

/// A checked plan: what the connections need to know.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: Address,
    /// `host:port`, for the `Host` header; `localhost` over a Unix socket.
    pub(crate) authority: String,
    pub(crate) path: String,
    /// Responses of other protocols have no id; recognised by a given path.
    pub(crate) foreign: bool,
    pub(crate) timeout: Duration,
    pub(crate) deadline: Option<Duration>,
    pub(crate) connection_wait: Option<Duration>,
}

const fn one() -> usize {
    1
}

const fn sixteen() -> usize {
    16
}

const fn five_s() -> f64 {
    5.0
}

const fn one_second_ms() -> u64 {
    1000
}

impl Plan {
    pub fn from_json(bytes: &[u8]) -> Result<Plan, PlanError> {
        serde_json::from_slice(bytes).map_err(|error| PlanError::NotJson(error.to_string()))
    }

    pub(crate) fn check(&self) -> Result<Target, PlanError> {
        self.check_numbers()?;
        let model_ok = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let model_ok = !self.model.is_empty() && self.model.chars().all(model_ok);
        require(model_ok, "model", &self.model, "letters, digits, '.', '_' and '-'")?;
        if let Some(path) = &self.path {
            let ok = path.starts_with('/') && !path.chars().any(|c| c.is_whitespace() || c.is_control());
            require(ok, "path", path, "a path that starts with '/' and has no spaces")?;
            require(self.protocol != Protocol::Grpc, "path", "given", "only with HTTP")?;
        }
        let path_ok = self.path.is_some() || self.protocol != Protocol::Json;
        require(path_ok, "path", "null", "a path, with the protocol json")?;
        let (address, authority) = self.address()?;
        let infer = || format!("/v2/models/{}/infer", self.model);
        Ok(Target {
            address,
            authority,
            path: self.path.clone().unwrap_or_else(infer),
            foreign: self.path.is_some(),
            timeout: Duration::from_millis(self.timeout_ms),
            deadline: self.deadline_ms.map(Duration::from_millis),
            connection_wait: self.connection_wait_ms.map(Duration::from_millis),
        })
    }

    pub(crate) fn warms_up(&self) -> bool {
        self.warmup.most_s > 0.0
    }

    /// The length of the measured time.
    pub(crate) fn measured(&self) -> Duration {
        Duration::from_secs_f64(self.arrivals.span_s(self.duration_s))
    }

    /// The length of a timeline interval, so that there are never too many.
    pub(crate) fn interval(&self) -> Duration {
        let span_s = self.arrivals.span_s(self.duration_s);
        let wanted = self.interval_s.unwrap_or((span_s / INTERVALS_USUAL).max(INTERVAL_LEAST_S));
        Duration::from_secs_f64(wanted.max(span_s / INTERVALS_MAX))
    }

    fn check_numbers(&self) -> Result<(), PlanError> {
        const MS_ALLOWED: &str = "null, or 1 to 3600000";
        let &Plan { connections, streams, threads, duration_s, timeout_ms, .. } = self;
        let Warmup { least_s, most_s } = self.warmup;
        let ms_ok = |ms: Option<u64>| ms.is_none_or(|ms| (1..=3_600_000).contains(&ms));
        let interval_ok = self.interval_s.is_none_or(|interval| (0.001..=86_400.0).contains(&interval));
        let one_ok = streams == 1 || self.protocol == Protocol::Grpc;
        let threads_ok = (1..=64).contains(&threads) && threads <= connections;
        let cpus_ok = self.cpus.as_ref().is_none_or(|cpus| !cpus.is_empty());
        require((1..=10_000).contains(&connections), "connections", connections, "1 to 10000")?;
        require((1..=1000).contains(&streams), "streams", streams, "1 to 1000")?;
        require(one_ok, "streams", streams, "1, because HTTP/1.1 carries one request at a time")?;
        require(threads_ok, "threads", threads, "1 to 64, and no more than connections")?;
        require(duration_s > 0.0 && duration_s <= 86_400.0, "duration_s", duration_s, "above 0, to 86400")?;
        require((0.0..=3600.0).contains(&least_s), "warmup.least_s", least_s, "0 to 3600")?;
        require((least_s..=3600.0).contains(&most_s), "warmup.most_s", most_s, "least_s to 3600")?;
        require((1..=3_600_000).contains(&timeout_ms), "timeout_ms", timeout_ms, "1 to 3600000")?;
        require(ms_ok(self.deadline_ms), "deadline_ms", shown(self.deadline_ms), MS_ALLOWED)?;
        require(
            ms_ok(self.connection_wait_ms),
            "connection_wait_ms",
            shown(self.connection_wait_ms),
            MS_ALLOWED,
        )?;
        require(interval_ok, "interval_s", shown(self.interval_s), "null, or 0.001 to 86400")?;
        require(cpus_ok, "cpus", "[]", "null, or at least one core")?;
        self.arrivals.check()
    }

    fn address(&self) -> Result<(Address, String), PlanError> {
        if let Some(path) = self.url.strip_prefix("unix:") {
            let grpc = self.protocol == Protocol::Grpc;
            require(path.starts_with('/'), "url", &self.url, URL_ALLOWED)?;
            require(!grpc, "url", &self.url, "http://host:port or grpc://host:port with gRPC")?;
            return Ok((Address::Unix(path.into()), "localhost".into()));
        }
        let authority = self.authority()?;
        let addresses = authority.to_socket_addrs().map_err(|cause| PlanError::NoAddress {
            authority: authority.clone(),
            cause: cause.to_string(),
        })?;
        match first_that_accepts(&Vec::from_iter(addresses)) {
            Some(address) => Ok((Address::Tcp(address), authority)),
            None => Err(PlanError::NoAddress { authority, cause: "there is none".into() }),
        }
    }

    fn authority(&self) -> Result<String, PlanError> {
        let rest = self.url.strip_prefix("http://").or_else(|| self.url.strip_prefix("grpc://"));
        let authority = rest.map(|rest| rest.strip_suffix('/').unwrap_or(rest)).unwrap_or_default();
        let ok = !authority.is_empty() && !authority.contains(|c: char| c == '/' || c.is_whitespace());
        require(ok, "url", &self.url, URL_ALLOWED)?;
        // An IPv6 address is in brackets, so that its last colon is not taken for the port's.
        let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
        let bracketed = !host.contains(':') || authority.starts_with('[');
        require(bracketed, "url", &self.url, "an IPv6 address in brackets: http://[::1]:8080")?;
        let has_port = port.parse::<u16>().is_ok();
        Ok(if has_port { authority.to_owned() } else { format!("{authority}:80") })
    }
}

/// The first address that accepts a connection.
///
/// A name may have several addresses, and its server may listen on one of them only: `localhost` is 127.0.0.1
/// and ::1. If none accepts, the first: the run then reports its error.
fn first_that_accepts(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let accepts = |address: &&SocketAddr| TcpStream::connect_timeout(address, CONNECT_MOST).is_ok();
    match addresses {
        // Nothing to choose from: the server sees only the load's connections.
        [] | [_] => addresses.first(),
        several => several.iter().find(accepts).or(several.first()),
    }
    .copied()
}

fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

pub(crate) fn require(
    met: bool,
    key: &'static str,
    is: impl ToString,
    allowed: &'static str,
) -> Result<(), PlanError> {
    if met { Ok(()) } else { Err(PlanError::NotAllowed { key, is: is.to_string(), allowed }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn plan(key: &str, value: Value) -> Result<Plan, PlanError> {
        let mut plan = json!({"url": "http://127.0.0.1:8080", "model": "fraud"});
        plan[key] = value;
        Plan::from_json(plan.to_string().as_bytes())
    }

    fn check(key: &str, value: Value) -> Result<Target, PlanError> {
        plan(key, value)?.check()
    }

    #[test]
    fn a_plan_names_its_target() {
        let target = check("url", json!("grpc://127.0.0.1:8081/")).expect("checks");
        assert_eq!(
            (target.authority.as_str(), target.path.as_str()),
            ("127.0.0.1:8081", "/v2/models/fraud/infer")
        );
        assert_eq!(check("path", json!("/echo")).expect("checks").path, "/echo");
        let target = check("url", json!("unix:/run/flyball.sock")).expect("checks");
        assert!(matches!(target.address, Address::Unix(path) if path.ends_with("flyball.sock")));
    }

    #[test]
    fn an_ipv6_address_stands_in_brackets_and_keeps_them_for_the_host_header() {
        for (url, authority) in [("http://[::1]:8080", "[::1]:8080"), ("grpc://[::1]/", "[::1]:80")] {
            let target = check("url", json!(url)).expect("checks");
            assert_eq!(target.authority, authority);
            let Address::Tcp(address) = target.address else { panic!("{:?}", target.address) };
            assert_eq!(address.to_string(), authority);
        }
    }

    #[test]
    fn of_several_addresses_the_first_that_accepts_is_taken_and_else_the_first() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let alive = listener.local_addr().expect("an address");
        let dead = |last| SocketAddr::from(([127, 0, 0, last], alive.port()));
        assert_eq!(first_that_accepts(&[dead(2), alive, dead(3)]), Some(alive));
        assert_eq!(first_that_accepts(&[dead(2), dead(3)]), Some(dead(2)));
        assert_eq!(first_that_accepts(&[dead(2)]), Some(dead(2)));
        assert_eq!(first_that_accepts(&[]), None);
    }

    #[test]
    fn a_time_line_has_sixty_intervals_unless_they_would_be_too_short_or_too_many() {
        let interval = |duration_s: f64, interval_s: Option<f64>| {
            let plan = plan("duration_s", json!(duration_s)).expect("a plan");
            Plan { interval_s, ..plan }.interval().as_secs_f64()
        };
        assert_eq!(interval(60.0, None), 1.0);
        assert_eq!(interval(1.0, None), 0.05);
        assert_eq!(interval(10.0, Some(0.1)), 0.1);
        assert_eq!(interval(240.0, Some(0.001)), 1.0);
    }

    #[test]
    fn what_a_plan_may_not_say_is_refused_with_what_it_may() {
        let cases = [
            (
                "url",
                json!("https://h"),
                "url is https://h; allowed: http://host:port, grpc://host:port or unix",
            ),
            ("url", json!("unix:here"), "url is unix:here"),
            ("url", json!("http://::1:8080"), "an IPv6 address in brackets"),
            ("model", json!("a b"), "model is a b; allowed: letters"),
            ("path", json!("echo"), "starts with '/'"),
            ("protocol", json!("json"), "path is null; allowed: a path, with the protocol json"),
            ("connections", json!(0), "connections is 0; allowed: 1 to 10000"),
            ("streams", json!(2), "HTTP/1.1 carries one request at a time"),
            ("threads", json!(17), "threads is 17; allowed: 1 to 64, and no more than connections"),
            ("duration_s", json!(0.0), "duration_s is 0"),
            ("warmup", json!({"least_s": -1.0, "most_s": 1.0}), "warmup.least_s is -1"),
            (
                "warmup",
                json!({"least_s": 2.0, "most_s": 1.0}),
                "warmup.most_s is 1; allowed: least_s to 3600",
            ),
            ("timeout_ms", json!(0), "timeout_ms is 0"),
            ("deadline_ms", json!(0), "deadline_ms is 0; allowed: null, or 1 to 3600000"),
            ("connection_wait_ms", json!(0), "connection_wait_ms is 0; allowed: null, or 1 to 3600000"),
            ("interval_s", json!(0.0), "interval_s is 0; allowed: null, or 0.001 to 86400"),
            ("cpus", json!([]), "at least one core"),
            ("rate", json!(1), "unknown field `rate`"),
            ("arrivals", json!({"kind": "closed", "rate_per_s": 5.0}), "unknown field `rate_per_s`"),
            ("arrivals", json!({"kind": "constant"}), "missing field `rate_per_s`"),
            (
                "arrivals",
                json!({"kind": "constant", "rate_per_s": 0.0}),
                "arrivals.rate_per_s is 0; allowed: above",
            ),
            (
                "arrivals",
                json!({"kind": "burst", "rate_per_s": 1.0, "burst_per_s": 2.0, "burst_s": 2.0, "every_s": 2.0}),
                "arrivals.burst_s is 2; allowed: above 0, and less than every_s",
            ),
            (
                "arrivals",
                json!({"kind": "ramp", "from_per_s": 1.0, "to_per_s": 1e8}),
                "arrivals.to_per_s is 1",
            ),
            ("arrivals", json!({"kind": "trace", "offsets_s": []}), "arrivals.offsets_s is 0 offsets"),
            ("arrivals", json!({"kind": "trace", "offsets_s": [1.0, 0.5]}), "ascending offsets"),
            ("arrivals", json!({"kind": "steps"}), "unknown variant `steps`"),
        ];
        for (key, value, wanted) in cases {
            let error = check(key, value).expect_err(wanted).to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
