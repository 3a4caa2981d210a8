//! The feature stores that the document names. The features crate opens them.

use crate::document::{CacheDocument, SourceDocument};
use crate::faults::Faults;
use crate::schema::label;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

const SOURCES_MAX: usize = 16;
const TIMEOUT_MS: RangeInclusive<u64> = 1..=10_000;
/// A day.
const TTL_MS_MAX: u64 = 86_400_000;
const ENTRIES: RangeInclusive<u64> = 1..=10_000_000;

pub(crate) fn sources(
    documents: &BTreeMap<String, SourceDocument>,
    faults: &mut Faults,
) -> Vec<(Arc<str>, SourceDocument)> {
    if documents.len() > SOURCES_MAX {
        faults.add("sources", documents.len(), format!("at most {SOURCES_MAX} sources"));
    }
    for (name, document) in documents {
        let path = format!("sources.{name}");
        if !label(name) {
            faults.add(path.as_str(), name.as_str(), "letters, digits, '_', '-' and '.', at most 64");
        }
        check(document, &path, faults);
    }
    documents.iter().map(|(name, document)| (name.as_str().into(), document.clone())).collect()
}

fn check(document: &SourceDocument, path: &str, faults: &mut Faults) {
    let (set, cache) = match document {
        SourceDocument::Redis { url, url_env, set, timeout_ms, cache } => {
            if url.is_some() == url_env.is_some() {
                faults.add(path, Json::Null, "just one of `url` and `url_env`");
            }
            if url.as_deref().is_some_and(has_password) {
                let allowed =
                    "an address without a password; put it in the environment and name it in `url_env`";
                faults.add(format!("{path}.url"), "hidden", allowed);
            }
            if url.as_deref().is_some_and(|url| url.starts_with("rediss://")) {
                let allowed =
                    "redis:// by a tunnel: rediss:// needs TLS, which sources of features do not have";
                faults.add(format!("{path}.url"), "rediss://", allowed);
            }
            if !TIMEOUT_MS.contains(timeout_ms) {
                let allowed = format!("{} to {}", TIMEOUT_MS.start(), TIMEOUT_MS.end());
                faults.add(format!("{path}.timeout_ms"), *timeout_ms, allowed);
            }
            (set, cache)
        }
        SourceDocument::Store { path: file, set, cache } => {
            if file.is_empty() {
                faults.add(format!("{path}.path"), "", "the path of the store's file");
            }
            (set, cache)
        }
    };
    if set.is_empty() {
        faults.add(format!("{path}.set"), "", "the name of a set of records");
    }
    check_cache(cache, &format!("{path}.cache"), faults);
}

fn check_cache(cache: &CacheDocument, path: &str, faults: &mut Faults) {
    for (key, value) in [("ttl_ms", cache.ttl_ms), ("absent_ttl_ms", cache.absent_ttl_ms)] {
        if value > TTL_MS_MAX {
            faults.add(format!("{path}.{key}"), value, format!("at most {TTL_MS_MAX}, a day"));
        }
    }
    if !ENTRIES.contains(&cache.entries_max) {
        let allowed = format!("{} to {}", ENTRIES.start(), ENTRIES.end());
        faults.add(format!("{path}.entries_max"), cache.entries_max, allowed);
    }
}

/// Whether the URL has `user:password@` or `?user=…&pass=…`.
fn has_password(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let asked = rest.split_once('?').map_or("", |(_, asked)| asked);
    // Names may be escaped: reject any that is not plain.
    let secret = |part: &str| {
        let name = part.split('=').next().unwrap_or(part);
        name.contains('%') || ["pass", "user"].iter().any(|word| name.to_ascii_lowercase().starts_with(word))
    };
    if asked.split('&').any(secret) {
        return true;
    }
    let authority = rest.split('/').next().unwrap_or(rest);
    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}
