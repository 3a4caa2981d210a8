//! The `record` of a decision's document: durability and omitted fields.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RecordDocument {
    pub durability: Durability,
    pub when_unavailable: WhenUnavailable,
    /// The share of decisions (0 to 1) whose records also have input, features and outputs.
    pub sample: f64,
    /// Fields whose values are never recorded.
    pub mask: Vec<String>,
}

impl Default for RecordDocument {
    fn default() -> RecordDocument {
        let (durability, when_unavailable) = Default::default();
        RecordDocument { durability, when_unavailable, sample: 1.0, mask: Vec::new() }
    }
}

flyball_core::labelled! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Durability {
        /// On disk shortly after the response.
        #[default]
        Buffered => "buffered",
        /// On disk before the response.
        Sync => "sync",
    }
}

flyball_core::labelled! {
    /// The handling of requests while records cannot be stored.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum WhenUnavailable {
        /// They get the remedy for `record_error` before anything is computed.
        #[default]
        FailClosed => "fail_closed",
        /// They are decided and counted in a gap record.
        ServeUnlogged => "serve_unlogged",
    }
}
