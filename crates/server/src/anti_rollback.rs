//! Anti-rollback across restarts: the highest accepted trust serial and the newest signed index.
//!
//! One small file, so that neither an old policy nor an old index can be restored while the server is down.

use crate::trust::TrustError;
use flyball_core::{Digest, private_file, private_folder};
use flyball_deployments::IndexMark;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const FORMAT: u32 = 1;
const BYTES_MAX: u64 = 64 << 10;

/// The file's contents.
///
/// One file per environment and snapshot folder: servers with the same policy may use different folders.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    format: u32,
    environment: String,
    /// Only for people who look for a server's file.
    snapshot: PathBuf,
    serial: u64,
    index: Option<IndexMark>,
}

pub(crate) struct AntiRollbackFile {
    path: PathBuf,
    read_only: bool,
    kept: Mutex<Kept>,
}

impl AntiRollbackFile {
    /// `snapshot`: the folder as configured. Links are not followed: replacing one must not reset the protection.
    pub(crate) fn open(
        folder: &Path,
        environment: &str,
        snapshot: &Path,
        read_only: bool,
    ) -> Result<AntiRollbackFile, TrustError> {
        let named = std::path::absolute(Path::new(".").join(snapshot));
        let snapshot: PathBuf = named.as_deref().unwrap_or(snapshot).components().collect();
        let place = Digest::of(snapshot.as_os_str().as_encoded_bytes()).hex();
        let path = folder.join(format!("{environment}-{}.json", &place[..16]));
        let fault = |cause| TrustError::State { path: path.clone(), cause };
        let kept = match read(&path).map_err(fault)? {
            Some(kept) if kept.format == FORMAT && kept.environment == environment => kept,
            Some(_other) => {
                return Err(fault(io::Error::other("its format or environment differs")));
            }
            None => {
                let environment = environment.to_owned();
                Kept { format: FORMAT, environment, snapshot, serial: 0, index: None }
            }
        };
        if !read_only {
            // At startup, not at the first write, so that an operator sees the error.
            if let Some(warning) = private_folder(folder).map_err(fault)? {
                tracing::warn!("{warning}");
            }
            write(&path, &kept).map_err(fault)?;
        }
        Ok(AntiRollbackFile { path, read_only, kept: Mutex::new(kept) })
    }

    pub(crate) fn serial(&self) -> u64 {
        self.kept().serial
    }

    pub(crate) fn index(&self) -> Option<IndexMark> {
        self.kept().index.clone()
    }

    pub(crate) fn advance_serial(&self, serial: u64) {
        self.change(|kept| kept.serial = serial);
    }

    pub(crate) fn advance_index(&self, taken: &IndexMark) {
        self.change(|kept| kept.index = Some(taken.clone()));
    }

    /// A disk error is logged and does not block a snapshot: memory is enough until a restart.
    fn change(&self, edit: impl FnOnce(&mut Kept)) {
        let mut kept = self.kept();
        edit(&mut kept);
        if self.read_only {
            return;
        }
        if let Err(error) = write(&self.path, &kept) {
            let path = self.path.display();
            tracing::error!(%path, %error, "the anti-rollback state is not saved: after a restart an older policy or index could be accepted");
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(path: &Path) -> io::Result<Option<Kept>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Some(serde_json::from_slice(&bytes)?))
}

/// Writes atomically; the file is on disk when this returns.
fn write(path: &Path, kept: &Kept) -> io::Result<()> {
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = private_file(&beside)?;
    file.set_len(0)?;
    file.write_all(&serde_json::to_vec(kept)?)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(generation: u64) -> IndexMark {
        IndexMark { generation, index: Digest::of(b"index"), registry: None }
    }

    #[test]
    fn what_was_taken_is_there_after_a_restart_for_the_same_environment_and_snapshot_alone() {
        let folder = tempfile::tempdir().unwrap();
        let open = |environment: &str, snapshot: &str| {
            let state = folder.path().join("state");
            AntiRollbackFile::open(&state, environment, Path::new(snapshot), false)
                .unwrap_or_else(|error| panic!("{error}"))
        };
        let file = open("production", "/srv/a");
        assert_eq!((file.serial(), file.index()), (0, None));
        file.advance_serial(3);
        file.advance_index(&taken(7));
        let again = open("production", "/srv/a");
        assert_eq!((again.serial(), again.index()), (3, Some(taken(7))));
        for other in [open("staging", "/srv/a"), open("production", "/srv/b")] {
            assert_eq!((other.serial(), other.index()), (0, None));
        }
    }

    #[test]
    fn a_state_that_cannot_be_kept_or_read_is_no_start_and_names_the_setting() {
        let folder = tempfile::tempdir().unwrap();
        let error = |state: &Path| {
            let opened = AntiRollbackFile::open(state, "production", Path::new("/srv/a"), false);
            opened.err().expect("not opened").to_string()
        };
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(error(&file).contains("--state-folder"), "{}", error(&file));
        let state = folder.path().join("state");
        drop(AntiRollbackFile::open(&state, "production", Path::new("/srv/a"), false));
        let kept = fs::read_dir(&state).unwrap().next().unwrap().unwrap().path();
        fs::write(&kept, "{").unwrap();
        assert!(error(&state).contains(&kept.display().to_string()), "{}", error(&state));
    }
}
