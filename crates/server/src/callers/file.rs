//! Reads the callers' file (JSON) and reports all faults at once.
//!
//! `python/flyball/documents/config/callers.py` writes it. Knows nothing of connections.

use crate::config::ConfigFault;
use flyball_core::snapshot::strict_json;
use flyball_core::{Digest, Right};
use flyball_telemetry::CALLERS_MAX;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::num::NonZeroU32;

/// One caller in the file.
#[derive(Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) keys: Vec<Digest>,
    pub(super) sans: Vec<String>,
    pub(super) uids: Vec<u32>,
    pub(super) terms: Terms,
    pub(super) rights: Vec<Right>,
}

/// The limits of a caller; none without a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    pub(super) per_second: Option<NonZeroU32>,
    /// Defaults to one second's worth.
    pub(super) burst: Option<NonZeroU32>,
    pub(super) in_flight_max: Option<usize>,
}

const KEYS: [&str; 8] =
    ["name", "keys_sha256", "sans", "uids", "requests_per_second", "burst", "in_flight_max", "may"];
const KEYS_OF_A_CALLER_MAX: usize = 16;
const NAMES_OF_A_CALLER_MAX: usize = 64;
const RIGHTS_OF_A_CALLER_MAX: usize = 64;
/// The entry of anonymous callers.
pub(super) const ANONYMOUS: &str = "anonymous";
const NUMBER_MAX: u32 = 1_000_000;
const RIGHT: &str = "VERB, VERB:NAME or VERB:PREFIX*, where VERB is infer, decide, outcome, override or control; or erase or \
                     metrics, which take no name";

pub(super) fn parse(bytes: &[u8]) -> Result<Vec<Entry>, Vec<ConfigFault>> {
    let mut check = Check::default();
    let document = strict_json(bytes).unwrap_or_else(|error| {
        check.refuse("", error.to_string(), "a JSON object");
        Value::Object(Map::from_iter([("callers".to_owned(), Value::Array(Vec::new()))]))
    });
    let entries = check.document(&document);
    if check.faults.is_empty() { Ok(entries) } else { Err(check.faults) }
}

/// All faults of a callers' file, sorted by path.
pub fn check_callers(bytes: &[u8]) -> Vec<ConfigFault> {
    let mut faults = parse(bytes).err().unwrap_or_default();
    faults.sort_by(|one, other| one.path.cmp(&other.path));
    faults
}

#[derive(Default)]
struct Check {
    faults: Vec<ConfigFault>,
    /// Names, keys and other marks seen so far: each must identify one caller.
    seen: HashSet<String>,
}

impl Check {
    fn refuse(&mut self, path: &str, is: impl Into<Value>, allowed: &str) {
        self.faults.push(ConfigFault { path: path.to_owned(), is: is.into(), allowed: allowed.to_owned() });
    }

    /// The object at `path`, whose keys must be among `allowed`.
    fn object<'v>(
        &mut self,
        value: &'v Value,
        path: &str,
        allowed: &[&str],
    ) -> Option<&'v Map<String, Value>> {
        let Some(object) = value.as_object() else {
            self.refuse(path, value.clone(), "an object");
            return None;
        };
        for key in object.keys().filter(|key| !allowed.contains(&key.as_str())) {
            let place = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            self.refuse(
                &place,
                object[key].clone(),
                &format!("no such key; keys are {}", allowed.join(", ")),
            );
        }
        Some(object)
    }

    fn document(&mut self, value: &Value) -> Vec<Entry> {
        let Some(object) = self.object(value, "", &["callers"]) else { return Vec::new() };
        let callers = object.get("callers").unwrap_or(&Value::Null);
        match callers.as_array().filter(|list| list.len() <= CALLERS_MAX) {
            Some(list) => {
                let entry = |(place, value)| self.entry(value, &format!("callers[{place}]"));
                list.iter().enumerate().filter_map(entry).collect()
            }
            None => {
                self.refuse("callers", callers.clone(), &format!("a list of up to {CALLERS_MAX} callers"));
                Vec::new()
            }
        }
    }

    fn entry(&mut self, value: &Value, path: &str) -> Option<Entry> {
        let object = self.object(value, path, &KEYS)?;
        let at = |key: &str| format!("{path}.{key}");
        let name = object.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if !is_valid_name(&name) {
            let is = object.get("name").cloned().unwrap_or_default();
            self.refuse(&at("name"), is, "1 to 64 of A-Z a-z 0-9 . _ -, and not none");
        }
        self.once(&at("name"), "name", &name);
        let keys = self.list(object, path, "keys_sha256", KEYS_OF_A_CALLER_MAX, |value| {
            value.as_str().and_then(|hex| format!("sha256:{hex}").parse().ok())
        });
        let sans = self.list(object, path, "sans", NAMES_OF_A_CALLER_MAX, |value| {
            let valid = |san: &&str| {
                (1..=255).contains(&san.len()) && san.bytes().all(|byte| byte.is_ascii_graphic())
            };
            value.as_str().filter(valid).map(canonical_san)
        });
        let uids = self.list(object, path, "uids", NAMES_OF_A_CALLER_MAX, |value| {
            value.as_u64().and_then(|uid| u32::try_from(uid).ok()).filter(|uid| *uid < u32::MAX)
        });
        let marks = [keys.len(), sans.len(), uids.len()] != [0; 3];
        if marks == (name == ANONYMOUS) && !self.faults.iter().any(|fault| fault.path.starts_with(path)) {
            let allowed = if marks {
                "none of keys_sha256, sans and uids"
            } else {
                "at least one of keys_sha256, sans and uids"
            };
            self.refuse(path, name.as_str(), allowed);
        }
        let rights = self.list(object, path, "may", RIGHTS_OF_A_CALLER_MAX, |value| {
            value.as_str().and_then(|text| text.parse().ok())
        });
        let [per_second, burst, in_flight_max] =
            ["requests_per_second", "burst", "in_flight_max"].map(|key| self.number(object, &at(key), key));
        if burst.is_some() && per_second.is_none() {
            self.refuse(&at("burst"), "given", "only beside requests_per_second");
        }
        let terms = Terms {
            per_second: per_second.and_then(NonZeroU32::new),
            burst: burst.and_then(NonZeroU32::new),
            in_flight_max: in_flight_max.map(|max| max as usize),
        };
        Some(Entry { name, keys, sans, uids, terms, rights })
    }

    /// A list of rights, or of marks that identify a caller, each of which only one caller may have.
    fn list<T: std::fmt::Debug>(
        &mut self,
        object: &Map<String, Value>,
        path: &str,
        key: &str,
        max: usize,
        read: impl Fn(&Value) -> Option<T>,
    ) -> Vec<T> {
        let allowed = match key {
            "keys_sha256" => "64 lower-case hex digits, the SHA-256 of a key",
            "sans" => "a name of a certificate, up to 255 visible characters",
            "may" => RIGHT,
            _ => "a user's number, 0 to 4294967294",
        };
        let path = format!("{path}.{key}");
        let Some(value) = object.get(key) else { return Vec::new() };
        let Some(items) = value.as_array().filter(|items| items.len() <= max) else {
            self.refuse(&path, value.clone(), &format!("a list of up to {max}"));
            return Vec::new();
        };
        let mut taken = Vec::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            let path = format!("{path}[{place}]");
            match read(item) {
                None => self.refuse(&path, item.clone(), allowed),
                Some(item) => {
                    if key != "may" {
                        self.once(&path, key, &format!("{item:?}"));
                    }
                    taken.push(item);
                }
            }
        }
        taken
    }

    fn once(&mut self, path: &str, key: &str, mark: &str) {
        if !self.seen.insert(format!("{key} {mark}")) {
            self.refuse(path, mark, "what no other caller has, and only once");
        }
    }

    fn number(&mut self, object: &Map<String, Value>, path: &str, key: &str) -> Option<u32> {
        let value = object.get(key).filter(|value| !value.is_null())?;
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        let number = number.filter(|number| (1..=NUMBER_MAX).contains(number));
        if number.is_none() {
            self.refuse(path, value.clone(), &format!("a whole number, 1 to {NUMBER_MAX}"));
        }
        number
    }
}

fn is_valid_name(name: &str) -> bool {
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(sound) && name != "none"
}

/// Host names are case-insensitive; URIs and addresses are not.
pub(super) fn canonical_san(san: &str) -> String {
    if san.contains([':', '@']) { san.to_owned() } else { san.to_ascii_lowercase() }
}

#[cfg(test)]
mod tests;
