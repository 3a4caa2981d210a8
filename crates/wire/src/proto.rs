//! The protobuf messages, generated from `proto/` and checked in.
//!
//! A build needs no protoc and no build script. `tests/generated.rs` compares them with the `.proto` files;
//! `FLYBALL_REGENERATE=1` rewrites them. `descriptors.bin` is the same files as a `FileDescriptorSet`.

/// The Open Inference Protocol.
#[rustfmt::skip]
#[allow(clippy::all, unused_qualifications, unreachable_pub)]
pub mod inference;

/// Our own decision API.
#[rustfmt::skip]
#[allow(clippy::all, unused_qualifications, unreachable_pub)]
pub mod decisions;

/// The gRPC health protocol.
#[rustfmt::skip]
#[allow(clippy::all, unused_qualifications, unreachable_pub)]
pub mod health;

/// gRPC server reflection.
#[rustfmt::skip]
#[allow(clippy::all, unused_qualifications, unreachable_pub)]
pub mod reflection;

pub(crate) const DESCRIPTORS: &[u8] = include_bytes!("proto/descriptors.bin");
