//! No bytes of a bundle, of a release, of a trust policy or of the index's signature may panic their readers: neither as a
//! stranger sends them, nor as the payload of somebody whose key counts. Without that second way no byte would ever get past
//! the signature.
#![no_main]

#[path = "../../crates/signing/tests/signed/signer.rs"]
#[allow(dead_code)] // the tests sign more than this
mod signer;

use flyball_signing::{Refused, Trust, TrustRoots};
use libfuzzer_sys::fuzz_target;
use signer::{INDEX, NOW, POLICY, STATEMENT, Signer};
use std::sync::LazyLock;

static SIGNER: LazyLock<Signer> = LazyLock::new(Signer::new);
static TRUST: LazyLock<Trust> = LazyLock::new(|| {
    let policy = signer::bytes(&SIGNER.policy());
    trust(&signer::bytes(&SIGNER.envelope(POLICY, &policy))).expect("it is sound")
});

fuzz_target!(|bytes: &[u8]| {
    read(bytes, bytes);
    read(&signer::bytes(&SIGNER.bundle(bytes)), bytes);
    for kind in [STATEMENT, POLICY, INDEX] {
        read(&signer::bytes(&SIGNER.envelope(kind, bytes)), bytes);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = TrustRoots::read(&[text]);
    }
});

fn trust(envelope: &[u8]) -> Result<Trust, Refused> {
    Trust::read(envelope, &TrustRoots::read(&[&SIGNER.pem])?, NOW, 0)
}

/// By every reader, and what must be true of what each of them takes.
fn read(document: &[u8], payload: &[u8]) {
    if let Ok(manifest) = TRUST.package(document, NOW) {
        let sound = |name: &String| name.split('/').all(|part| !["", ".", ".."].contains(&part));
        assert!(!manifest.files.is_empty() && manifest.files.keys().all(sound));
    }
    if let Ok(release) = TRUST.release(document, NOW, "production") {
        assert_eq!(release.subjects[0].name, format!("{}@{}", release.name, release.version));
    }
    if let Ok(trust) = trust(document) {
        assert!(trust.serial() >= 1);
    }
    let _ = TRUST.index(payload, document, NOW);
}
