//! Verifies signatures against a signed trust policy. Verification only.
//!
//! Covers OMS bundles of packages, release statements with their approvals, and the index's signature.
//! `flyball.signing` in Python creates what is read here. Knows neither Snapshots nor models: it takes bytes
//! and a directory, and returns facts or one reason for rejection. Reads no clock.
#![forbid(unsafe_code)]

mod dsse;
mod fields;
mod folder;
mod key;
mod manifest;
mod policy;
mod refused;
mod release;
mod timestamp;
mod trust;
mod trusted_key;

pub use manifest::{BUNDLE_BYTES_MAX, FILES_MAX, Manifest};
pub use policy::TRUST_BYTES_MAX;
pub use refused::Refused;
pub use release::{RELEASE_BYTES_MAX, Release, Subject, Tier};
pub use trust::{INDEX_BYTES_MAX, Trust, TrustRoots, index_inside};
