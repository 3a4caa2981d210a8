//! A decision as the Snapshot states it: the `decision` part of a deployment's document. `python/flyball/decision/spec` writes it
//! from what its author wrote, with every shorthand expanded and every file read; its paths are the author's own.
//!
//! Reading finds the first fault of shape; everything that needs meaning (names, types, bands) is the program's to check,
//! and told all at once.

mod digests;
mod policy;
mod read;
mod record;
mod transform;

pub use digests::Digests;
pub use policy::*;
pub use record::*;
pub use transform::*;

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
    /// Stores of features, by the names that lookups use.
    #[serde(default)]
    pub sources: BTreeMap<String, SourceDocument>,
    /// The field that says when the event happened; none: when the request came.
    #[serde(default)]
    pub event_time: Option<String>,
    #[serde(default)]
    pub transforms: Vec<TransformDocument>,
    /// None: the rules alone decide.
    #[serde(default)]
    pub models: Vec<ModelDocument>,
    /// Ways from columns to a score. The first is the champion.
    #[serde(default)]
    pub variants: Vec<VariantDocument>,
    #[serde(default)]
    pub route: RouteDocument,
    pub policy: PolicyDocument,
    #[serde(default)]
    pub remedies: RemediesDocument,
    #[serde(default)]
    pub idempotency: IdempotencyDocument,
    /// None: recorded as is usual, where the server has somebody who keeps records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<RecordDocument>,
    /// What callers reach beside the decision; none: nothing. Part of the document, so that releases are signed for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expose: Option<Expose>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expose {
    /// The models themselves, by the Open Inference Protocol; calls are recorded.
    Tensors,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldType {
    Bool,
    Int,
    Float,
    String,
    Category,
    /// RFC 3339, or seconds since 1970.
    Time,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FieldDocument {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: FieldType,
    #[serde(default = "yes")]
    pub required: bool,
    /// What stands for a value that was not sent. None: missing.
    #[serde(default)]
    pub default: Option<Json>,
    #[serde(default)]
    pub min: Option<f64>,
    #[serde(default)]
    pub max: Option<f64>,
    /// Of a category.
    #[serde(default)]
    pub values: Vec<String>,
    /// What a value that is not among them is taken for; none: it is refused.
    #[serde(default)]
    pub unknown: Option<String>,
    /// Of a text, in bytes.
    #[serde(default = "text_bytes_max")]
    pub length_max: u32,
    /// Identifies what is decided about; requests stick to a variant by it.
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
    pub kind: FieldType,
    #[serde(default)]
    pub values: Vec<String>,
    #[serde(default)]
    pub unknown: Option<String>,
    /// Just one of the three.
    #[serde(default)]
    pub window: Option<WindowDocument>,
    #[serde(default)]
    pub lookup: Option<LookupDocument>,
    /// An expression over fields and features that stand before it.
    #[serde(default)]
    pub compute: Option<String>,
    #[serde(default)]
    pub max_age_ms: Option<u64>,
    #[serde(default)]
    pub on_missing: Reaction,
    #[serde(default)]
    pub on_stale: Reaction,
    #[serde(default)]
    pub on_error: Reaction,
}

/// What becomes of a feature that is not there as it should be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reaction {
    /// It is missing, and everything that reads it knows.
    #[default]
    Missing,
    /// What is known of it is used, however old. Where nothing is known: missing.
    UseStale,
    /// The request meets the remedy for `feature_error`.
    Fault,
    Value(Json),
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WindowDocument {
    pub op: WindowOp,
    /// The field; none for `count`.
    #[serde(default)]
    pub of: Option<String>,
    pub by: String,
    pub last_ms: u64,
    /// Whether the event that is being decided counts.
    #[serde(default = "yes")]
    pub current: bool,
    /// A source of kind redis that several replicas share; none: embedded, of this replica alone.
    #[serde(default)]
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
    /// Just one of `url` (without a password) and `url_env` (the environment variable that has it).
    Redis {
        #[serde(default)]
        url: Option<String>,
        #[serde(default)]
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
    /// How long a record that was found is used without asking again.
    pub ttl_ms: u64,
    /// The same for "there is none".
    pub absent_ttl_ms: u64,
    pub entries_max: u64,
}

impl Default for CacheDocument {
    fn default() -> CacheDocument {
        CacheDocument { ttl_ms: 60_000, absent_ttl_ms: 1_000, entries_max: 100_000 }
    }
}

/// A model of the deployment, and how it is asked.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ModelDocument {
    pub name: String,
    /// Of the deployment's versions.
    pub version: String,
    /// In the model's order. A column may be `NAME.score` of a model that runs before.
    pub inputs: Vec<InputDocument>,
    pub score: ScoreDocument,
    /// How its answers are explained; none: not at all.
    #[serde(default)]
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
    /// Of a row.
    #[serde(default)]
    pub element: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, tag = "by", rename_all = "snake_case")]
pub enum ExplainDocument {
    /// Exact contributions of a tree ensemble; the file beside the model has its nodes and covers.
    Trees { path: String, digest: flyball_core::Digest },
    /// `coefficients[i] * (x[i] - means[i])`.
    Linear { coefficients: Vec<f64>, means: Vec<f64> },
    /// Each column in turn takes its value here, and the score's change is its contribution.
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
    /// Shares of requests (0 to 1) that go to other variants than the champion.
    pub split: BTreeMap<String, f64>,
    /// The field by which requests stick to their variant; none: each is drawn anew.
    pub sticky: Option<String>,
    /// Variants that run beside it and are never in the answer.
    pub shadow: Vec<String>,
    /// The previous known-good way, kept warm.
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
