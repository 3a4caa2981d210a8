//! What a scan refuses, in words that end the search: what was found, where, what is allowed, and what to do.

use std::fmt;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    #[error("not an ONNX model: {0}")]
    Malformed(String),
    #[error("not an ONNX model but {found}: {advice}")]
    Foreign { found: &'static str, advice: &'static str },
    #[error("{what}: {is}, and {most} are allowed; {advice}")]
    OverLimit { what: &'static str, is: u64, most: u64, advice: &'static str },
    #[error("operator '{op}' is of the domain '{domain}'; allowed are {allowed}: {advice}")]
    ForeignOperator { op: String, domain: String, allowed: String, advice: &'static str },
    #[error("operator '{op}' runs what another library brings: {advice}")]
    ForbiddenOperator { op: String, advice: &'static str },
    #[error("function {0} calls itself, directly or by way of others: export the model without functions")]
    RecursiveFunction(usize),
    #[error(
        "metadata '{0}' asks for a library or for settings of the session, which a model may not choose: take it out \
         of metadata_props"
    )]
    Settings(String),
    #[error("it has training information, which is not served: export the model for inference")]
    Training,
    #[error(
        "external data '{0}' is not a plain file name: weights must lie beside the model, in its own folder"
    )]
    ExternalDataOutside(String),
    #[error(
        "external data says '{0}', and only location, offset, length and checksum are read: save the weights again \
         with onnx.save_model"
    )]
    ExternalDataKey(String),
    #[error(
        "external data of '{name}' has the {key} '{is}', which is no whole number: save the weights again"
    )]
    ExternalDataNumber { name: String, key: &'static str, is: String },
}

impl Finding {
    pub(super) fn malformed(what: impl Into<String>) -> Trouble {
        Finding::Malformed(what.into()).into()
    }
}

/// A finding and where it was, from the outermost place to the innermost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanRefusal {
    pub finding: Finding,
    pub places: Vec<String>,
}

impl fmt::Display for ScanRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.places.as_slice() {
            [] => write!(f, "{}", self.finding),
            places => write!(f, "in {}: {}", places.join(", "), self.finding),
        }
    }
}

impl std::error::Error for ScanRefusal {}

/// A finding on its way out; places are added from the innermost on. Boxed: the way in is the common one.
pub(super) type Trouble = Box<ScanRefusal>;

impl From<Finding> for Trouble {
    fn from(finding: Finding) -> Trouble {
        Box::new(ScanRefusal { finding, places: Vec::new() })
    }
}

pub(super) trait At<T> {
    /// Says where it was, if it was anything.
    fn at(self, place: impl FnOnce() -> String) -> Result<T, Trouble>;
}

impl<T> At<T> for Result<T, Trouble> {
    fn at(self, place: impl FnOnce() -> String) -> Result<T, Trouble> {
        self.map_err(|mut trouble| {
            trouble.places.insert(0, place());
            trouble
        })
    }
}
