//! Directories that no corpus can describe: links, names that are not texts, other file types.

use crate::signer::{NOW, POLICY, Signer, bytes, statement};
use flyball_signing::{Manifest, Refused, Trust, TrustRoots};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use tempfile::TempDir;

/// A package with the one file of its manifest, and room next to it.
struct Package {
    room: TempDir,
    manifest: Manifest,
}

impl Package {
    fn new() -> Package {
        let signer = Signer::new();
        let policy = bytes(&signer.envelope(POLICY, &bytes(&signer.policy())));
        let roots = TrustRoots::read(&[&signer.pem]).expect("it is a key");
        let trust = Trust::read(&policy, &roots, NOW, 0).expect("it is sound");
        let manifest = trust.package(&bytes(&signer.bundle(&bytes(&statement()))), NOW).expect("it is sound");
        let package = Package { room: tempfile::tempdir().expect("a folder"), manifest };
        fs::create_dir(package.folder()).expect("a folder");
        fs::write(package.folder().join("model.onnx"), "weights").expect("a file");
        package
    }

    fn folder(&self) -> PathBuf {
        self.room.path().join("package")
    }

    fn reason(&self) -> Option<&'static str> {
        self.manifest.check_folder(&self.folder()).err().map(|refused| refused.label())
    }
}

#[test]
fn a_folder_with_exactly_what_was_signed_is_taken() {
    let package = Package::new();
    assert_eq!(package.manifest.check_folder(&package.folder()), Ok(()));
    assert_eq!(package.manifest.digest_of("model.onnx"), Some(flyball_core::Digest::of(b"weights")));
    assert_eq!(package.manifest.digest_of("other.onnx"), None);
}

#[test]
fn a_folder_that_is_itself_a_link_is_refused() {
    let package = Package::new();
    let away = package.room.path().join("elsewhere");
    fs::rename(package.folder(), &away).expect("a new name");
    symlink(&away, package.folder()).expect("a link");
    assert_eq!(package.reason(), Some("symlink"));
}

#[test]
fn a_folder_that_is_not_there_or_is_a_file_is_refused() {
    let package = Package::new();
    fs::remove_dir_all(package.folder()).expect("it was there");
    assert_eq!(package.reason(), Some("missing_file"));
    fs::write(package.folder(), "weights").expect("a file");
    assert_eq!(package.reason(), Some("special_file"));
}

#[test]
fn a_name_that_is_no_text_cannot_have_been_signed() {
    let package = Package::new();
    fs::write(package.folder().join(OsStr::from_bytes(b"model\xff.onnx")), "weights").expect("a file");
    assert_eq!(package.reason(), Some("extra_file"));
}

#[test]
fn a_socket_is_refused_and_not_opened() {
    let package = Package::new();
    let _listener = UnixListener::bind(package.folder().join("socket")).expect("a socket");
    assert_eq!(package.reason(), Some("special_file"));
}

#[test]
fn folders_within_each_other_have_an_end() {
    let package = Package::new();
    let deep = ["a"; 70].iter().fold(package.folder(), |path, part| path.join(part));
    fs::create_dir_all(deep).expect("folders");
    assert_eq!(package.reason(), Some("too_large"));
}

#[test]
fn words_name_the_file_and_what_to_do() {
    let package = Package::new();
    fs::write(package.folder().join("model.onnx"), "Weights").expect("a file");
    let refused = package.manifest.check_folder(&package.folder()).expect_err("it was changed");
    assert_eq!(refused, Refused::ChangedFile { file: "model.onnx".to_owned() });
    assert_eq!(
        refused.to_string(),
        "the file 'model.onnx' is not the one that was signed; put the signed one back, or sign again"
    );
}
