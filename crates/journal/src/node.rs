//! The journal's identity: its id, and the key that signs checkpoints and gap records.

use crate::disk::{Disk, found, write_whole};
use crate::error::JournalError;
use crate::folder::Folder;
use crate::keys::mode_refused;
use crate::note::{hex, unhex};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::Path;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) id: [u8; 16],
    pub(crate) boot: [u8; 16],
    pub(crate) public: [u8; 32],
    pub(crate) key: Ed25519KeyPair,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct NodeFile {
    format: u32,
    node: String,
    key: String,
}

impl Node {
    /// Reads the identity, or creates it in a new directory.
    ///
    /// Rejects a key other than the one in `node.json`: a wrong key file must not silently become the log's
    /// signer.
    pub(crate) fn open(disk: &dyn Disk, folder: &Folder, key: Option<&Path>) -> Result<Node, JournalError> {
        let path = folder.file("node.json");
        let known = found(disk.read(&path)).map_err(JournalError::at(&path))?;
        let known = known.map(|bytes| parse(&path, &bytes)).transpose()?;
        let key = signing_key(disk, folder, key, known.is_none())?;
        let public: [u8; 32] = key.public_key().as_ref().try_into().expect("an Ed25519 key has 32 bytes");
        let id = match known {
            Some((id, named)) if named == public => id,
            Some((_, named)) => return Err(node_error(&path, other_key(&named, &public))),
            None => {
                let id = random::<16>().map_err(JournalError::at(&path))?;
                let file = NodeFile { format: crate::FORMAT, node: hex(&id), key: hex(&public) };
                let bytes = serde_json::to_vec(&file).map_err(|error| node_error(&path, error))?;
                write_whole(disk, &path, &bytes).map_err(JournalError::at(&path))?;
                id
            }
        };
        Ok(Node { id, boot: boot_id(), public, key })
    }
}

fn other_key(named: &[u8; 32], public: &[u8; 32]) -> String {
    format!(
        "it names the key {}, but the given key is {}; give the file of the named key (journal_key, or --key FILE)",
        hex(named),
        hex(public)
    )
}

fn parse(path: &Path, bytes: &[u8]) -> Result<([u8; 16], [u8; 32]), JournalError> {
    let file: NodeFile = serde_json::from_slice(bytes).map_err(|error| node_error(path, error))?;
    let wrong =
        || node_error(path, "its id or key is not lower-case hex of 16 and 32 bytes; restore it from a copy");
    Ok((unhex(&file.node).ok_or_else(wrong)?, unhex(&file.key).ok_or_else(wrong)?))
}

/// Reads the signing key. `make` generates the directory's own if none is given and none exists.
fn signing_key(
    disk: &dyn Disk,
    folder: &Folder,
    given: Option<&Path>,
    make: bool,
) -> Result<Ed25519KeyPair, JournalError> {
    let own = folder.file("node.key");
    let path = given.unwrap_or(&own);
    if let Some(why) = std::fs::metadata(path).ok().and_then(|facts| mode_refused(&facts)) {
        return Err(node_error(path, why));
    }
    let seed = match disk.read(path) {
        Ok(text) => std::str::from_utf8(&text).ok().and_then(|text| unhex::<32>(text.trim())),
        Err(error) if error.kind() != io::ErrorKind::NotFound || given.is_some() => {
            return Err(JournalError::at(path)(error));
        }
        Err(_) if !make => {
            let why = "the journal's own key is missing; give the file of the key that node.json names \
                       (journal_key, or --key FILE)";
            return Err(node_error(path, why));
        }
        Err(_) => {
            let seed = random::<32>().map_err(JournalError::at(path))?;
            write_whole(disk, path, hex(&seed).as_bytes()).map_err(JournalError::at(path))?;
            Some(seed)
        }
    };
    seed.and_then(|seed| Ed25519KeyPair::from_seed_unchecked(&seed).ok())
        .ok_or_else(|| node_error(path, "it is not the seed of a key: 64 lower-case hexadecimal digits"))
}

fn node_error(path: &Path, why: impl ToString) -> JournalError {
    JournalError::Node { path: path.to_owned(), why: why.to_string() }
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| io::Error::other("the system provides no random numbers")).map(|()| bytes)
}

/// Zeros if the kernel provides none.
fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string(BOOT_ID).unwrap_or_default();
    unhex(&text.trim().replace('-', "")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::RealDisk;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn opened(folder: &Folder, key: Option<&Path>) -> Result<[u8; 32], String> {
        Node::open(&RealDisk, folder, key).map(|node| node.public).map_err(|error| error.to_string())
    }

    fn key_file(folder: &Folder, name: &str, seed: &str, mode: u32) -> std::path::PathBuf {
        let path = folder.file(name);
        fs::write(&path, seed.repeat(32)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_journal_keeps_its_signer_and_says_which_key_to_give() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::make(parent.path()).unwrap();
        let (one, other) = (key_file(&folder, "one", "01", 0o600), key_file(&folder, "other", "02", 0o600));
        let public = opened(&folder, Some(&one)).unwrap();
        let known = fs::read(folder.file("node.json")).unwrap();
        for wrong in [None, Some(&*other)] {
            let error = opened(&folder, wrong).unwrap_err();
            assert!(error.contains("--key FILE"), "{error}");
        }
        assert_eq!(fs::read(folder.file("node.json")).unwrap(), known);
        assert!(!folder.file("node.key").exists());
        assert_eq!(opened(&folder, Some(&one)), Ok(public));
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let folder = Folder::make(parent.path()).unwrap();
        let error = opened(&folder, Some(&key_file(&folder, "open", "01", 0o644))).unwrap_err();
        assert!(error.contains("chmod 600"), "{error}");
        assert!(opened(&folder, Some(&key_file(&folder, "shut", "01", 0o600))).is_ok());
    }
}
