//! Allocations per request, counted by the test binary's own allocator.
//!
//! None of ours between `decide`'s entry and the reply, and a recorded number from socket to socket, which may only fall.
//!
//! Needs ONNX Runtime, found by `ORT_DYLIB_PATH`. Knows nothing of how the plane avoids allocating, only that it does.
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test, and the line says enough")]

mod allocator;
mod decided;
mod onnx;
mod recorded;
mod served;

use flyball_core::Digest;
use flyball_core::snapshot::Bundle;
use serde_json::json;

const MODEL: &str = "sums";

/// A snapshot of the one model of these tests. Its file must exist until it is loaded.
fn bundle(folder: &tempfile::TempDir) -> Bundle {
    let model = onnx::sums();
    let path = folder.path().join("sums.onnx");
    std::fs::write(&path, &model).unwrap();
    let artifact = json!({"path": path, "digest": Digest::of(&model)});
    let version = json!({"version": "1", "artifact": artifact});
    let document =
        json!({"format": 1, "name": MODEL, "route": {"version": "1"}, "versions": [version]}).to_string();
    let entry = json!({"name": MODEL, "digest": Digest::of(document.as_bytes())});
    let index = json!({"format": 1, "generation": 1, "deployments": [entry]}).to_string();
    Bundle::from_memory(json!({"index": index, "documents": [document]}).to_string().as_bytes()).unwrap()
}
