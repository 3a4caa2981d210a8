//! The test vectors of the OMS specification, and bundles of the reference tool.

use crate::signer::{NOW, POLICY, Signer, bytes};
use flyball_core::Digest;
use flyball_signing::{Manifest, Refused, Trust, TrustRoots};
use serde_json::{Value, json};
use std::fs;

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/oms");

fn vector(file: &str) -> Vec<u8> {
    fs::read(format!("{VECTORS}/{file}")).expect("it is checked in")
}

/// Verified with a policy in which the vectors' key may sign.
fn judged(bundle: &[u8]) -> Result<Manifest, Refused> {
    let root = Signer::new();
    let pem = String::from_utf8(vector("key.pub")).expect("it is a text");
    let mut policy = root.policy();
    policy["keys"][0]["hint"] = json!(Digest::of(pem.as_bytes()).hex());
    policy["keys"][0]["pem"] = json!(pem);
    let policy = bytes(&root.envelope(POLICY, &bytes(&policy)));
    let roots = TrustRoots::read(&[&root.pem]).expect("it is a key");
    Trust::read(&policy, &roots, NOW, 0).expect("it is sound").package(bundle, NOW)
}

#[test]
fn the_vector_in_key_mode_has_a_good_signature_and_leaves_out_more_than_we_allow() {
    let bundle = vector("v1.0/valid/key.bundle.json");
    assert_eq!(judged(&bundle), Err(Refused::IgnoredPaths { path: "ignore-me".to_owned() }));
    let mut changed: Value = serde_json::from_slice(&bundle).expect("it is JSON");
    let payload = changed["dsseEnvelope"]["payload"].as_str().expect("a text").replacen("ewog", "ewoK", 1);
    changed["dsseEnvelope"]["payload"] = json!(payload);
    assert_eq!(judged(&bytes(&changed)).map_err(|refused| refused.label()), Err("bad_signature"));
}

#[test]
fn every_other_vector_is_refused_for_what_is_wrong_with_it() {
    for (file, reason) in [
        ("valid/certificate", "unsupported"),
        ("valid/sigstore", "unsupported"),
        ("invalid/empty", "malformed"),
        ("invalid/missing-envelope", "malformed"),
        ("invalid/missing-tlog-entries", "unsupported"),
        ("invalid/missing-verification-material", "malformed"),
        ("invalid-payload/wrong-predicate", "bad_signature"),
    ] {
        let judged = judged(&vector(&format!("v1.0/{file}.bundle.json")));
        assert_eq!(judged.map_err(|refused| refused.label()), Err(reason), "{file}");
    }
}
