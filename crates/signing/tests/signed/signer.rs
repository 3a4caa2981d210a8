//! A signer for tests: this crate only verifies, and validly signed input must not break it either.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flyball_core::Digest;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};

pub(crate) const NOW: i64 = 1_800_000_000;
const BEFORE: &str = "2027-01-01T00:00:00Z";
const AFTER: &str = "2028-01-01T00:00:00Z";
pub(crate) const POLICY: &str = "application/vnd.flyball.trust.v1+json";
pub(crate) const STATEMENT: &str = "application/vnd.in-toto+json";
pub(crate) const INDEX: &str = "application/vnd.flyball.index.v1+json";

pub(crate) struct Signer {
    key: EcdsaKeyPair,
    pub(crate) pem: String,
    pub(crate) hint: String,
}

impl Signer {
    pub(crate) fn new() -> Signer {
        let random = SystemRandom::new();
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).expect("a key");
        let key =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, made.as_ref(), &random).expect("a key");
        let mut der = b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00".to_vec();
        der.extend_from_slice(key.public_key().as_ref());
        let base64 = STANDARD.encode(der);
        let (first, second) = base64.split_at(64);
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{first}\n{second}\n-----END PUBLIC KEY-----\n");
        let hint = Digest::of(pem.as_bytes()).hex();
        Signer { key, pem, hint }
    }

    pub(crate) fn envelope(&self, kind: &str, payload: &[u8]) -> Value {
        let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
        message.extend_from_slice(payload);
        let signature = self.key.sign(&SystemRandom::new(), &message).expect("a signature");
        json!({
            "payload": STANDARD.encode(payload),
            "payloadType": kind,
            "signatures": [{"sig": STANDARD.encode(signature), "keyid": self.hint}],
        })
    }

    pub(crate) fn bundle(&self, statement: &[u8]) -> Value {
        json!({
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"publicKey": {"hint": self.hint}, "tlogEntries": []},
            "dsseEnvelope": self.envelope(STATEMENT, statement),
        })
    }

    /// A policy in which this key has all roles.
    pub(crate) fn policy(&self) -> Value {
        json!({
            "format": 1, "serial": 1, "issued": BEFORE, "expires": null,
            "keys": [{
                "hint": self.hint, "pem": self.pem, "name": "anna",
                "roles": ["signer", "approver", "publisher"], "from": BEFORE, "until": AFTER,
            }],
            "revoked": [], "minimum": {}, "approvals": {"low": 0, "standard": 0, "high": 0},
        })
    }

    pub(crate) fn release(&self, root: Digest) -> Value {
        json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": "fraud@4", "digest": {"sha256": root.hex()}}],
            "predicateType": "https://flyball/release/v1",
            "predicate": {
                "name": "fraud", "version": 4, "environments": ["production"], "not_before": BEFORE,
                "not_after": AFTER, "tier": "standard", "author": self.hint,
                "models": {"4": Digest::of(b"weights")}, "decision": null, "policy": null, "schema": null,
            },
        })
    }
}

/// OMS's statement of a package with one file.
pub(crate) fn statement() -> Value {
    let digest = Digest::of(b"weights");
    json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "fraud", "digest": {"sha256": root().hex()}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "resources": [{"name": "model.onnx", "algorithm": "sha256", "digest": digest.hex()}],
            "serialization": {
                "method": "files", "hash_type": "sha256", "allow_symlinks": false,
                "ignore_paths": [".git", ".gitattributes", ".github", ".gitignore"],
            },
        },
    })
}

pub(crate) fn root() -> Digest {
    Digest::of(Digest::of(b"weights").bytes())
}

pub(crate) fn bytes(document: &Value) -> Vec<u8> {
    serde_json::to_vec(document).expect("a value can be written")
}
