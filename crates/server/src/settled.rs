//! Waits until a snapshot's index and its signature match.
//!
//! They are two files. A server that starts between the two writes, or after a writer that stopped between them, finds a
//! pair that does not match. This waits for the second file, and otherwise uses the index inside the signature.

use flyball_core::snapshot::Bundle;
use flyball_signing::{EnvelopeKind, payload_of};
use std::borrow::Cow;
use std::time::Duration;

const LOOKS: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The snapshot once its two files match.
///
/// If they never do, the index inside the signature is used: the signature is written first, and everything that it names
/// exists. The signature is verified later, as always.
pub(crate) fn settled(bundle: &Bundle) -> Cow<'_, Bundle> {
    let Some(file) = bundle.file.as_deref().filter(|_| !belongs(bundle)) else {
        return Cow::Borrowed(bundle);
    };
    for _ in 0..LOOKS {
        std::thread::sleep(LOOK_EVERY);
        if let Some(whole) = Bundle::from_file(file).ok().filter(belongs) {
            return Cow::Owned(whole);
        }
    }
    match signed_index(bundle).and_then(|index| Bundle::beside(file, index).ok()).filter(belongs) {
        Some(signed) => {
            let file = file.display();
            tracing::warn!(%file, "the index differs from the one in its signature; the signed one is used");
            Cow::Owned(signed)
        }
        None => Cow::Borrowed(bundle),
    }
}

/// Whether both match. Waiting does not help with an unreadable signature.
fn belongs(bundle: &Bundle) -> bool {
    signed_index(bundle).is_none_or(|inside| inside == bundle.index_bytes)
}

/// The index inside its signature, unverified; `None` if it cannot be read.
fn signed_index(bundle: &Bundle) -> Option<Vec<u8>> {
    payload_of(EnvelopeKind::Index, bundle.signature.as_deref()?).ok()
}
