//! The signature of a gap record.
//!
//! It is the last pair of the record's map, over the payload without that pair and over the previous frame's
//! hash. A signed gap record can therefore not be moved to cover a removal elsewhere. Must not know who
//! writes gap records, nor when.

use crate::format::Hash;
use crate::log::head_of_record;
use ring::signature::{ED25519, UnparsedPublicKey};

const SIGNATURE_BYTES: usize = 64;
/// `"signature"`, then the header of that many bytes.
const PAIR: &[u8] = b"\x69signature\x58\x40";
/// A gap record has fewer pairs than this, so its map header is one byte.
const SHORT_MAP: std::ops::RangeInclusive<u8> = 0xa1..=0xb7;

pub(crate) fn is_gap(payload: &[u8]) -> bool {
    head_of_record(payload).is_some_and(|(kind, _)| kind == "gap")
}

/// Whether the key signed the payload for this position.
pub(crate) fn is_signed(payload: &[u8], prev: &Hash, key: &[u8; 32]) -> bool {
    let Some((signed, signature)) = parts(payload, prev) else { return false };
    UnparsedPublicKey::new(&ED25519, key).verify(&signed, signature).is_ok()
}

/// Signs the record for another position: one that was lost is written again after another frame.
pub(crate) fn sign_again(
    payload: &mut [u8],
    prev: &Hash,
    sign: impl FnOnce(&[u8]) -> ring::signature::Signature,
) {
    let Some(signature) = parts(payload, prev).map(|(signed, _)| sign(&signed)) else { return };
    let place = payload.len() - SIGNATURE_BYTES;
    payload[place..].copy_from_slice(signature.as_ref());
}

/// The signed bytes and the signature.
fn parts<'a>(payload: &'a [u8], prev: &Hash) -> Option<(Vec<u8>, &'a [u8; SIGNATURE_BYTES])> {
    let (rest, signature) = payload.split_last_chunk::<SIGNATURE_BYTES>()?;
    let mut signed = rest.strip_suffix(PAIR)?.to_vec();
    SHORT_MAP.contains(signed.first()?).then(|| signed[0] -= 1)?;
    signed.extend_from_slice(&prev.0);
    Some((signed, signature))
}
