//! The cryptography of subjects' keys.
//!
//! HKDF-SHA-256 derives keys from the key-encryption key, HMAC-SHA-256 makes tokens, AES-256-GCM encrypts
//! keys and personal data. Pure functions; no secret is ever printed.

use super::KeyError;
use super::kek_source::Kek;
use super::subjects::{KeyEntry, Stored, WRAPPED_BYTES};
use crate::Hash;
use flyball_core::DecisionId;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use ring::{hkdf, hmac};
use zeroize::Zeroizing;

const FOR_TOKENS: &[u8] = b"flyball subject token";
const FOR_KEYS: &[u8] = b"flyball subject key";

#[derive(Debug, PartialEq, Eq)]
pub enum Unsealed {
    Plain(Vec<u8>),
    /// The subject's key was deleted.
    Erased,
}

/// Secrets derived from the key-encryption key.
pub(super) struct Secrets {
    tokens: hmac::Key,
    keys: LessSafeKey,
    random: SystemRandom,
}

impl Secrets {
    pub(super) fn of(kek: &Kek) -> Secrets {
        let source = hkdf::Salt::new(hkdf::HKDF_SHA256, &[]).extract(&kek[..]);
        let derive = |purpose: &[u8]| {
            let mut key = Zeroizing::new([0; 32]);
            source
                .expand(&[purpose], hkdf::HKDF_SHA256)
                .and_then(|derived| derived.fill(&mut key[..]))
                .expect("HKDF-SHA-256 gives 32 bytes");
            key
        };
        Secrets {
            tokens: hmac::Key::new(hmac::HMAC_SHA256, &derive(FOR_TOKENS)[..]),
            keys: aes(&derive(FOR_KEYS)),
            random: SystemRandom::new(),
        }
    }

    pub(super) fn token(&self, subject: &[u8]) -> Hash {
        Hash(hmac::sign(&self.tokens, subject).as_ref().try_into().expect("HMAC-SHA-256 has 32 bytes"))
    }

    /// A new key and its entry in the file.
    pub(super) fn new_key(&self, token: &Hash) -> Result<(Dek, KeyEntry), KeyError> {
        let mut dek = Dek::default();
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut dek.0[..]).map_err(|_| KeyError::NoRandom)?;
        self.random.fill(&mut nonce).map_err(|_| KeyError::NoRandom)?;
        let mut wrapped = [0; WRAPPED_BYTES];
        wrapped[..32].copy_from_slice(&dek.0[..]);
        let tag = self
            .keys
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(token.0),
                &mut wrapped[..32],
            )
            .expect("32 bytes fit into a message");
        wrapped[32..].copy_from_slice(tag.as_ref());
        Ok((dek, KeyEntry::new(Stored::Live, *token, nonce, wrapped)))
    }

    /// The file's first entry, which only the same key-encryption key opens.
    pub(super) fn check(&self) -> Result<KeyEntry, KeyError> {
        let (_, mut entry) = self.new_key(&Hash::default())?;
        entry.stored = Stored::Check;
        Ok(entry)
    }

    pub(super) fn fits(&self, first: &KeyEntry) -> bool {
        first.stored == Stored::Check && self.unwrap(first).is_some()
    }

    pub(super) fn unwrap(&self, entry: &KeyEntry) -> Option<Dek> {
        let mut wrapped = Zeroizing::new(entry.wrapped);
        let nonce = Nonce::assume_unique_for_key(entry.nonce);
        let opened = self.keys.open_in_place(nonce, Aad::from(entry.token.0), &mut wrapped[..]).ok()?;
        let mut dek = Dek::default();
        dek.0.copy_from_slice(opened);
        Some(dek)
    }
}

fn aes(key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect("AES-256 takes 32 bytes"))
}

/// A subject's key.
#[derive(Clone, Default)]
pub(super) struct Dek(Zeroizing<[u8; 32]>);

impl Dek {
    pub(super) fn seal(&self, token: &Hash, id: DecisionId, personal: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(personal);
        let tag = aes(&self.0)
            .seal_in_place_separate_tag(nonce(id), Aad::from(bound(token, id)), &mut out[start..])
            .expect("a record is within the limit of AES-GCM");
        out.extend_from_slice(tag.as_ref());
    }

    pub(super) fn open(&self, token: &Hash, id: DecisionId, sealed: &[u8]) -> Option<Vec<u8>> {
        let mut plain = sealed.to_vec();
        let length =
            aes(&self.0).open_in_place(nonce(id), Aad::from(bound(token, id)), &mut plain).ok()?.len();
        plain.truncate(length);
        Some(plain)
    }
}

/// Ids are unique, and so are their lower 96 bits: 74 of them are random.
fn nonce(id: DecisionId) -> Nonce {
    let [_, _, _, _, low @ ..] = id.0.to_be_bytes();
    Nonce::assume_unique_for_key(low)
}

/// Associated data that binds a ciphertext to one record and one subject.
fn bound(token: &Hash, id: DecisionId) -> [u8; 48] {
    let mut bound = [0; 48];
    bound[..16].copy_from_slice(&id.0.to_be_bytes());
    bound[16..].copy_from_slice(&token.0);
    bound
}
