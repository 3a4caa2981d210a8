//! Digests that identify a decision by its content, independent of file locations.

use super::{DecisionDocument, ExplainDocument};
use flyball_core::Digest;
use serde::Serialize;
use serde_json::{Value as Json, json};

/// Records reference them, and releases sign them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Digests {
    pub document: Digest,
    pub policy: Digest,
    /// Of inputs and features.
    pub schema: Digest,
}

impl DecisionDocument {
    pub fn digests(&self) -> Digests {
        Digests {
            document: digest(&self.without_paths()),
            policy: digest(&self.policy),
            schema: digest(&json!({ "input": self.input, "features": self.features })),
        }
    }

    /// Removes paths: a file next to a model is identified by its digest, so moving it changes nothing.
    fn without_paths(&self) -> DecisionDocument {
        let mut document = self.clone();
        for model in &mut document.models {
            if let Some(ExplainDocument::Trees { path, .. }) = &mut model.explain {
                *path = path.rsplit('/').next().unwrap_or_default().to_owned();
            }
        }
        document
    }
}

/// The digest of canonical JSON: all defaults, sorted keys, no spaces.
fn digest(part: &impl Serialize) -> Digest {
    let mut part = serde_json::to_value(part).unwrap_or(Json::Null);
    part.sort_all_objects();
    Digest::of(part.to_string().as_bytes())
}
