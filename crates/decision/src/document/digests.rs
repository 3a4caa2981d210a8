//! What a decision is called by: digests over what it says, wherever its files lie.

use super::{DecisionDocument, ExplainDocument};
use flyball_core::Digest;
use serde::Serialize;
use serde_json::{Value as Json, json};

/// Records name them, and releases are signed for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Digests {
    pub document: Digest,
    pub policy: Digest,
    /// Of what is sent and looked up.
    pub schema: Digest,
}

impl DecisionDocument {
    pub fn digests(&self) -> Digests {
        Digests {
            document: digest(&self.placeless()),
            policy: digest(&self.policy),
            schema: digest(&json!({ "input": self.input, "features": self.features })),
        }
    }

    /// A file beside a model is known by its own digest: moving it does not make another decision.
    fn placeless(&self) -> DecisionDocument {
        let mut document = self.clone();
        for model in &mut document.models {
            if let Some(ExplainDocument::Trees { path, .. }) = &mut model.explain {
                *path = path.rsplit('/').next().unwrap_or_default().to_owned();
            }
        }
        document
    }
}

/// Of canonical JSON: with every default, keys sorted, no spaces.
fn digest(part: &impl Serialize) -> Digest {
    let mut part = serde_json::to_value(part).unwrap_or(Json::Null);
    part.sort_all_objects();
    Digest::of(part.to_string().as_bytes())
}
