//! The transports around the plane: listeners, connections, HTTP and gRPC, drain, and the start of it all.
//!
//! Start with `server.rs` (what is started), then `stack.rs` (what a connection passes on its way to a handler). What
//! happens to a request is the plane's business, not this crate's.
#![forbid(unsafe_code)]

mod acceptor;
mod activity;
mod address_slots;
mod anti_rollback;
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
mod ledger;
mod listen;
mod machine;
mod memory_watch;
mod offload;
mod open_connections;
mod open_streams;
mod protocol_stream;
mod refusals;
mod refused_queries;
mod reply;
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
mod watch;

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
