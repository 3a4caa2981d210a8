//! The journal's own files, compiled with atomics that loom can stop anywhere, and models that use them.
//!
//! Only `sync` differs from the journal's crate. The route swap needs no model: `arc_swap` does it.
#![forbid(unsafe_code)]
#![allow(dead_code, reason = "models use a part of each file")]

#[path = "../../crates/journal/src/ring.rs"]
mod ring;
#[path = "../../crates/journal/src/sleep.rs"]
mod sleep;
#[path = "../../crates/journal/src/tickets.rs"]
mod tickets;

mod lane;
pub mod models;
mod queue;
mod sync;
