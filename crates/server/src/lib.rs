//! The transports around the plane: listeners, connections, HTTP, gRPC, startup and drain.
//!
//! Start with `server.rs` (startup), then `stack.rs` (the stages of a connection). The plane processes requests, not
//! this crate.
#![forbid(unsafe_code)]

mod acceptor;
mod activity;
mod address_slots;
mod anti_rollback;
mod background;
mod body;
mod build;
mod callers;
mod coding;
mod config;
mod control;
mod counted;
mod decisions;
mod drain;
mod extensions;
mod files;
mod grpc;
#[cfg(feature = "virtual-time")]
mod held_clock;
mod hosts;
mod http;
mod http1_bytes;
mod http2_frames;
mod journal;
mod lane_thread;
mod legal;
mod listen;
mod machine;
mod offload;
mod open_connections;
mod open_streams;
mod protocol_stream;
mod refusals;
mod refused_queries;
mod reply;
mod restricted;
mod server;
mod settled;
mod setup;
mod shared;
mod stack;
mod stream;
mod tls;
mod traces;
mod trust;
mod unix_socket;

pub use build::{BuildInfo, build_info, runtime_fingerprint};
pub use callers::{CallersError, check_callers};
pub use config::{ConfigFault, ServerConfig};
pub use control::OnLoad;
pub use flyball_engine::{HostCommand, serve_models};
pub use listen::Address;
pub use machine::{Machine, Right, machine};
pub use server::Server;
pub use setup::StartError;
pub use tls::TlsError;
pub use trust::TrustError;
