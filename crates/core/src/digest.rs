//! SHA-256 digests in their one written form: `sha256:` and 64 lower-case hex digits.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::Digest as _;
use std::fmt;
use std::io::Read;
use std::str::FromStr;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 'sha256:' and 64 lower-case hex digits")]
pub struct DigestError;

impl Digest {
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(sha2::Sha256::digest(bytes).into())
    }

    /// The digest of the rest of `reader`, read in bounded chunks.
    pub fn of_reader(mut reader: impl Read) -> std::io::Result<Digest> {
        let mut hasher = sha2::Sha256::new();
        let mut piece = vec![0; 256 * 1024];
        loop {
            let length = reader.read(&mut piece)?;
            if length == 0 {
                return Ok(Digest(hasher.finalize().into()));
            }
            hasher.update(&piece[..length]);
        }
    }

    /// The digest of several parts. Each is prefixed with its length, so that the split is unambiguous.
    pub fn of_parts(write: impl FnOnce(&mut dyn FnMut(&[u8]))) -> Digest {
        let mut hasher = sha2::Sha256::new();
        write(&mut |part| {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        });
        Digest(hasher.finalize().into())
    }

    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hex digits without prefix, as used in file names.
    pub fn hex(&self) -> String {
        self.digits().map(char::from).collect()
    }

    fn digits(&self) -> impl Iterator<Item = u8> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        self.0.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
    }
}

impl fmt::Display for Digest {
    /// Formats without allocating: a response has several digests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hex = [0; 64];
        hex.iter_mut().zip(self.digits()).for_each(|(place, digit)| *place = digit);
        f.write_str("sha256:")?;
        f.write_str(std::str::from_utf8(&hex).unwrap_or_default())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = DigestError;

    fn from_str(text: &str) -> Result<Digest, DigestError> {
        let hex = text.strip_prefix("sha256:").ok_or(DigestError)?.as_bytes();
        if hex.len() != 64 {
            return Err(DigestError);
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.chunks_exact(2)) {
            *byte = (nibble(pair[0])? << 4) | nibble(pair[1])?;
        }
        Ok(Digest(bytes))
    }
}

fn nibble(character: u8) -> Result<u8, DigestError> {
    match character {
        b'0'..=b'9' => Ok(character - b'0'),
        b'a'..=b'f' => Ok(character - b'a' + 10),
        _ => Err(DigestError),
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_nothing_is_the_published_one() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), empty);
        assert_eq!(empty.parse::<Digest>(), Ok(Digest::of(b"")));
    }

    #[test]
    fn reading_in_pieces_gives_the_digest_of_the_whole() {
        let bytes = vec![7; 1_000_000];
        assert_eq!(Digest::of_reader(bytes.as_slice()).ok(), Some(Digest::of(&bytes)));
    }

    #[test]
    fn upper_case_short_and_unprefixed_digests_are_refused() {
        let good = Digest::of(b"x").to_string();
        for bad in [good.to_uppercase(), good[7..].to_owned(), good[..70].to_owned()] {
            assert_eq!(bad.parse::<Digest>(), Err(DigestError));
        }
    }
}
