//! Public keys: ECDSA on OMS's three curves with their hashes, parsed from PEM.
//!
//! Knows neither a key's holder nor its purpose.

use crate::refused::Refused;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use flyball_core::Digest;
use p521::ecdsa::{Signature, VerifyingKey, signature::Verifier as _};
use ring::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1, UnparsedPublicKey};
use std::fmt;

/// The bytes before the point in a SubjectPublicKeyInfo. Constant for a curve and an uncompressed point.
const P256_HEAD: &[u8] = b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";
const P384_HEAD: &[u8] =
    b"\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00";
const P521_HEAD: &[u8] =
    b"\x30\x81\x9b\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x23\x03\x81\x86\x00";
const BEGIN: &str = "-----BEGIN PUBLIC KEY-----\n";
const END: &str = "-----END PUBLIC KEY-----\n";
/// Base64 characters in a line of PEM.
const LINE: usize = 64;
const UNCOMPRESSED: u8 = 4;

#[derive(Clone)]
pub(crate) struct PublicKey {
    hint: String,
    point: Point,
}

#[derive(Clone)]
enum Point {
    P256(Vec<u8>),
    P384(Vec<u8>),
    P521(Box<VerifyingKey>),
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PublicKey").field(&self.hint).finish()
    }
}

impl PublicKey {
    /// Parses one key. Only the canonical text is accepted: the hint is made of the text, so another spelling
    /// would be another key.
    pub(crate) fn read(what: &'static str, pem: &str) -> Result<PublicKey, Refused> {
        let malformed = |why: &str| Refused::Malformed { what, why: format!("a public key in it {why}") };
        let body = pem.strip_prefix(BEGIN).and_then(|pem| pem.strip_suffix(END));
        let body =
            body.ok_or_else(|| malformed("is not PEM (SPKI, every line with its end)"))?.replace('\n', "");
        let der = STANDARD.decode(body).map_err(|_| malformed("is not base64"))?;
        if canonical(&der) != pem {
            return Err(malformed("is not written as OMS has it: lines of 64 characters, each with its end"));
        }
        if !is_sequence(&der) {
            return Err(malformed("is not a key"));
        }
        let point = |head: &[u8], coordinate: usize| {
            der.strip_prefix(head)
                .filter(|point| point.len() == 1 + 2 * coordinate && point[0] == UNCOMPRESSED)
        };
        let point = if let Some(point) = point(P256_HEAD, 32) {
            Point::P256(point.to_vec())
        } else if let Some(point) = point(P384_HEAD, 48) {
            Point::P384(point.to_vec())
        } else if let Some(point) = point(P521_HEAD, 66) {
            let key = VerifyingKey::from_sec1_bytes(point).map_err(|_| malformed("is not on its curve"))?;
            Point::P521(Box::new(key))
        } else {
            let why = "a public key in it is not one of ECDSA on P-256, P-384 or P-521".to_owned();
            return Err(Refused::Unsupported { what, why });
        };
        Ok(PublicKey { hint: Digest::of(pem.as_bytes()).hex(), point })
    }

    /// Parses every key of a file, in order.
    pub(crate) fn read_all(what: &'static str, pems: &str) -> Result<Vec<PublicKey>, Refused> {
        let pems = pems.trim_ascii_start().split_inclusive(END).map(str::trim_ascii_start);
        pems.filter(|pem| !pem.is_empty()).map(|pem| PublicKey::read(what, pem)).collect()
    }

    /// Lower-case hex, as OMS writes it in bundles.
    pub(crate) fn hint(&self) -> &str {
        &self.hint
    }

    /// Whether this key made the signature, in DER, of the message.
    pub(crate) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match &self.point {
            Point::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(message, signature).is_ok()
            }
            Point::P384(point) => {
                UnparsedPublicKey::new(&ECDSA_P384_SHA384_ASN1, point).verify(message, signature).is_ok()
            }
            Point::P521(key) => {
                Signature::from_der(signature).is_ok_and(|signature| key.verify(message, &signature).is_ok())
            }
        }
    }
}

/// The canonical text of a key: its SHA-256, with the last newline, is the hint. (OMS hashes the text, not
/// the DER.)
fn canonical(der: &[u8]) -> String {
    let base64 = STANDARD.encode(der);
    let mut pem = BEGIN.to_owned();
    for line in base64.as_bytes().chunks(LINE) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str(END);
    pem
}

/// Whether this is one whole DER sequence, as every public key is.
fn is_sequence(der: &[u8]) -> bool {
    match *der {
        [0x30, length @ ..=0x7f, ref body @ ..] => body.len() == usize::from(length),
        [0x30, 0x81, length, ref body @ ..] => body.len() == usize::from(length),
        [0x30, 0x82, high, low, ref body @ ..] => body.len() == usize::from(high) << 8 | usize::from(low),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEM: &str = "-----BEGIN PUBLIC KEY-----\n\
        MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAENlB989NLw7aKH1kVRJRcauIeAwko\n\
        6jZZqtgvXUf1PKPnPbV0RQu9y6qK0gfheK9q0us7+p8Q5TWHEMxqbf+m2A==\n\
        -----END PUBLIC KEY-----\n";

    fn label(pem: &str) -> Result<String, &'static str> {
        PublicKey::read("it", pem).map(|key| key.hint().to_owned()).map_err(|refused| refused.label())
    }

    #[test]
    fn a_key_has_one_spelling_and_its_hint_is_the_digest_of_that() {
        assert_eq!(label(PEM), Ok(Digest::of(PEM.as_bytes()).hex()));
        let body = PEM.replace('\n', "");
        for other in [&PEM[..PEM.len() - 1], &format!(" {PEM}"), &PEM.replace('\n', "\r\n"), &body, ""] {
            assert_eq!(label(other), Err("malformed"), "{other:?}");
        }
    }

    #[test]
    fn a_key_of_another_kind_is_not_served_and_bytes_that_are_no_key_are_not_read() {
        let ed25519 = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n";
        assert_eq!(label(ed25519), Err("unsupported"));
        assert_eq!(label(&canonical(b"\x30\x03\x02\x01")), Err("malformed"));
        assert_eq!(label(&canonical(&[0; 91])), Err("malformed"));
    }

    #[test]
    fn a_file_may_hold_several_keys_and_nothing_else() {
        let keys = |text: &str| PublicKey::read_all("it", text).map(|keys| keys.len());
        assert_eq!(keys(&format!("{PEM}\n{PEM}")), Ok(2));
        assert_eq!(keys("\n"), Ok(0));
        assert!(keys(&format!("{PEM}and more")).is_err());
    }
}
