//! Compares the checked-in protobuf types and reflection descriptors with the `.proto` files.

use prost::Message;
use prost_types::FileDescriptorSet;
use std::path::{Path, PathBuf};

const MODULES: [(&str, &str, &str); 4] = [
    ("open_inference.proto", "inference.rs", "inference.rs"),
    ("decisions.proto", "flyball.v1.rs", "decisions.rs"),
    ("health.proto", "grpc.health.v1.rs", "health.rs"),
    ("reflection.proto", "grpc.reflection.v1.rs", "reflection.rs"),
];

#[test]
fn the_checked_in_messages_are_those_of_the_proto_files() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    prost_build::Config::new()
        .bytes(["."])
        .disable_comments(["."])
        .out_dir(folder.path())
        .compile_fds(descriptors())
        .expect("the messages generate");
    for (source, generated, kept) in MODULES {
        let fresh = std::fs::read(folder.path().join(generated)).expect("a module for each package");
        assert_kept(kept, &fresh, source);
    }
}

#[test]
fn the_checked_in_descriptors_are_those_of_the_proto_files() {
    assert_kept("descriptors.bin", &descriptors().encode_to_vec(), "*.proto");
}

fn descriptors() -> FileDescriptorSet {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    let files: Vec<PathBuf> = MODULES.iter().map(|(source, ..)| sources.join(source)).collect();
    protox::compile(&files, [&sources]).expect("the proto files compile")
}

fn assert_kept(name: &str, fresh: &[u8], source: &str) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/proto").join(name);
    if std::env::var_os("FLYBALL_REGENERATE").is_some_and(|value| value == "1") {
        std::fs::write(&kept, fresh).expect("the checked-in file can be written");
    }
    let is = std::fs::read(&kept).unwrap_or_default();
    assert!(
        is == fresh,
        "{} is not what proto/{source} generates; rewrite it: FLYBALL_REGENERATE=1 cargo test -p flyball-wire",
        kept.display()
    );
}
