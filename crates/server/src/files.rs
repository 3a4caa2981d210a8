//! The thread that looks, twice a second, whether certificates, callers or trust have changed on disk, and has them read again. A
//! thread of its own, because a disk may hang, and neither a lane nor the acceptor may hang with it.

use crate::drain::Phase;
use crate::shared::Shared;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// A revoked key is out of service within a second of the change.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Enough to see both a file that was written over and one that was put in another's place.
type Stamp = Option<(u64, u64, i64, i64)>;

/// Some files that belong together.
pub(crate) struct Watch {
    paths: Vec<PathBuf>,
    seen: Vec<Stamp>,
}

impl Watch {
    /// To be made before the files are read: a change between the two is then seen at the next look.
    pub(crate) fn new(paths: Vec<PathBuf>) -> Watch {
        let seen = stamps(&paths);
        Watch { paths, seen }
    }

    /// Whether any has changed since the last look.
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

/// What is to be done when they have changed.
pub(crate) type Reload = fn(&Shared);

pub(crate) fn start(shared: Arc<Shared>, mut watches: Vec<(Watch, Reload)>) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    std::thread::Builder::new().name("files".to_owned()).spawn(move || {
        runtime.block_on(async {
            let mut look = tokio::time::interval(LOOK_EVERY);
            loop {
                tokio::select! {
                    _tick = look.tick() => {}
                    () = shared.drain.reached(Phase::Gone) => return,
                }
                for (watch, reload) in &mut watches {
                    if watch.changed() {
                        reload(&shared);
                    }
                }
                if let Some(tls) = &shared.tls {
                    tls.warn_when_expired();
                }
            }
        });
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
