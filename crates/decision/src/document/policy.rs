//! The `policy` and `remedies` of a decision's document: from scores to outcomes, and what is done instead of failing.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyDocument {
    #[serde(default)]
    pub guards: Vec<GuardDocument>,
    #[serde(default)]
    pub rules: Vec<RuleDocument>,
    /// None where there is no model, and so no score.
    #[serde(default)]
    pub bands: Vec<BandDocument>,
    /// Other bands where `when` holds; the first that does counts.
    #[serde(default)]
    pub segments: Vec<SegmentDocument>,
    /// From mild to severe.
    pub outcomes: Vec<String>,
    /// Those that owe their subject reasons.
    #[serde(default)]
    pub adverse: Vec<String>,
    /// While set, every decision has this outcome and no model is run.
    #[serde(default)]
    pub kill_switch: Option<KillSwitchDocument>,
    #[serde(default)]
    pub reasons: ReasonsDocument,
    /// Judged beside it, and never in the answer.
    #[serde(default)]
    pub shadow: Option<Box<PolicyDocument>>,
}

/// `of` is `score`, a field or a feature. What is not finite never passes.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GuardDocument {
    pub of: String,
    #[serde(default)]
    pub min: Option<f64>,
    #[serde(default)]
    pub max: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RuleDocument {
    pub when: String,
    /// The outcome; none: the rule gives its reason only.
    #[serde(default)]
    pub then: Option<String>,
    #[serde(default)]
    pub reason: Option<String>,
    /// Higher first.
    #[serde(default)]
    pub priority: i32,
    /// Decides alone: what is less severe too, and no rule of lower priority is asked.
    #[serde(default, rename = "final")]
    pub is_final: bool,
    /// What the rule takes a condition for that cannot be told, because something in it is missing.
    #[serde(default)]
    pub missing: bool,
}

/// `from` is in the band, `to` is not; none: without end.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BandDocument {
    pub name: String,
    /// The outcome; none: the band's own name.
    #[serde(default)]
    pub outcome: Option<String>,
    #[serde(default)]
    pub from: Option<f64>,
    #[serde(default)]
    pub to: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentDocument {
    pub when: String,
    pub bands: Vec<BandDocument>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct KillSwitchDocument {
    pub outcome: String,
    pub reason: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ExplainWhen {
    /// When the caller asks, and on adverse outcomes.
    #[default]
    Adverse,
    Asked,
    Always,
    Never,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReasonsDocument {
    pub when: ExplainWhen,
    pub most: u32,
    /// The text of each code that rules give.
    pub texts: BTreeMap<String, String>,
    /// The code of each field or feature, for reasons from the model; those without one get their name.
    pub codes: BTreeMap<String, String>,
}

impl Default for ReasonsDocument {
    fn default() -> ReasonsDocument {
        ReasonsDocument {
            when: ExplainWhen::default(),
            most: 4,
            texts: BTreeMap::new(),
            codes: BTreeMap::new(),
        }
    }
}

/// What is done instead of failing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyDocument {
    /// The caller gets an error.
    #[default]
    Error,
    /// The caller gets an overload error: retry later.
    Shed,
    /// Once more the same way, where the deadline leaves time.
    Retry,
    /// The rules alone, without a score. What no rule decides gets the most severe outcome but one.
    Rules,
    /// The fallback variant.
    Previous,
    /// This outcome, for example that a person looks at it.
    Outcome(String),
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RemediesDocument {
    /// The model is not there, breaks or fails on this input.
    pub model_unavailable: RemedyDocument,
    pub timeout: RemedyDocument,
    pub queue_full: RemedyDocument,
    /// A feature's reaction is `fault`.
    pub feature_error: RemedyDocument,
    /// The input does not hold to the schema.
    pub invalid_input: RemedyDocument,
    /// An input or the score is outside its guard.
    pub guard_violated: RemedyDocument,
    /// The record cannot be kept.
    pub record_error: RemedyDocument,
}
