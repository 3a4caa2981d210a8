//! Where records are looked up: what a source is, and what all lanes share of it.

use crate::counters::SourceCounters;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SourceKind {
    /// Redis or Valkey. The address may have a password; it is never shown.
    Redis { url: String, timeout: Duration },
    /// The embedded store: a file that `flyball features push` writes.
    Store { path: PathBuf },
}

/// How long records are used without asking again, and how many are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheDef {
    pub ttl: Duration,
    /// The same for "there is none".
    pub absent_ttl: Duration,
    pub entries_max: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceDef {
    pub kind: SourceKind,
    /// The records of one kind of key, such as `cards`.
    pub set: String,
    pub cache: CacheDef,
}

/// A source that was opened. Clones are the same one; what it keeps goes with the last of them.
#[derive(Clone)]
pub struct Source(pub(crate) Arc<SourceState>);

pub(crate) struct SourceState {
    pub(crate) def: SourceDef,
    pub(crate) counters: SourceCounters,
}
