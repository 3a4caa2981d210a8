//! Collects all faults of a decision, so that its author sees them at once.

use flyball_core::snapshot::SnapshotFault;
use serde_json::Value as Json;

#[derive(Debug, Default)]
pub struct Faults(pub Vec<SnapshotFault>);

impl Faults {
    /// `path` is the author's: `input.amount.min`, `policy.rules[0].when`.
    pub fn add(&mut self, path: impl Into<String>, is: impl Into<Json>, allowed: impl Into<String>) {
        self.0.push(SnapshotFault { path: path.into(), is: is.into(), allowed: allowed.into() });
    }

    /// Adds a fault whose text already contains the value.
    pub fn tell(&mut self, path: impl Into<String>, text: impl Into<String>) {
        self.add(path, Json::Null, text);
    }
}
