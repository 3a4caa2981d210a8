//! Evaluates the trust policy: which keys count, for what and how long, and revocations.
//!
//! Callers store a policy's serial too: an older policy would restore revoked keys.

use crate::dsse::{Envelope, EnvelopeKind, Signature};
use crate::key::PublicKey;
use crate::manifest::Manifest;
use crate::policy::{POLICY, Policy};
use crate::refused::Refused;
use crate::release::{Release, Tier};
use crate::trusted_key::{Role, TrustedKey};
use flyball_core::Digest;

const ROOT: &str = "the trust root";

/// The trust policy inside its envelope, expired or not, as the base of the next one.
///
/// Without roots, signatures are not verified.
pub fn policy_inside(envelope: &[u8], roots: Option<&TrustRoots>) -> Result<Vec<u8>, Refused> {
    let envelope = Envelope::read(envelope, EnvelopeKind::Policy)?;
    if let Some(roots) = roots {
        roots.check(&envelope)?;
    }
    Policy::read(&envelope.payload)?;
    Ok(envelope.payload)
}

/// Rejects a document that is not a trust policy.
pub fn check_policy(document: &[u8]) -> Result<(), Refused> {
    Policy::read(document).map(drop)
}

/// The keys that may sign a trust policy. They come from the server's own disk, not from the network.
#[derive(Clone, Debug)]
pub struct TrustRoots {
    keys: Vec<PublicKey>,
}

/// A trust policy signed by a root key.
#[derive(Clone, Debug)]
pub struct Trust {
    policy: Policy,
}

impl TrustRoots {
    /// Public keys in PEM; each text may contain several.
    pub fn read(pems: &[&str]) -> Result<TrustRoots, Refused> {
        let mut keys = Vec::new();
        for pem in pems {
            keys.extend(PublicKey::read_all(ROOT, pem)?);
        }
        if keys.is_empty() {
            return Err(Refused::Malformed { what: ROOT, why: "it holds no public key".to_owned() });
        }
        Ok(TrustRoots { keys })
    }

    /// Requires one valid root signature.
    ///
    /// Ignores signatures of other keys: during a change of roots, a policy is signed by the old and the new
    /// one.
    fn check(&self, envelope: &Envelope) -> Result<(), Refused> {
        let message = envelope.message();
        let mut known = false;
        for signature in &envelope.signatures {
            let Some(root) = self.keys.iter().find(|root| root.hint() == signature.key) else { continue };
            if !root.verifies(&message, &signature.der) {
                let key = format!("the root key {}", root.hint());
                return Err(Refused::BadSignature { what: POLICY, key });
            }
            known = true;
        }
        if known {
            return Ok(());
        }
        Err(Refused::UnknownKey { what: POLICY, hint: envelope.signatures[0].key.clone() })
    }
}

impl Trust {
    /// Parses and verifies a policy: signed by a root key, valid now, and not older than `serial_least` (0:
    /// none yet).
    pub fn read(envelope: &[u8], roots: &TrustRoots, now: i64, serial_least: u64) -> Result<Trust, Refused> {
        let envelope = Envelope::read(envelope, EnvelopeKind::Policy)?;
        roots.check(&envelope)?;
        let trust = Trust { policy: Policy::read(&envelope.payload)? };
        if trust.serial() < serial_least {
            return Err(Refused::TrustDowngrade { serial: trust.serial(), lowest: serial_least });
        }
        trust.check_time(now)?;
        Ok(trust)
    }

    /// Store it: a policy with a lower serial must be rejected later.
    pub fn serial(&self) -> u64 {
        self.policy.serial
    }

    /// Rejects bytes that are not the index signed by a publisher.
    pub fn index(&self, index: &[u8], envelope: &[u8], now: i64) -> Result<(), Refused> {
        self.check_time(now)?;
        let envelope = Envelope::read(envelope, EnvelopeKind::Index)?;
        let what = EnvelopeKind::Index.what();
        let keys = self.signers(what, &envelope, now)?;
        if !keys.iter().any(|key| key.has(Role::Publisher)) {
            return Err(keys[0].lacks(what, Role::Publisher));
        }
        if envelope.payload != index {
            return Err(Refused::ChangedFile { file: "index.json".to_owned() });
        }
        Ok(())
    }

    /// Parses and verifies a release for now and this environment, with all approvals that its tier needs.
    pub fn release(&self, envelope: &[u8], now: i64, environment: &str) -> Result<Release, Refused> {
        self.check_time(now)?;
        Release::read(self, envelope, now, environment)
    }

    /// Parses and verifies an OMS bundle. `Manifest::check_folder` verifies the files themselves.
    pub fn package(&self, bundle: &[u8], now: i64) -> Result<Manifest, Refused> {
        self.check_time(now)?;
        Manifest::read(self, bundle, now)
    }

    /// The keys that signed an envelope, in order; all signatures are valid.
    pub fn signed_by(
        &self,
        kind: EnvelopeKind,
        envelope: &[u8],
        now: i64,
    ) -> Result<Vec<&TrustedKey>, Refused> {
        self.check_time(now)?;
        self.signers(kind.what(), &Envelope::read(envelope, kind)?, now)
    }

    /// Checked on every call: a policy may expire while it is in use.
    fn check_time(&self, now: i64) -> Result<(), Refused> {
        match &self.policy.expires {
            Some(expires) if now >= expires.unix => Err(Refused::TrustExpired { at: expires.to_string() }),
            _ => Ok(()),
        }
    }

    /// The keys of an envelope's signatures, in order. Each must be valid: one bad signature among good ones
    /// indicates an attack.
    pub(crate) fn signers(
        &self,
        what: &'static str,
        envelope: &Envelope,
        now: i64,
    ) -> Result<Vec<&TrustedKey>, Refused> {
        let message = envelope.message();
        let signer = |signature: &Signature| {
            let key = self.key(what, &signature.key, now)?;
            key.check_signature(what, &message, signature)?;
            Ok(key)
        };
        envelope.signatures.iter().map(signer).collect()
    }

    /// The key with this hint, if it is valid now. `what` names the signed document in errors.
    pub fn key(&self, what: &'static str, hint: &str, now: i64) -> Result<&TrustedKey, Refused> {
        let unknown = || Refused::UnknownKey { what, hint: hint.to_owned() };
        let key = self.policy.keys.get(hint).ok_or_else(unknown)?;
        if let Some(revoked) = self.policy.revoked_keys.get(hint) {
            let (at, why) = (revoked.at.to_string(), revoked.why.clone());
            return Err(Refused::KeyRevoked { what, key: key.shown(), at, why });
        }
        key.check_time(what, now)?;
        Ok(key)
    }

    pub(crate) fn check_package(&self, root: Digest) -> Result<(), Refused> {
        match self.policy.revoked_packages.get(&root) {
            Some(revoked) => {
                Err(Refused::PackageRevoked { root, at: revoked.at.to_string(), why: revoked.why.clone() })
            }
            None => Ok(()),
        }
    }

    /// Names are compared without case.
    pub(crate) fn minimum(&self, name: &str) -> Option<u64> {
        self.policy.minimum.get(&name.to_ascii_lowercase()).copied()
    }

    pub(crate) fn approvals(&self, tier: Tier) -> u64 {
        self.policy.approvals[&tier]
    }
}
