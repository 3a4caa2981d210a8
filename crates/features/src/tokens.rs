//! Pseudonymous tokens for keys of records and windows: HMAC-SHA-256 under a separate key.
//!
//! Stored data, and a memory dump of the caches, then identify nobody. Tokens of one key can be compared, but
//! without the key they cannot be attributed or guessed.

use flyball_core::private_file;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const KEY_BYTES: usize = 32;
/// The first half of the HMAC, in hex: 128 bits, so that no two keys of a store collide.
const TOKEN_DIGITS: usize = 32;

pub(crate) struct Tokens(hmac::Key);

/// The token of a key.
#[derive(Clone, Copy)]
pub(crate) struct Token([u8; TOKEN_DIGITS]);

impl Token {
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hex digits are ASCII")
    }
}

impl Tokens {
    /// For data that is only in memory.
    pub(crate) fn random() -> Tokens {
        Tokens::of(&random_key().expect("the operating system provides random numbers"))
    }

    /// Uses the key in a file, which is created if needed.
    pub(crate) fn kept(path: &Path) -> Result<Tokens, String> {
        if !path.exists() {
            make(path).map_err(|error| format!("cannot write the key {}: {error}", path.display()))?;
        }
        Tokens::read(path)
    }

    /// Uses the key in a file. Rejects one that others can read.
    pub(crate) fn read(path: &Path) -> Result<Tokens, String> {
        let shown = path.display();
        let file = File::open(path).map_err(|error| format!("cannot read the key {shown}: {error}"))?;
        let mode = file.metadata().map_err(|error| format!("cannot read the key {shown}: {error}"))?;
        let mode = mode.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(format!(
                "other users may read the key {shown} (mode {mode:o}); run: chmod 600 {shown}"
            ));
        }
        let mut key = Vec::with_capacity(KEY_BYTES);
        let read = file.take(KEY_BYTES as u64 + 1).read_to_end(&mut key);
        match (read, <&[u8; KEY_BYTES]>::try_from(key.as_slice())) {
            (Ok(_), Ok(key)) => Ok(Tokens::of(key)),
            _ => Err(format!("{shown} is not a key of {KEY_BYTES} bytes; restore it from a copy")),
        }
    }

    fn of(key: &[u8; KEY_BYTES]) -> Tokens {
        Tokens(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    pub(crate) fn token(&self, key: &str) -> Token {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let tag = hmac::sign(&self.0, key.as_bytes());
        let mut token = [0; TOKEN_DIGITS];
        for (pair, byte) in token.as_chunks_mut::<2>().0.iter_mut().zip(tag.as_ref()) {
            *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
        }
        Token(token)
    }

    /// The digest of a value for distinct counts.
    pub(crate) fn value(&self, kind: &[u8], value: &[u8]) -> u128 {
        let mut context = hmac::Context::with_key(&self.0);
        // Never equal to a key's token: those are signed without a kind.
        context.update(b"\0value ");
        context.update(kind);
        context.update(value);
        u128::from_be_bytes(*context.sign().as_ref().first_chunk().expect("HMAC-SHA-256 has 32 bytes"))
    }
}

fn random_key() -> io::Result<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    let filled = SystemRandom::new().fill(&mut key);
    filled.map_err(|_| io::Error::other("the system provides no random numbers"))?;
    Ok(key)
}

/// Writes the key atomically and durably: without it no stored data can be found again.
fn make(path: &Path) -> io::Result<()> {
    use std::io::Write;
    let unfinished = path.with_extension("key.new");
    let mut file = private_file(&unfinished)?;
    file.set_len(0)?;
    file.write_all(&random_key()?)?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    sync_folder_of(path)
}

/// Brings the name of a file to disk.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};

    #[test]
    fn a_key_that_is_kept_gives_the_same_tokens_again_and_another_gives_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.key");
        let token = Tokens::kept(&path).unwrap().token("4242");
        assert_eq!(Tokens::kept(&path).unwrap().token("4242").as_str(), token.as_str());
        assert_ne!(Tokens::random().token("4242").as_str(), token.as_str());
        assert_eq!(
            (token.as_str().len(), fs::metadata(&path).unwrap().permissions().mode() & 0o777),
            (32, 0o600)
        );
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert!(Tokens::read(&path).err().unwrap().contains("chmod 600"));
    }
}
