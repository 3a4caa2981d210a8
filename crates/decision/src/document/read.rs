//! Reads a decision's document. Faults have the author's paths.

use super::DecisionDocument;
use flyball_core::snapshot::SnapshotFault;
use serde_json::Value as Json;

/// Lists whose items have names.
const BY_NAME: [&str; 4] = ["input", "features", "models", "variants"];

impl DecisionDocument {
    /// The document, or its first structural fault.
    pub fn read(value: &Json) -> Result<DecisionDocument, SnapshotFault> {
        serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let allowed = error.into_inner().to_string();
            SnapshotFault { path: authors_path(value, &path, &allowed), is: Json::Null, allowed }
        })
    }
}

/// The path as the author writes it: list items by name, missing or unknown keys appended.
fn authors_path(document: &Json, path: &str, error: &str) -> String {
    let (mut words, mut at) = (Vec::new(), Some(document));
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let (key, index) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((key, index)) => (key, index.parse::<usize>().ok()),
            None => (part, None),
        };
        at = at.and_then(|at| at.get(key)).and_then(|list| index.map_or(Some(list), |index| list.get(index)));
        match at.and_then(|entry| entry.get("name")).and_then(Json::as_str) {
            Some(name) if index.is_some() && BY_NAME.contains(&key) => words.push(format!("{key}.{name}")),
            _ => words.push(part.to_owned()),
        }
    }
    let key = ["missing field `", "unknown field `"].iter().find_map(|start| error.strip_prefix(start));
    if let Some((key, _)) = key.and_then(|key| key.split_once('`'))
        && words.last().is_none_or(|last| last != key)
    {
        words.push(key.to_owned());
    }
    if words.is_empty() { "decision".to_owned() } else { words.join(".") }
}
