//! The files of trust: root keys, and the policy that one of them signed.
//!
//! The policy is reloaded when it changes; an unusable one leaves the last good one in place.

use crate::ServerConfig;
use crate::anti_rollback::AntiRollbackFile;
use crate::files::{Reload, Reloads, Watch};
use crate::shared::Shared;
use flyball_core::WallClock;
use flyball_deployments::{IndexMark, TrustGate};
use flyball_signing::{Refused, TRUST_BYTES_MAX, Trust, TrustRoots};
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Enough for many keys of some hundred bytes.
const ROOT_BYTES_MAX: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error(
        "this server trusts nobody, so it could serve nothing; give --trust-root FILE and --trust-policy FILE \
         (`flyball trust init` makes them), or --unsigned allow to serve unsigned deployments"
    )]
    Nobody,
    #[error("cannot read {}: {cause}; --trust-root and --trust-policy name the files of trust", path.display())]
    Unreadable { path: PathBuf, cause: io::Error },
    #[error("{} is refused: {}: {refused}", path.display(), refused.label())]
    Refused { path: PathBuf, refused: Box<Refused> },
    #[error(
        "cannot save the anti-rollback state in {}: {cause}; give a writable folder: --state-folder DIR",
        path.display()
    )]
    State { path: PathBuf, cause: io::Error },
}

/// The files of trust, and the gate that uses them.
pub(crate) struct TrustFiles {
    policy: PathBuf,
    roots: TrustRoots,
    /// Has the highest accepted serial: an older policy must not restore revoked keys.
    anti_rollback: Arc<AntiRollbackFile>,
    gate: Arc<TrustGate>,
    pub(crate) reloads: Reloads,
}

/// Opens the trust gate, and the files of trust if configured.
pub(crate) fn open(
    config: &ServerConfig,
    snapshot: &Path,
    watches: &mut Vec<(Watch, Reload)>,
) -> Result<(Arc<TrustGate>, Option<TrustFiles>), TrustError> {
    let allow_unsigned = config.allows_unsigned();
    let gate = |trust| TrustGate::new(trust, &config.environment, allow_unsigned, WallClock::system());
    let (Some(root), Some(policy)) = (&config.trust_root, &config.trust_policy) else {
        return if allow_unsigned { Ok((Arc::new(gate(None)), None)) } else { Err(TrustError::Nobody) };
    };
    let pem = read(root, ROOT_BYTES_MAX)?;
    let roots = TrustRoots::read(&[&String::from_utf8_lossy(&pem)]).map_err(refused(root))?;
    watches.push((Watch::new(vec![policy.clone()]), |shared| {
        shared.trust.iter().for_each(|trust| trust.reload(shared));
    }));
    let folder = config.state_folder.clone().unwrap_or_else(|| beside(policy));
    let anti_rollback =
        Arc::new(AntiRollbackFile::open(&folder, &config.environment, snapshot, config.offline)?);
    let trust = read_policy(policy, &roots, anti_rollback.serial())?;
    anti_rollback.advance_serial(trust.serial());
    let keep = Arc::clone(&anti_rollback);
    let keep = Box::new(move |index: &IndexMark| keep.advance_index(index));
    let gate = Arc::new(gate(Some(trust)).remembering(anti_rollback.index(), keep));
    let files = TrustFiles {
        policy: policy.clone(),
        roots,
        anti_rollback,
        gate: Arc::clone(&gate),
        reloads: Reloads::default(),
    };
    Ok((gate, Some(files)))
}

impl TrustFiles {
    /// Reads the policy again and verifies the serving deployments; keeps the old one if the new one is refused.
    fn reload(&self, shared: &Shared) {
        let policy = read_policy(&self.policy, &self.roots, self.anti_rollback.serial());
        self.reloads.apply(policy, "the new trust policy is not used; the last one stays", |trust| {
            tracing::info!(serial = trust.serial(), "the trust policy was read again");
            self.anti_rollback.advance_serial(trust.serial());
            self.gate.trust(trust);
            recheck(shared);
        });
    }
}

/// Not queued behind loads: a load may take minutes, and revoked deployments must stop sooner.
fn recheck(shared: &Shared) {
    let Some(loader) = shared.loader.get() else { return };
    if catch_unwind(AssertUnwindSafe(|| loader.recheck())).is_err() {
        tracing::error!(
            "verifying the serving deployments panicked; they are verified with the next snapshot"
        );
    }
}

/// The default folder of the anti-rollback file.
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

/// Reads one byte more than allowed, so that the parser refuses an oversized file.
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
        assert!(error(config).contains("root.pub is refused: malformed: "));
    }
}
