//! The signature of a gap record: the last pair of its map, over the payload as it would be without that pair, and the hash
//! that its frame names as the one before it. So a record that was signed once cannot cover what is removed elsewhere.

use crate::format::Hash;
use ring::signature::{ED25519, UnparsedPublicKey};

const SIGNATURE_BYTES: usize = 64;
/// `"signature"`, then the head of so many bytes.
const PAIR: &[u8] = b"\x69signature\x58\x40";
/// A gap record has fewer pairs than this, so its map's head is one byte.
const SHORT_MAP: std::ops::RangeInclusive<u8> = 0xa1..=0xb7;

/// Whether it is what the key has signed, for the place where it stands.
pub(super) fn is_signed(payload: &[u8], prev: &Hash, key: &[u8; 32]) -> bool {
    let Some((rest, signature)) = payload.split_last_chunk::<SIGNATURE_BYTES>() else { return false };
    let (Some(pairs), Some((head, _))) = (rest.strip_suffix(PAIR), rest.split_first()) else { return false };
    if !SHORT_MAP.contains(head) {
        return false;
    }
    let mut signed = pairs.to_vec();
    signed[0] -= 1;
    signed.extend_from_slice(&prev.0);
    UnparsedPublicKey::new(&ED25519, key).verify(&signed, signature).is_ok()
}
