//! The findings of a scan: what, where, what is allowed, and how to fix it.

use std::fmt;

/// The kind of finding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    #[error("not an ONNX model: {0}")]
    Malformed(String),
    #[error("not an ONNX model but {found}: {advice}")]
    Foreign { found: &'static str, advice: &'static str },
    #[error("{what}: {is}, but at most {most} are allowed; {advice}")]
    OverLimit { what: &'static str, is: u64, most: u64, advice: &'static str },
    #[error("operator '{op}' has the domain '{domain}'; allowed: {allowed}: {advice}")]
    ForeignOperator { op: String, domain: String, allowed: String, advice: &'static str },
    #[error("operator '{op}' runs code of another library: {advice}")]
    ForbiddenOperator { op: String, advice: &'static str },
    #[error("function {0} calls itself, directly or indirectly: export the model without functions")]
    RecursiveFunction(usize),
    #[error(
        "metadata '{0}' requests a library or session settings, which a model may not choose: remove it \
         from metadata_props"
    )]
    Settings(String),
    #[error("it has training information, which cannot be served: export the model for inference")]
    Training,
    #[error("external data '{0}' is not a plain file name: weights must be in the model's own folder")]
    ExternalDataOutside(String),
    #[error(
        "external data has the key '{0}'; allowed: location, offset, length and checksum: save the weights again \
         with onnx.save_model"
    )]
    ExternalDataKey(String),
    #[error(
        "external data of '{name}' has the {key} '{is}', which is not a whole number: save the weights again"
    )]
    ExternalDataNumber { name: String, key: &'static str, is: String },
}

impl Finding {
    pub(super) fn malformed(what: impl Into<String>) -> ScanError {
        Finding::Malformed(what.into()).into()
    }
}

/// A finding and its position, from outermost to innermost.
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

/// A finding while it propagates; positions are added from the innermost on. Boxed: success is the common
/// case.
pub(super) type ScanError = Box<ScanRefusal>;

impl From<Finding> for ScanError {
    fn from(finding: Finding) -> ScanError {
        Box::new(ScanRefusal { finding, places: Vec::new() })
    }
}

pub(super) trait At<T> {
    /// Adds a position to an error.
    fn at(self, place: impl FnOnce() -> String) -> Result<T, ScanError>;
}

impl<T> At<T> for Result<T, ScanError> {
    fn at(self, place: impl FnOnce() -> String) -> Result<T, ScanError> {
        self.map_err(|mut trouble| {
            trouble.places.insert(0, place());
            trouble
        })
    }
}
