//! Where features come from beside the request: the hot cache, Redis, the embedded store, and windows over past events.
//!
//! Nothing here knows decisions, models or protocols.
#![forbid(unsafe_code)]
