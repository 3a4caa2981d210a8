//! Holds the checked-in protobuf types equal to the `.proto` files.

use std::path::{Path, PathBuf};

const MODULES: [(&str, &str, &str); 2] = [
    ("open_inference.proto", "inference.rs", "inference.rs"),
    ("health.proto", "grpc.health.v1.rs", "health.rs"),
];

#[test]
fn the_checked_in_messages_are_those_of_the_proto_files() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sources = home.join("../../proto");
    let files: Vec<PathBuf> = MODULES.iter().map(|(source, ..)| sources.join(source)).collect();
    let descriptors = protox::compile(&files, [&sources]).expect("the proto files compile");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    prost_build::Config::new()
        .bytes(["."])
        .disable_comments(["."])
        .out_dir(folder.path())
        .compile_fds(descriptors)
        .expect("the messages generate");
    for (source, generated, kept) in MODULES {
        let fresh =
            std::fs::read_to_string(folder.path().join(generated)).expect("a module for each package");
        let kept = home.join("src/proto").join(kept);
        if std::env::var_os("FLYBALL_REGENERATE").is_some_and(|value| value == "1") {
            std::fs::write(&kept, &fresh).expect("the checked-in file can be written");
        }
        let is = std::fs::read_to_string(&kept).unwrap_or_default();
        assert!(
            is == fresh,
            "{} is not what proto/{source} generates; rewrite it: FLYBALL_REGENERATE=1 cargo test -p flyball-wire",
            kept.display()
        );
    }
}
