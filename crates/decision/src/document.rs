//! The decision document: the `decision` part of a deployment's document in the Snapshot.
//!
//! `python/flyball/decision/spec` writes it from the author's files, with every shorthand expanded and every
//! file read; paths are the author's own. Reading finds the first structural fault. The program checks meaning
//! (names, types, bands) and reports all faults at once.

mod digests;
mod policy;
mod read;
mod record;
mod transform;

pub use digests::Digests;
pub use policy::*;
pub use record::*;
pub use transform::*;

use crate::value::Kind;
use flyball_core::WindowOp;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DecisionDocument {
    pub owner: String,
    pub purpose: String,
    pub input: Vec<FieldDocument>,
    #[serde(default)]
    pub features: Vec<FeatureDocument>,
    /// Feature stores, by the names that lookups use.
    #[serde(default)]
    pub sources: BTreeMap<String, SourceDocument>,
    /// The field with the event's time; none: the request's arrival.
    pub event_time: Option<String>,
    #[serde(default)]
    pub transforms: Vec<TransformDocument>,
    /// Empty: the rules alone decide.
    #[serde(default)]
    pub models: Vec<ModelDocument>,
    /// Model combinations that produce a score. The first is the champion.
    #[serde(default)]
    pub variants: Vec<VariantDocument>,
    #[serde(default)]
    pub route: RouteDocument,
    pub policy: PolicyDocument,
    #[serde(default)]
    pub remedies: RemediesDocument,
    #[serde(default)]
    pub idempotency: IdempotencyDocument,
    /// None: the default recording, if the server has a journal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordDocument>,
    /// Direct access for callers; none: only the decision. Part of the document, so that releases sign it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expose: Option<Expose>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expose {
    /// The models themselves, over the Open Inference Protocol; calls are recorded.
    Tensors,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FieldDocument {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    #[serde(default = "yes")]
    pub required: bool,
    /// The value of a field that was not sent. None: missing.
    pub default: Option<Json>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// Values of a category.
    #[serde(default)]
    pub values: Vec<String>,
    /// The replacement of an unlisted value; none: it is rejected.
    pub unknown: Option<String>,
    /// Maximum length of a text in bytes.
    #[serde(default = "text_bytes_max")]
    pub length_max: u32,
    /// Identifies the subject; requests stick to a variant by it.
    #[serde(default)]
    pub key: bool,
    #[serde(default)]
    pub pii: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FeatureDocument {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    #[serde(default)]
    pub values: Vec<String>,
    pub unknown: Option<String>,
    /// Exactly one of the three.
    pub window: Option<WindowDocument>,
    pub lookup: Option<LookupDocument>,
    /// An expression over fields and earlier features.
    pub compute: Option<String>,
    pub max_age_ms: Option<u64>,
    #[serde(default)]
    pub on_missing: Reaction,
    #[serde(default)]
    pub on_stale: Reaction,
    #[serde(default)]
    pub on_error: Reaction,
}

/// The reaction to a feature that is missing or stale.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reaction {
    /// The feature is missing, visibly to everything that reads it.
    #[default]
    Missing,
    /// The last known value is used, however old. Without one: missing.
    UseStale,
    /// The request gets the remedy for `feature_error`.
    Fault,
    Value(Json),
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WindowDocument {
    pub op: WindowOp,
    /// The field; none for `count`.
    pub of: Option<String>,
    pub by: String,
    pub last_ms: u64,
    /// Whether the event being decided counts.
    #[serde(default = "yes")]
    pub current: bool,
    /// A Redis source that replicas share; none: embedded, for this replica alone.
    pub source: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LookupDocument {
    pub source: String,
    /// The field whose value is the key.
    pub key: String,
    /// The record's field.
    pub field: String,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, tag = "kind", rename_all = "snake_case")]
pub enum SourceDocument {
    /// Exactly one of `url` (without a password) and `url_env` (the environment variable with it).
    Redis {
        url: Option<String>,
        url_env: Option<String>,
        set: String,
        timeout_ms: u64,
        #[serde(default)]
        cache: CacheDocument,
    },
    /// The embedded store: a file that `flyball features push` fills.
    Store {
        path: String,
        set: String,
        #[serde(default)]
        cache: CacheDocument,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct CacheDocument {
    /// How long a found record is used without asking again.
    pub ttl_ms: u64,
    /// The same for an absent record.
    pub absent_ttl_ms: u64,
    pub entries_max: u64,
}

impl Default for CacheDocument {
    fn default() -> CacheDocument {
        CacheDocument { ttl_ms: 60_000, absent_ttl_ms: 1_000, entries_max: 100_000 }
    }
}

/// A model of the deployment, its inputs and its score.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ModelDocument {
    pub name: String,
    /// One of the deployment's versions.
    pub version: String,
    /// In the model's order. A column may be `NAME.score` of an earlier model.
    pub inputs: Vec<InputDocument>,
    pub score: ScoreDocument,
    /// How its scores are explained; none: not at all.
    pub explain: Option<ExplainDocument>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InputDocument {
    pub tensor: String,
    pub columns: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ScoreDocument {
    pub output: String,
    /// The element within a row.
    #[serde(default)]
    pub element: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, tag = "by", rename_all = "snake_case")]
pub enum ExplainDocument {
    /// Exact contributions of a tree ensemble; the file next to the model has its nodes and covers.
    Trees { path: String, digest: flyball_core::Digest },
    /// `coefficients[i] * (x[i] - means[i])`.
    Linear { coefficients: Vec<f64>, means: Vec<f64> },
    /// Each column in turn is set to its baseline; the score's change is its contribution.
    Ablation { baseline: Vec<f64> },
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct VariantDocument {
    pub name: String,
    /// In the order in which they run.
    pub models: Vec<String>,
    /// The score is the sum of the models' scores, each times its weight.
    pub weights: BTreeMap<String, f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteDocument {
    /// Shares of requests (0 to 1) for variants other than the champion.
    pub split: BTreeMap<String, f64>,
    /// The field by which requests stick to their variant; none: each is drawn at random.
    pub sticky: Option<String>,
    /// Variants that run in the background and never answer.
    pub shadow: Vec<String>,
    /// The previous known-good variant, kept warm.
    pub fallback: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdempotencyDocument {
    pub window_s: u32,
    pub entries_max: u32,
}

impl Default for IdempotencyDocument {
    fn default() -> IdempotencyDocument {
        IdempotencyDocument { window_s: 3600, entries_max: 100_000 }
    }
}

const fn yes() -> bool {
    true
}

const fn text_bytes_max() -> u32 {
    1024
}
