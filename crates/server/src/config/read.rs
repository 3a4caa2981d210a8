//! Reads settings from JSON and reports all faults at once, each with the allowed values.

use super::{ConfigFault, ServerConfig};
use flyball_core::snapshot::strict_json;
use serde_json::{Map, Value};
use std::ops::RangeInclusive;

pub(super) const LANES_MAX: usize = 256;
/// A smaller budget is a wrong unit: ONNX Runtime and one small model need more.
const MEMORY_BYTES_LEAST: u64 = 64 << 20;
/// The largest integer that every JSON reader represents exactly.
const MEMORY_BYTES_MAX: u64 = (1 << 53) - 1;

/// The limits of every number.
pub(super) const NUMBERS: [(&str, RangeInclusive<u64>); 26] = [
    ("lanes", 1..=LANES_MAX as u64),
    ("compute_lanes", 1..=LANES_MAX as u64),
    ("inline_run_us_max", 50..=100_000),
    ("memory_bytes_max", MEMORY_BYTES_LEAST..=MEMORY_BYTES_MAX),
    ("run_memory_bytes_max", 1 << 20..=MEMORY_BYTES_MAX),
    ("probe_ms_max", 100..=3_600_000),
    ("probe_memory_bytes_max", MEMORY_BYTES_LEAST..=MEMORY_BYTES_MAX),
    ("body_bytes_max", 1 << 10..=(1 << 31) - 1),
    ("answer_bytes_max", 1 << 20..=(1 << 31) - 1),
    ("header_bytes_max", 8 << 10..=1 << 20),
    ("connections_max", 1..=1_000_000),
    ("connections_per_address_max", 1..=1_000_000),
    ("streams_max", 1..=100_000),
    ("streams_total_max", 1..=1_000_000),
    ("in_flight_max", 1..=1_000_000),
    ("header_timeout_ms", 10..=3_600_000),
    ("body_timeout_ms", 10..=3_600_000),
    ("idle_timeout_ms", 10..=3_600_000),
    ("grace_ms", 0..=3_600_000),
    ("previous_kept", 0..=3),
    ("journal_sync_ms", 10..=10_000),
    ("journal_loss_ms_max", 100..=60_000),
    ("journal_segment_bytes", 1 << 20..=4 << 30),
    ("journal_segment_s", 1..=604_800),
    ("journal_checkpoint_s", 1..=3600),
    ("compress_bytes_min", 0..=(1 << 31) - 1),
];
/// The allowed lengths of lists.
pub(super) const LISTS: [(&str, RangeInclusive<usize>); 4] =
    [("listen", 1..=16), ("hosts", 0..=64), ("cors_origins", 0..=64), ("restricted_apis", 0..=16)];

impl ServerConfig {
    /// The settings in these bytes, or all faults, sorted by path.
    pub fn read(bytes: &[u8]) -> Result<ServerConfig, Vec<ConfigFault>> {
        let (config, mut faults) = typed(bytes);
        let new = |found: &ConfigFault| !faults.iter().any(|fault| fault.path == found.path);
        let found: Vec<_> = config.check().into_iter().filter(new).collect();
        faults.extend(found);
        faults.sort_by(|one, other| one.path.cmp(&other.path));
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    }
}

/// The settings with valid types, defaults for the others, and the faults of those.
fn typed(bytes: &[u8]) -> (ServerConfig, Vec<ConfigFault>) {
    let whole = |is: Value| ConfigFault { path: String::new(), is, allowed: "a JSON object".to_owned() };
    let document = match strict_json(bytes) {
        Ok(Value::Object(document)) => document,
        Ok(other) => return (ServerConfig::default(), vec![whole(other)]),
        Err(error) => return (ServerConfig::default(), vec![whole(error.to_string().into())]),
    };
    let defaults = serde_json::to_value(ServerConfig::default()).unwrap_or_default();
    let (mut valid, mut faults) = (Map::new(), Vec::new());
    for (key, is) in document {
        let alone = Map::from_iter([(key.clone(), is.clone())]);
        if defaults.get(&key).is_none() {
            let keys = defaults.as_object().into_iter().flat_map(Map::keys).map(String::as_str);
            let allowed = format!("no such key; keys are {}", keys.collect::<Vec<_>>().join(", "));
            faults.push(ConfigFault { path: key, is, allowed });
        } else if serde_json::from_value::<ServerConfig>(Value::Object(alone)).is_ok() {
            valid.insert(key, is);
        } else if let Some(items) = is.as_array().filter(|_| defaults[&key].is_array()) {
            let wrong = items.iter().enumerate().filter(|(_, item)| !item.is_string());
            faults.extend(wrong.map(|(place, item)| ConfigFault {
                path: format!("{key}[{place}]"),
                is: item.clone(),
                allowed: allowed(&format!("{key}[]")),
            }));
        } else {
            faults.push(fault(&key, is));
        }
    }
    match serde_json::from_value(Value::Object(valid)) {
        Ok(config) => (config, faults),
        // Each key was valid alone, so this cannot happen; if it does, refuse.
        Err(error) => (ServerConfig::default(), vec![whole(error.to_string().into())]),
    }
}

pub(super) fn fault(key: &str, is: Value) -> ConfigFault {
    ConfigFault { path: key.to_owned(), is, allowed: allowed(key) }
}

/// The allowed values of a setting; `listen[]` is an item of a list.
pub(super) fn allowed(key: &str) -> String {
    let nullable = matches!(key, "lanes" | "compute_lanes") || key.ends_with("memory_bytes_max");
    if let Some((_, range)) = NUMBERS.iter().find(|(known, _)| *known == key) {
        let null = if nullable { "null, or " } else { "" };
        let more = match key {
            "compute_lanes" => ", no more than lanes",
            "journal_loss_ms_max" => ", twice journal_sync_ms or more",
            _ => "",
        };
        return format!("{null}a whole number, {} to {}{more}", range.start(), range.end());
    }
    if let Some((_, count)) = LISTS.iter().find(|(known, _)| *known == key) {
        return format!("a list of {} to {}", count.start(), count.end());
    }
    let allowed = match key {
        "listen[]" => {
            "\"host:port\", \"tls://host:port\" or \"unix:/path\"; an IPv6 host in brackets, port 0 for any free port"
        }
        "hosts[]" => "\"*\", or a host name or address without a port",
        "restricted_apis[]" => {
            "API[,API…]:HEADER=VALUE, where API is health, metadata, inference, shared-memory, model-config, \
             model-repository, statistics, trace or logging"
        }
        "cors_origins[]" => "\"*\", or \"http[s]://host[:port]\"",
        "tls_cert" | "tls_key" | "tls_client_ca" => "a path where listen has a tls:// address, else null",
        "unix_mode" => "three octal digits, with or without a leading 0",
        "unix_owner" => "null, or user or user:group, names or numbers",
        "allow_anonymous" => "null, true or false",
        "trust_policy" => "a path where trust_root has one, else null",
        "environment" | "server_name" => "1 to 128 of A-Z a-z 0-9 . _ -, not starting with '.'",
        "unsigned" => "refuse or allow",
        "journal_kek" => "null, or file:PATH, env:NAME or command:PROGRAM ARGUMENT…",
        "log" => "error, warn, info or debug",
        "log_format" => "auto, json or text",
        "state_folder" | "features_folder" | "journal_folder" => "null, or the path of a folder",
        "callers" | "ort_path" | "trust_root" | "journal_key" => "null, or the path of a file",
        _ => "true or false",
    };
    allowed.to_owned()
}
