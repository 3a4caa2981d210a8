//! OMS bundles (OpenSSF Model Signing v1.0, key mode): the files of a package, signed by a trusted key.
//!
//! Rejects anything by which a bundle could weaken itself, such as ignored paths or followed links.

use crate::dsse::Envelope;
use crate::fields::{self, Fields};
use crate::refused::Refused;
use crate::release::IN_TOTO;
use crate::trust::Trust;
use crate::trusted_key::Role;
use flyball_core::Digest;
use std::collections::BTreeMap;

pub const BUNDLE_BYTES_MAX: usize = 4 << 20;
/// Maximum files in one package.
pub const FILES_MAX: usize = 10_000;
const WHAT: &str = "the bundle";
const MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
pub(crate) const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://model_signing/signature/v1.0";
/// Names that every OMS signer ignores, only at the top of the directory.
pub(crate) const IGNORED: [&str; 4] = [".git", ".gitattributes", ".github", ".gitignore"];

/// The signed files of a package with their digests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// OMS's root digest, over the files' digests in listed order: the package's id.
    pub root: Digest,
    pub files: BTreeMap<String, Digest>,
}

impl Manifest {
    /// The digest of a file by its path in the package.
    pub fn digest_of(&self, file: &str) -> Option<Digest> {
        self.files.get(file).copied()
    }

    pub(crate) fn read(trust: &Trust, bundle: &[u8], now: i64) -> Result<Manifest, Refused> {
        let document = fields::parse(WHAT, bundle, BUNDLE_BYTES_MAX)?;
        let bundle = Fields::root(WHAT, &document)?;
        bundle.constant("mediaType", MEDIA_TYPE)?;
        let hint = key_hint(&bundle.object("verificationMaterial")?)?;
        let envelope = Envelope::from_fields(&bundle.object("dsseEnvelope")?, WHAT, IN_TOTO)?;
        let [signature] = envelope.signatures.as_slice() else {
            return Err(Refused::Malformed { what: WHAT, why: "it must have one signature".to_owned() });
        };
        let key = trust.key(WHAT, &hint, now)?;
        if !key.has(Role::Signer) {
            return Err(key.lacks(WHAT, Role::Signer));
        }
        key.check_signature(WHAT, &envelope.message(), signature)?;
        let statement = fields::parse(WHAT, &envelope.payload, BUNDLE_BYTES_MAX)?;
        let manifest = Manifest::from_fields(&Fields::root(WHAT, &statement)?)?;
        trust.check_package(manifest.root)?;
        Ok(manifest)
    }

    fn from_fields(statement: &Fields<'_>) -> Result<Manifest, Refused> {
        statement.constant("_type", STATEMENT_TYPE)?;
        statement.constant("predicateType", PREDICATE)?;
        let predicate = statement.object("predicate")?;
        check_serialization(&predicate.object("serialization")?)?;
        let resources = predicate.objects("resources", FILES_MAX)?;
        if resources.is_empty() {
            return Err(predicate.fault("resources", "a list of one file at least"));
        }
        let (mut files, mut digests) = (BTreeMap::new(), Vec::with_capacity(resources.len() * 32));
        for resource in resources {
            let name = resource.text("name")?;
            if !is_valid_path(name) {
                return Err(Refused::PathEscape { name: name.to_owned() });
            }
            resource.constant("algorithm", "sha256")?;
            let digest = resource.hex("digest")?;
            digests.extend_from_slice(digest.bytes());
            if files.insert(name.to_owned(), digest).is_some() {
                return Err(Refused::DuplicateName { name: name.to_owned() });
            }
        }
        let (said, is) = (root(statement)?, Digest::of(&digests));
        if said != is {
            return Err(Refused::RootMismatch { said, is });
        }
        Ok(Manifest { root: is, files })
    }
}

/// In key mode a bundle names its key, and contains none.
fn key_hint(material: &Fields<'_>) -> Result<String, Refused> {
    if material.has("certificate") || material.has("x509CertificateChain") {
        let why = "certificate mode is not served yet; sign with a key".to_owned();
        return Err(Refused::Unsupported { what: WHAT, why });
    }
    Ok(material.object("publicKey")?.hex("hint")?.hex())
}

fn check_serialization(fields: &Fields<'_>) -> Result<(), Refused> {
    fields.constant("method", "files")?;
    fields.constant("hash_type", "sha256")?;
    if fields.flag("allow_symlinks")? {
        return Err(Refused::Symlink { file: "something that the bundle lists".to_owned() });
    }
    let ignored = if fields.has("ignore_paths") { fields.texts("ignore_paths")? } else { Vec::new() };
    match ignored.into_iter().find(|path| !IGNORED.contains(path)) {
        Some(path) => Err(Refused::IgnoredPaths { path: path.to_owned() }),
        None => Ok(()),
    }
}

fn root(statement: &Fields<'_>) -> Result<Digest, Refused> {
    match statement.objects("subject", FILES_MAX)?.as_slice() {
        [subject] => subject.object("digest")?.hex("sha256"),
        _ => Err(statement.fault("subject", "a list of one subject")),
    }
}

/// Relative, without parts that lead elsewhere, and written in one way.
pub(crate) fn is_valid_path(path: &str) -> bool {
    !path.contains(['\\', '\0']) && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
