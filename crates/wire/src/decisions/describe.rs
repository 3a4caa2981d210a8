//! Descriptions of decisions: `GET /v1/decisions` and `GET /v1/decisions/{name}`.

use crate::metadata::json;
use bytes::Bytes;
use flyball_core::Digest;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One decision, for callers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecisionFacts {
    pub decision: String,
    /// From mild to severe.
    pub outcomes: Vec<String>,
    /// The digest of the whole decision; the next two cover parts of it.
    pub document: Digest,
    pub policy: Digest,
    pub schema: Digest,
    pub models: Vec<ModelFacts>,
    /// Only for a request by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input: Vec<FieldFacts>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelFacts {
    pub model: String,
    pub version: String,
    pub digest: Digest,
}

/// A field of the input, as its author declared it. Undeclared properties are omitted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FieldFacts {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length_max: Option<u32>,
}

impl DecisionFacts {
    /// All of them, in the given order.
    pub fn list_json(all: &[DecisionFacts]) -> Bytes {
        json(&BTreeMap::from([("decisions", all)]))
    }
}
