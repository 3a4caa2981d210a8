//! The `record` of a decision's document: how durable its records are, and what is left out of them.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordDocument {
    pub durability: Durability,
    pub when_unavailable: WhenUnavailable,
    /// The share of decisions (0 to 1) whose records have input, features and outputs too.
    pub sample: f64,
    /// Fields whose values are in no record.
    pub mask: Vec<String>,
}

impl Default for RecordDocument {
    fn default() -> RecordDocument {
        let (durability, when_unavailable) = Default::default();
        RecordDocument { durability, when_unavailable, sample: 1.0, mask: Vec::new() }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// On the disk a moment later.
    #[default]
    Buffered,
    /// On the disk before the answer.
    Sync,
}

impl Durability {
    pub const fn label(self) -> &'static str {
        match self {
            Durability::Buffered => "buffered",
            Durability::Sync => "sync",
        }
    }
}

/// What becomes of requests while no record can be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenUnavailable {
    /// They meet the remedy for `record_error`, before anything is computed.
    #[default]
    FailClosed,
    /// They are decided, and counted in a record of the gap.
    ServeUnlogged,
}

impl WhenUnavailable {
    pub const fn label(self) -> &'static str {
        match self {
            WhenUnavailable::FailClosed => "fail_closed",
            WhenUnavailable::ServeUnlogged => "serve_unlogged",
        }
    }
}
