//! Annotations of decisions (outcomes, overrides, erasures, holds), and the journal's status.
//!
//! JSON only. Knows neither the records nor how they are stored.

use crate::body;
use crate::metadata::json;
use bytes::Bytes;
use flyball_core::Fault;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Maximum outcomes in one request.
pub const OUTCOMES_MAX: usize = 1024;
/// Enough for that many; parsing it takes a lane about a millisecond.
const OUTCOMES_BYTES_MAX: usize = 256 << 10;

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    pub id: String,
    /// The decision's name.
    pub decision: String,
    /// The actual outcome.
    pub truth: Value,
    /// Since when it is true, RFC 3339.
    pub when: Option<String>,
    pub source: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Outcomes {
    outcomes: Vec<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Override {
    pub id: String,
    pub decision: String,
    pub outcome: String,
    pub by: String,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Erasure {
    pub subject: String,
    pub by: String,
    pub why: String,
    /// Further feature keys of the subject.
    #[serde(default)]
    pub keys: Vec<String>,
}

/// The result of an erasure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Erased {
    pub recorded: u64,
    pub records: u64,
    pub windows: u64,
    pub cached: u64,
    pub stored: u64,
}

/// A legal hold. Times are RFC 3339.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldOrder {
    pub name: String,
    pub by: String,
    pub why: String,
    pub decision: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    pub by: String,
    pub why: String,
}

/// A hold in force.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HoldFacts {
    pub name: String,
    pub by: String,
    pub why: String,
    pub decision: Option<String>,
    pub from: Option<String>,
    pub to: Option<String>,
    pub since: String,
}

/// One outcome, or a list of them.
pub fn outcomes(body: &[u8]) -> Result<Vec<Outcome>, Fault> {
    const ONE: &str =
        "an outcome, {\"id\", \"decision\", \"truth\", \"when\"?, \"source\"?}, or {\"outcomes\": [...]}";
    // A single one has no such key; one whose texts contain it is parsed twice.
    let several = body.windows(10).any(|part| part == b"\"outcomes\"");
    let single = || body::require::<Outcome>(body, ONE, OUTCOMES_BYTES_MAX).map(|one| vec![one]);
    let outcomes = if several {
        let list = body::require::<Outcomes>(body, ONE, OUTCOMES_BYTES_MAX).map(|list| list.outcomes);
        list.or_else(|fault| single().map_err(|_| fault))?
    } else {
        single()?
    };
    if !(1..=OUTCOMES_MAX).contains(&outcomes.len()) {
        let text = format!("there are {} outcomes; send 1 to {OUTCOMES_MAX} at once", outcomes.len());
        return Err(Fault::malformed(text));
    }
    Ok(outcomes)
}

impl Override {
    pub fn from_json(body: &[u8]) -> Result<Override, Fault> {
        body::require(
            body,
            "an override, {\"id\", \"decision\", \"outcome\", \"by\", \"why\"}",
            body::BYTES_MAX,
        )
    }
}

impl Erasure {
    pub fn from_json(body: &[u8]) -> Result<Erasure, Fault> {
        body::require(body, "an erasure, {\"subject\", \"by\", \"why\", \"keys\"?}", body::BYTES_MAX)
    }
}

impl HoldOrder {
    pub fn from_json(body: &[u8]) -> Result<HoldOrder, Fault> {
        const FORM: &str = "a hold, {\"name\", \"by\", \"why\", \"decision\"?, \"from\"?, \"to\"?}";
        body::require(body, FORM, body::BYTES_MAX)
    }
}

impl Release {
    pub fn from_json(body: &[u8]) -> Result<Release, Fault> {
        body::require(body, "a release, {\"by\", \"why\"}", body::BYTES_MAX)
    }
}

/// The response with the holds in force.
pub fn holds_json(holds: &[HoldFacts]) -> Bytes {
    json(&BTreeMap::from([("holds", holds)]))
}

/// The response once all annotations are on disk.
pub fn recorded_json(count: usize) -> Bytes {
    json(&BTreeMap::from([("recorded", count)]))
}

/// Accepts no body, or an empty object.
pub fn nothing(body: &[u8]) -> Result<(), Fault> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    if body.is_empty() {
        return Ok(());
    }
    body::require::<Nothing>(body, "no body, or {}", body::BYTES_MAX).map(drop)
}

/// The response to a seal: the last sealed segment, and the note over it.
pub fn sealed_json(segment: u64, checkpoint: &str) -> Bytes {
    #[derive(Serialize)]
    struct Sealed<'a> {
        segment: u64,
        checkpoint: &'a str,
    }
    json(&Sealed { segment, checkpoint })
}

/// The response of `GET /v1/journal`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct JournalFacts {
    /// Why the journal cannot store records; null: it can.
    pub unavailable: Option<&'static str>,
    /// Records on disk by kind, since the server started.
    pub records: BTreeMap<&'static str, u64>,
    pub bytes: u64,
    /// Decisions answered without a record, by reason.
    pub gap_decisions: BTreeMap<&'static str, u64>,
    pub unsynced_records: u64,
    pub unsynced_ms: f64,
    pub loss_ms_max: u64,
    pub segment: u64,
    /// The last signed note, as stored.
    pub checkpoint: Option<String>,
}

#[cfg(test)]
mod tests;
