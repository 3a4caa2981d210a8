//! Reloads certificates, callers and the trust policy when their files change.
//!
//! On a thread of its own, because a disk may hang, and neither a lane nor the acceptor may hang with it.

use crate::background::spawn;
use crate::drain::Phase;
use crate::shared::Shared;
use std::fmt::Display;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A revoked key is out of service within a second of the change.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Detects a file that was overwritten, and one that was replaced.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Files that are reloaded together.
pub(crate) struct Watch {
    paths: Vec<PathBuf>,
    seen: Vec<Stamp>,
}

impl Watch {
    /// Create it before reading the files: a change in between is then seen at the next look.
    pub(crate) fn new(paths: Vec<PathBuf>) -> Watch {
        let seen = stamps(&paths);
        Watch { paths, seen }
    }

    /// Whether any file has changed since the last look.
    pub(crate) fn changed(&mut self) -> bool {
        let now = stamps(&self.paths);
        let changed = now != self.seen;
        self.seen = now;
        changed
    }
}

fn stamps(paths: &[PathBuf]) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.ino(), file.size(), file.mtime(), file.mtime_nsec()))
    };
    paths.iter().map(stamp).collect()
}

/// Counts reloads of a file, for metrics.
#[derive(Default)]
pub(crate) struct Reloads {
    taken: AtomicU64,
    refused: AtomicU64,
}

impl Reloads {
    /// Applies new contents, or logs `refused`; the last good state then stays.
    pub(crate) fn apply<T>(&self, read: Result<T, impl Display>, refused: &str, apply: impl FnOnce(T)) {
        let counter = match read {
            Ok(new) => {
                apply(new);
                &self.taken
            }
            Err(error) => {
                tracing::error!(%error, "{refused}");
                &self.refused
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts of applied and refused reloads.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [&self.taken, &self.refused].map(|count| count.load(Ordering::Relaxed))
    }
}

/// The action after a change.
pub(crate) type Reload = fn(&Shared);

pub(crate) fn start(shared: Arc<Shared>, mut watches: Vec<(Watch, Reload)>) -> io::Result<JoinHandle<()>> {
    spawn("files", shared, Phase::Gone, move |shared| async move {
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            look.tick().await;
            for (watch, reload) in &mut watches {
                if watch.changed() {
                    reload(&shared);
                }
            }
            if let Some(tls) = &shared.tls {
                tls.warn_when_expired();
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_written_over_replaced_or_removed_has_changed_once() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::write(&path, "1").unwrap();
        let mut watch = Watch::new(vec![path.clone()]);
        assert!(!watch.changed());
        std::fs::write(&path, "22").unwrap();
        assert!(watch.changed());
        assert!(!watch.changed());
        std::fs::write(&other, "33").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(watch.changed());
        std::fs::remove_file(&path).unwrap();
        assert!(watch.changed());
        assert!(!watch.changed());
    }
}
