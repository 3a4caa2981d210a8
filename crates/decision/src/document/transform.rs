//! The `transforms` of a decision's document: steps from values to columns, with fitted parameters.

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// One step from values to columns.
///
/// Each reads the columns `of`, which initially are the fields and features by name, and replaces them, or
/// adds its results under `into`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, tag = "op", rename_all = "snake_case")]
pub enum TransformDocument {
    /// One value for each column; `indicator` adds `x=missing`, 0 or 1.
    Impute {
        of: Vec<String>,
        values: Vec<Json>,
        #[serde(default)]
        indicator: bool,
    },
    Cast {
        of: Vec<String>,
        to: CastTo,
    },
    /// x * factor + offset, as MinMaxScaler does it.
    Scale {
        of: Vec<String>,
        factor: Vec<f64>,
        offset: Vec<f64>,
    },
    /// (x - mean) / scale, as StandardScaler does it.
    Standardize {
        of: Vec<String>,
        mean: Vec<f64>,
        scale: Vec<f64>,
    },
    Log {
        of: Vec<String>,
    },
    Log1p {
        of: Vec<String>,
    },
    Clip {
        of: Vec<String>,
        min: Option<f64>,
        max: Option<f64>,
    },
    /// How many edges are at or below x, as `numpy.digitize` counts.
    Bucket {
        of: Vec<String>,
        edges: Vec<f64>,
    },
    /// Columns `x=value`, in the order of `values` (one list for each column).
    OneHot {
        of: Vec<String>,
        values: Vec<Vec<String>>,
    },
    /// The index among the values; `unknown` for others.
    Ordinal {
        of: Vec<String>,
        values: Vec<Vec<String>>,
        unknown: f64,
    },
    /// MurmurHash3 (x86, 32 bits, seed 0) of the text, modulo `buckets`.
    Hash {
        of: Vec<String>,
        buckets: u32,
    },
    /// A number for each text: target and frequency encoding.
    Encode {
        of: Vec<String>,
        maps: Vec<BTreeMap<String, f64>>,
        default: Vec<f64>,
    },
    /// Numbers: their product. Texts: joined by '|'.
    Cross {
        of: Vec<String>,
        into: String,
    },
    /// Columns `x.hour` and so on, in UTC.
    DateParts {
        of: Vec<String>,
        parts: Vec<DatePart>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CastTo {
    Float,
    /// Towards zero.
    Int,
    Bool,
    Text,
}

flyball_core::labelled! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DatePart {
        Year => "year",
        Month => "month",
        Day => "day",
        Hour => "hour",
        Minute => "minute",
        /// Monday is 0.
        Weekday => "weekday",
        /// 1 on Saturday and Sunday.
        Weekend => "weekend",
    }
}
