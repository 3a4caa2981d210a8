//! Where trust comes from: a file of root keys, and a policy that one of them signed, which is read again when it changes. A
//! policy that cannot be taken leaves the last good one in place.

use crate::ServerConfig;
use crate::files::{Reload, Watch};
use crate::lane_thread::Shared;
use crate::taken::TakenFile;
use flyball_core::WallClock;
use flyball_plane::{Judge, Taken};
use flyball_signing::{Refused, TRUST_BYTES_MAX, Trust, TrustRoots};
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Some keys, each of some hundred bytes.
const ROOT_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(
        "this server trusts nobody, so it could serve nothing; give --trust-root FILE and --trust-policy FILE \
         (`flyball trust init` makes them), or --unsigned allow to serve what nobody signed"
    )]
    Nobody,
    #[error("cannot read {}: {cause}; --trust-root and --trust-policy name the files of trust", path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("{} is not taken: {}: {refused}", path.display(), refused.label())]
    Refused { path: PathBuf, refused: Box<Refused> },
    #[error(
        "cannot keep what was taken last in {}: {cause}; name a folder that this server may write to: --state-folder DIR",
        path.display()
    )]
    State { path: PathBuf, cause: io::Error },
}

/// The files, as the settings name them, and who judges by them.
pub(crate) struct TrustFiles {
    policy: PathBuf,
    roots: TrustRoots,
    /// The highest serial that was taken, too: who holds an older policy must not bring revoked keys back.
    taken: Arc<TakenFile>,
    judge: Arc<Judge>,
    pub(crate) reloads_taken: AtomicU64,
    pub(crate) reloads_refused: AtomicU64,
}

/// Who judges what is served, and the files where there are any.
pub(crate) fn open(
    config: &ServerConfig,
    snapshot: &Path,
    watches: &mut Vec<(Watch, Reload)>,
) -> Result<(Arc<Judge>, Option<TrustFiles>), TrustError> {
    let allow_unsigned = config.allows_unsigned();
    let judge = |trust| Judge::new(trust, &config.environment, allow_unsigned, WallClock::system());
    let (Some(root), Some(policy)) = (&config.trust_root, &config.trust_policy) else {
        return if allow_unsigned { Ok((Arc::new(judge(None)), None)) } else { Err(TrustError::Nobody) };
    };
    let pem = read(root, ROOT_BYTES_MAX)?;
    let roots = TrustRoots::read(&[&String::from_utf8_lossy(&pem)]).map_err(refused(root))?;
    watches.push((Watch::new(vec![policy.clone()]), |shared| {
        shared.trust.iter().for_each(|trust| trust.reload(shared));
    }));
    let folder = config.state_folder.clone().unwrap_or_else(|| beside(policy));
    let taken = Arc::new(TakenFile::open(&folder, &config.environment, snapshot, config.offline)?);
    let trust = read_policy(policy, &roots, taken.serial())?;
    taken.take_serial(trust.serial());
    let keep = Arc::clone(&taken);
    let keep = Box::new(move |index: &Taken| keep.take_index(index));
    let judge = Arc::new(judge(Some(trust)).remembering(taken.index(), keep));
    let files = TrustFiles {
        policy: policy.clone(),
        roots,
        taken,
        judge: Arc::clone(&judge),
        reloads_taken: AtomicU64::new(0),
        reloads_refused: AtomicU64::new(0),
    };
    Ok((judge, Some(files)))
}

impl TrustFiles {
    /// Takes the policy as it is now, and has what serves judged by it; or keeps what was.
    fn reload(&self, shared: &Shared) {
        match read_policy(&self.policy, &self.roots, self.taken.serial()) {
            Ok(trust) => {
                tracing::info!(serial = trust.serial(), "the trust policy was read again");
                self.taken.take_serial(trust.serial());
                self.judge.trust(trust);
                self.reloads_taken.fetch_add(1, Ordering::Relaxed);
                judge_again(shared);
            }
            Err(error) => {
                tracing::error!(%error, "the new trust policy is not used; the last one stays");
                self.reloads_refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// On this thread, and not behind the loads: one of those may take minutes, and what is revoked must not serve so long.
fn judge_again(shared: &Shared) {
    let Some(loader) = shared.loader.get() else { return };
    if catch_unwind(AssertUnwindSafe(|| loader.judge_again())).is_err() {
        tracing::error!("verifying what serves panicked; it is verified with the next snapshot");
    }
}

/// Where what was taken is kept unless a folder is named.
fn beside(policy: &Path) -> PathBuf {
    let mut name = policy.as_os_str().to_owned();
    name.push(".state");
    PathBuf::from(name)
}

fn read_policy(path: &Path, roots: &TrustRoots, serial_least: u64) -> Result<Trust, TrustError> {
    let now = WallClock::system().now_ms().div_euclid(1000);
    Trust::read(&read(path, TRUST_BYTES_MAX)?, roots, now, serial_least).map_err(refused(path))
}

fn refused(path: &Path) -> impl FnOnce(Refused) -> TrustError {
    let path = path.to_owned();
    move |refused| TrustError::Refused { path, refused: Box::new(refused) }
}

/// One byte more than is taken: whoever reads it refuses it as too large.
fn read(path: &Path, bytes_max: usize) -> Result<Vec<u8>, TrustError> {
    let unreadable = |cause| TrustError::Unreadable { path: path.to_owned(), cause };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_trust_does_not_start_unless_the_unsigned_is_allowed() {
        let Err(error) = open(&ServerConfig::default(), Path::new(""), &mut Vec::new()) else {
            panic!("it trusts nobody")
        };
        let words = error.to_string();
        assert!(words.contains("--trust-root") && words.contains("--unsigned allow"), "{words}");
        let config = ServerConfig { unsigned: "allow".to_owned(), ..ServerConfig::default() };
        assert!(open(&config, Path::new(""), &mut Vec::new()).is_ok());
    }

    #[test]
    fn files_of_trust_that_cannot_be_taken_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root.pub");
        let config = ServerConfig {
            trust_root: Some(root.clone()),
            trust_policy: Some(folder.path().join("trust.json")),
            ..ServerConfig::default()
        };
        let error =
            |config| open(&config, Path::new(""), &mut Vec::new()).err().expect("not taken").to_string();
        assert!(error(config.clone()).contains("root.pub"));
        std::fs::write(&root, "no key").unwrap();
        assert!(error(config).contains("root.pub is not taken: malformed: "));
    }
}
