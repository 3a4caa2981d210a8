//! The signature of a gap record: the last pair of its map, over the payload as it would be without that pair, and the hash
//! that its frame names as the one before it. So a record that was signed once cannot cover what is removed elsewhere.
//! Must not know who writes gap records, nor when.

use crate::format::Hash;
use crate::log::head_of_record;
use ring::signature::{ED25519, UnparsedPublicKey};

const SIGNATURE_BYTES: usize = 64;
/// `"signature"`, then the head of so many bytes.
const PAIR: &[u8] = b"\x69signature\x58\x40";
/// A gap record has fewer pairs than this, so its map's head is one byte.
const SHORT_MAP: std::ops::RangeInclusive<u8> = 0xa1..=0xb7;

pub(crate) fn is_gap(payload: &[u8]) -> bool {
    head_of_record(payload).is_some_and(|(kind, _)| kind == "gap")
}

/// Whether it is what the key has signed, for the place where it stands.
pub(crate) fn is_signed(payload: &[u8], prev: &Hash, key: &[u8; 32]) -> bool {
    let Some((signed, signature)) = parts(payload, prev) else { return false };
    UnparsedPublicKey::new(&ED25519, key).verify(&signed, signature).is_ok()
}

/// Signs it for another place: one that was not kept is written again behind another frame.
pub(crate) fn sign_anew(
    payload: &mut [u8],
    prev: &Hash,
    sign: impl FnOnce(&[u8]) -> ring::signature::Signature,
) {
    let Some(signature) = parts(payload, prev).map(|(signed, _)| sign(&signed)) else { return };
    let place = payload.len() - SIGNATURE_BYTES;
    payload[place..].copy_from_slice(signature.as_ref());
}

/// What is signed, and the signature.
fn parts<'a>(payload: &'a [u8], prev: &Hash) -> Option<(Vec<u8>, &'a [u8; SIGNATURE_BYTES])> {
    let (rest, signature) = payload.split_last_chunk::<SIGNATURE_BYTES>()?;
    let mut signed = rest.strip_suffix(PAIR)?.to_vec();
    SHORT_MAP.contains(signed.first()?).then(|| signed[0] -= 1)?;
    signed.extend_from_slice(&prev.0);
    Some((signed, signature))
}
