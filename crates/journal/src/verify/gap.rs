//! The signature of a gap record: the last pair of its map, over the payload as it would be without that pair.

use ring::signature::{ED25519, UnparsedPublicKey};

const SIGNATURE_BYTES: usize = 64;
/// `"signature"`, then the head of so many bytes.
const PAIR: &[u8] = b"\x69signature\x58\x40";
/// A gap record has fewer pairs than this, so its map's head is one byte.
const SHORT_MAP: std::ops::RangeInclusive<u8> = 0xa1..=0xb7;

/// Whether it is what the key has signed.
pub(super) fn is_signed(payload: &[u8], key: &[u8; 32]) -> bool {
    let Some((rest, signature)) = payload.split_last_chunk::<SIGNATURE_BYTES>() else { return false };
    let (Some(pairs), Some((head, _))) = (rest.strip_suffix(PAIR), rest.split_first()) else { return false };
    if !SHORT_MAP.contains(head) {
        return false;
    }
    let mut signed = pairs.to_vec();
    signed[0] -= 1;
    UnparsedPublicKey::new(&ED25519, key).verify(&signed, signature).is_ok()
}
