//! What to send, where, and how fast: the plan as it is written, and the target that it names once checked.

use serde::{Deserialize, Serialize};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// A run as the caller writes it (JSON; unknown keys are errors).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// `http://host:port` or `grpc://host:port`; the protocol is chosen by `protocol`, not by the scheme.
    pub url: String,
    pub model: String,
    pub protocol: Protocol,
    pub connections: usize,
    /// Requests at a time on each connection; more than one needs gRPC.
    #[serde(default = "one")]
    pub streams: usize,
    pub mode: Mode,
    /// Open loop only: requests a second over all connections.
    #[serde(default)]
    pub rate_per_s: Option<f64>,
    pub duration_s: f64,
    #[serde(default)]
    pub warmup_s: f64,
    pub timeout_ms: u64,
    /// Cores that the generator's thread may run on.
    #[serde(default)]
    pub cpus: Option<Vec<usize>>,
    /// Instead of `/v2/models/<model>/infer`, for peers and for an echo.
    #[serde(default)]
    pub path: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Http,
    Grpc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each connection sends its next request when the last one is answered.
    Closed,
    /// Requests are due at a constant rate, whatever the server does.
    Open,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("plan: {0}")]
    NotJson(String),
    #[error("plan: {key} is {is}; allowed: {allowed}")]
    NotAllowed { key: &'static str, is: String, allowed: &'static str },
    #[error("plan: cannot find the address of {authority}: {cause}")]
    NoAddress { authority: String, cause: String },
}

/// A checked plan: what the connections need to know.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// `host:port`, for the `Host` header.
    pub(crate) authority: String,
    pub(crate) path: String,
    /// Answers of other protocols carry no id; they are told by the path being given.
    pub(crate) foreign: bool,
    pub(crate) timeout: Duration,
}

const fn one() -> usize {
    1
}

impl Plan {
    pub fn from_json(bytes: &[u8]) -> Result<Plan, PlanError> {
        serde_json::from_slice(bytes).map_err(|error| PlanError::NotJson(error.to_string()))
    }

    pub(crate) fn check(&self) -> Result<Target, PlanError> {
        self.check_numbers()?;
        let model_ok = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if self.model.is_empty() || !self.model.chars().all(model_ok) {
            return not_allowed("model", &self.model, "letters, digits, '.', '_' and '-'");
        }
        if let Some(path) = &self.path
            && (!path.starts_with('/') || path.chars().any(|c| c.is_whitespace() || c.is_control()))
        {
            return not_allowed("path", path, "a path that starts with '/' and has no spaces");
        }
        if self.path.is_some() && self.protocol == Protocol::Grpc {
            return not_allowed("path", "given", "only with protocol \"http\"");
        }
        let authority = self.authority()?;
        let mut addresses = authority.to_socket_addrs().map_err(|cause| PlanError::NoAddress {
            authority: authority.clone(),
            cause: cause.to_string(),
        })?;
        let Some(address) = addresses.next() else {
            return Err(PlanError::NoAddress { authority, cause: "there is none".into() });
        };
        let infer = || format!("/v2/models/{}/infer", self.model);
        Ok(Target {
            address,
            authority,
            path: self.path.clone().unwrap_or_else(infer),
            foreign: self.path.is_some(),
            timeout: Duration::from_millis(self.timeout_ms),
        })
    }

    fn check_numbers(&self) -> Result<(), PlanError> {
        if !(1..=10_000).contains(&self.connections) {
            return not_allowed("connections", self.connections, "1 to 10000");
        }
        if !(1..=1000).contains(&self.streams) {
            return not_allowed("streams", self.streams, "1 to 1000");
        }
        if self.streams > 1 && self.protocol == Protocol::Http {
            return not_allowed("streams", self.streams, "1, because HTTP/1.1 carries one request at a time");
        }
        match (self.mode, self.rate_per_s) {
            (Mode::Open, Some(rate)) if rate.is_finite() && rate > 0.0 && rate <= 10_000_000.0 => {}
            (Mode::Open, Some(rate)) => return not_allowed("rate_per_s", rate, "above 0, to 10000000"),
            (Mode::Open, None) => {
                return not_allowed("rate_per_s", "null", "a rate, because mode is \"open\"");
            }
            (Mode::Closed, None) => {}
            (Mode::Closed, Some(rate)) => {
                return not_allowed("rate_per_s", rate, "null, because mode is \"closed\"");
            }
        }
        if !(self.duration_s > 0.0 && self.duration_s <= 86_400.0) {
            return not_allowed("duration_s", self.duration_s, "above 0, to 86400");
        }
        if !(0.0..=3600.0).contains(&self.warmup_s) {
            return not_allowed("warmup_s", self.warmup_s, "0 to 3600");
        }
        if !(1..=3_600_000).contains(&self.timeout_ms) {
            return not_allowed("timeout_ms", self.timeout_ms, "1 to 3600000");
        }
        if self.cpus.as_ref().is_some_and(Vec::is_empty) {
            return not_allowed("cpus", "[]", "null, or at least one core");
        }
        Ok(())
    }

    fn authority(&self) -> Result<String, PlanError> {
        let rest = self.url.strip_prefix("http://").or_else(|| self.url.strip_prefix("grpc://"));
        let authority = rest.map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        match authority {
            Some(authority)
                if !authority.is_empty() && !authority.contains(|c: char| c == '/' || c.is_whitespace()) =>
            {
                let has_port =
                    authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
                Ok(if has_port { authority.to_owned() } else { format!("{authority}:80") })
            }
            _ => not_allowed("url", &self.url, "http://host:port or grpc://host:port"),
        }
    }
}

fn not_allowed<T>(key: &'static str, is: impl ToString, allowed: &'static str) -> Result<T, PlanError> {
    Err(PlanError::NotAllowed { key, is: is.to_string(), allowed })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(key: &str, value: Value) -> Result<Target, PlanError> {
        let mut plan = json!({"url": "http://127.0.0.1:8080", "model": "fraud", "protocol": "http",
            "connections": 16, "streams": 1, "mode": "closed", "rate_per_s": null, "duration_s": 5.0,
            "warmup_s": 1.0, "timeout_ms": 1000, "cpus": null, "path": null});
        plan[key] = value;
        Plan::from_json(plan.to_string().as_bytes())?.check()
    }

    #[test]
    fn a_plan_names_its_target() {
        let target = check("url", json!("grpc://127.0.0.1:8081/")).expect("checks");
        assert_eq!(
            (target.authority.as_str(), target.path.as_str()),
            ("127.0.0.1:8081", "/v2/models/fraud/infer")
        );
        assert_eq!(check("path", json!("/echo")).expect("checks").path, "/echo");
    }

    #[test]
    fn what_a_plan_may_not_say_is_refused_with_what_it_may() {
        let cases = [
            ("url", json!("https://h"), "url is https://h; allowed: http://host:port or grpc://host:port"),
            ("model", json!("a b"), "model is a b; allowed: letters"),
            ("path", json!("echo"), "starts with '/'"),
            ("connections", json!(0), "connections is 0; allowed: 1 to 10000"),
            ("streams", json!(2), "HTTP/1.1 carries one request at a time"),
            ("rate_per_s", json!(5.0), "null, because mode is \"closed\""),
            ("mode", json!("open"), "rate_per_s is null; allowed: a rate"),
            ("duration_s", json!(0.0), "duration_s is 0"),
            ("warmup_s", json!(-1.0), "warmup_s is -1"),
            ("timeout_ms", json!(0), "timeout_ms is 0"),
            ("cpus", json!([]), "at least one core"),
            ("rate", json!(1), "unknown field `rate`"),
        ];
        for (key, value, wanted) in cases {
            let error = check(key, value).expect_err(wanted).to_string();
            assert!(error.contains(wanted), "{error}");
        }
    }
}
