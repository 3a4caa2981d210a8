//! Checkpoints: the state of the log as a signed note (C2SP `signed-note`, Ed25519).
//!
//! Notes can be stored elsewhere. Knows no files. A note and the public key suffice to verify it.

use crate::format::Hash;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest::{Context, SHA256};
use ring::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};

/// Longer than any note with a few witness signatures.
pub const NOTE_BYTES_MAX: usize = 16 << 10;
const ORIGIN: &str = "flyball-journal/";
const SIGNED: &str = "\u{2014} ";
/// The first byte of a signature names its scheme; 1 is Ed25519.
const ED25519_SCHEME: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub node: [u8; 16],
    /// The number of sealed segments.
    pub sealed: u64,
    /// The root of the tree over their roots.
    pub root: Hash,
    /// The segment being written.
    pub open: u64,
    /// Its frames on disk.
    pub open_frames: u64,
    /// The leaf of the last of them; the header's if there were none.
    pub open_last: Hash,
    pub unix_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    #[error("it is not a checkpoint of a journal: line {0} is invalid")]
    Line(usize),
    #[error("it has more than {NOTE_BYTES_MAX} bytes")]
    Long,
    #[error("no signature by the key {0:?}")]
    OtherKey(Hash),
    #[error("the signature is wrong")]
    Signature,
}

impl Checkpoint {
    /// The signed text.
    pub fn text(&self) -> String {
        let Checkpoint { sealed, root, open, open_frames, open_last, unix_ms, .. } = self;
        let (origin, root) = (self.origin(), STANDARD.encode(root.0));
        format!("{origin}\n{sealed}\n{root}\nopen {open} {open_frames} {open_last}\ntime {unix_ms}\n")
    }

    /// The whole note.
    pub fn sign(&self, key: &Ed25519KeyPair) -> String {
        use ring::signature::KeyPair;
        let (text, origin) = (self.text(), self.origin());
        let mut signature = key_hash(&origin, key.public_key().as_ref()).to_vec();
        signature.extend_from_slice(key.sign(text.as_bytes()).as_ref());
        format!("{text}\n{SIGNED}{origin} {}\n", STANDARD.encode(signature))
    }

    /// Parses a note without verifying signatures.
    pub fn parse(note: &str) -> Result<Checkpoint, NoteError> {
        Ok(parts(note)?.0)
    }

    /// Parses a note and verifies this key's signature. Ignores other signatures, such as those of witnesses.
    pub fn verify(note: &str, key: &[u8; 32]) -> Result<Checkpoint, NoteError> {
        let (checkpoint, text, signatures) = parts(note)?;
        let origin = checkpoint.origin();
        let ours = key_hash(&origin, key);
        let signature = signatures
            .lines()
            .filter_map(|line| line.strip_prefix(SIGNED)?.strip_prefix(origin.as_str())?.strip_prefix(' '))
            .filter_map(|base64| STANDARD.decode(base64).ok())
            .find(|bytes| bytes.starts_with(&ours))
            .ok_or(NoteError::OtherKey(Hash(*key)))?;
        UnparsedPublicKey::new(&ED25519, key)
            .verify(text.as_bytes(), &signature[ours.len()..])
            .map_err(|_| NoteError::Signature)?;
        Ok(checkpoint)
    }

    fn origin(&self) -> String {
        format!("{ORIGIN}{}", hex(&self.node))
    }
}

/// The length of the note at the start of `text`. None: incomplete, or not a note.
pub fn note_length(text: &str) -> Option<usize> {
    let signatures = text.find("\n\n")? + 2;
    let mut end = signatures;
    for line in text[signatures..].split_inclusive('\n') {
        if !line.starts_with(SIGNED) || !line.ends_with('\n') {
            break;
        }
        end += line.len();
    }
    (end > signatures).then_some(end)
}

fn key_hash(name: &str, key: &[u8]) -> [u8; 4] {
    let mut context = Context::new(&SHA256);
    context.update(name.as_bytes());
    context.update(&[b'\n', ED25519_SCHEME]);
    context.update(key);
    *context.finish().as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}

/// The checkpoint, the signed text, and the signature lines.
fn parts(note: &str) -> Result<(Checkpoint, &str, &str), NoteError> {
    if note.len() > NOTE_BYTES_MAX {
        return Err(NoteError::Long);
    }
    let (body, signatures) = note.split_once("\n\n").ok_or(NoteError::Line(6))?;
    let text = &note[..body.len() + 1];
    let mut lines = body.split('\n');
    let mut line = |number| lines.next().ok_or(NoteError::Line(number));
    let node = line(1)?.strip_prefix(ORIGIN).and_then(unhex).ok_or(NoteError::Line(1))?;
    let sealed = number(line(2)?).ok_or(NoteError::Line(2))?;
    let root = STANDARD.decode(line(3)?).ok().and_then(|bytes| bytes.try_into().ok()).map(Hash);
    let root = root.ok_or(NoteError::Line(3))?;
    let (open, open_frames, open_last) = opened(line(4)?).ok_or(NoteError::Line(4))?;
    let unix_ms = line(5)?.strip_prefix("time ").and_then(number).ok_or(NoteError::Line(5))?;
    if line(6).is_ok() {
        return Err(NoteError::Line(6));
    }
    let checkpoint = Checkpoint { node, sealed, root, open, open_frames, open_last, unix_ms };
    // Only the canonical form is accepted, so that the parsed text is the signed one.
    if checkpoint.text() != text {
        return Err(NoteError::Line(1));
    }
    Ok((checkpoint, text, signatures))
}

fn opened(line: &str) -> Option<(u64, u64, Hash)> {
    let mut words = line.strip_prefix("open ")?.split(' ');
    let opened = (number(words.next()?)?, number(words.next()?)?, Hash(unhex(words.next()?)?));
    words.next().is_none().then_some(opened)
}

fn number<N: std::str::FromStr>(text: &str) -> Option<N> {
    text.parse().ok()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])).collect()
}

/// Decodes lower-case hex of exactly N bytes.
pub fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    if pairs.len() != N {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::KeyPair;

    fn checkpoint() -> Checkpoint {
        Checkpoint {
            node: [0xab; 16],
            sealed: 3,
            root: Hash([1; 32]),
            open: 4,
            open_frames: 17,
            open_last: Hash([2; 32]),
            unix_ms: 1_700_000_000_000,
        }
    }

    fn key() -> (Ed25519KeyPair, [u8; 32]) {
        let key = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a seed has 32 bytes");
        let public = key.public_key().as_ref().try_into().expect("a key has 32 bytes");
        (key, public)
    }

    #[test]
    fn a_signed_note_reads_back_and_names_its_origin_on_both_lines() {
        let (key, public) = key();
        let note = checkpoint().sign(&key);
        let origin = format!("flyball-journal/{}", "ab".repeat(16));
        assert!(note.starts_with(&format!("{origin}\n3\n")), "{note}");
        assert!(note.contains(&format!("\n\n\u{2014} {origin} ")), "{note}");
        assert_eq!(Checkpoint::verify(&note, &public), Ok(checkpoint()));
        assert_eq!(note_length(&format!("{note}{note}")), Some(note.len()));
    }

    #[test]
    fn any_changed_byte_of_a_note_is_found() {
        let (key, public) = key();
        let note = checkpoint().sign(&key);
        for place in 0..note.len() {
            let mut bytes = note.clone().into_bytes();
            bytes[place] ^= 1;
            // A note that is not UTF-8 cannot be parsed at all.
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            assert!(Checkpoint::verify(&changed, &public).is_err(), "byte {place}");
        }
    }

    #[test]
    fn signatures_of_witnesses_are_passed_over_and_other_keys_are_named() {
        let (key, public) = key();
        let note = checkpoint().sign(&key);
        let witnessed = note.replacen("\n\n", "\n\n\u{2014} witness.example/w AAAAAAAA\n", 1);
        assert_eq!(Checkpoint::verify(&witnessed, &public), Ok(checkpoint()));
        assert_eq!(note_length(&witnessed), Some(witnessed.len()));
        assert_eq!(Checkpoint::verify(&note, &[9; 32]), Err(NoteError::OtherKey(Hash([9; 32]))));
    }
}
