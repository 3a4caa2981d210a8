//! The `policy` and `remedies` of a decision's document: from scores to outcomes, and fallbacks.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyDocument {
    #[serde(default)]
    pub guards: Vec<GuardDocument>,
    #[serde(default)]
    pub rules: Vec<RuleDocument>,
    /// Empty without a model, since there is no score.
    #[serde(default)]
    pub bands: Vec<BandDocument>,
    /// Other bands where `when` holds; the first match counts.
    #[serde(default)]
    pub segments: Vec<SegmentDocument>,
    /// From mild to severe.
    pub outcomes: Vec<String>,
    /// Outcomes that require reasons for their subject.
    #[serde(default)]
    pub adverse: Vec<String>,
    /// While set, every decision has this outcome and no model runs.
    pub kill_switch: Option<KillSwitchDocument>,
    #[serde(default)]
    pub reasons: ReasonsDocument,
    /// Evaluated in the background, and never in the response.
    pub shadow: Option<Box<PolicyDocument>>,
}

/// `of` is `score`, a field or a feature. Non-finite values never pass.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GuardDocument {
    pub of: String,
    pub min: Option<f64>,
    pub max: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RuleDocument {
    pub when: String,
    /// The outcome; none: the rule only adds its reason.
    pub then: Option<String>,
    pub reason: Option<String>,
    /// Higher first.
    #[serde(default)]
    pub priority: i32,
    /// Decides alone: overrides more severe bands, and stops rules of lower priority.
    #[serde(default, rename = "final")]
    pub is_final: bool,
    /// The result of a condition that is undefined because a value is missing.
    #[serde(default)]
    pub missing: bool,
}

/// `from` is inclusive, `to` exclusive; none: unbounded.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BandDocument {
    pub name: String,
    /// The outcome; none: the band's name.
    pub outcome: Option<String>,
    pub from: Option<f64>,
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
    /// If the caller requests them, and on adverse outcomes.
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
    /// The text of each code that rules use.
    pub texts: BTreeMap<String, String>,
    /// The code of each field or feature for model reasons; the default is its name.
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

/// A fallback instead of failing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RemedyDocument {
    /// The caller gets an error.
    #[default]
    Error,
    /// The caller gets an overload error: retry later.
    Shed,
    /// Once more with the same variant, if the deadline allows.
    Retry,
    /// The rules alone, without a score. Undecided rows get the second most severe outcome.
    Rules,
    /// The fallback variant.
    Previous,
    /// This outcome, for example manual review.
    Outcome(String),
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RemediesDocument {
    /// The model is not loaded, broken, or fails on this input.
    pub model_unavailable: RemedyDocument,
    pub timeout: RemedyDocument,
    pub queue_full: RemedyDocument,
    /// A feature's reaction is `fault`.
    pub feature_error: RemedyDocument,
    /// The input violates the schema.
    pub invalid_input: RemedyDocument,
    /// An input or the score is outside its guard.
    pub guard_violated: RemedyDocument,
    /// The record cannot be stored.
    pub record_error: RemedyDocument,
}
