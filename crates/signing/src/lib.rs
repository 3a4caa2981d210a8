//! Verifies signatures against a signed trust policy. Verification only.
//!
//! Covers OMS bundles of packages, release statements with their approvals, and the index's signature.
//! `flyball.signing` in Python creates what is read here. Knows neither Snapshots nor models: it takes bytes
//! and a directory, and returns facts or one reason for rejection. Reads no clock.
#![forbid(unsafe_code)]

mod admission;
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

pub use admission::{Deployed, OfferedPackage};
pub use dsse::{EnvelopeKind, INDEX_BYTES_MAX, RELEASE_BYTES_MAX, TRUST_BYTES_MAX, payload_of};
pub use folder::files_of;
pub use manifest::{BUNDLE_BYTES_MAX, FILES_MAX, Manifest};
pub use refused::Refused;
pub use release::{Release, Subject, Tier, check_place, check_statement, statement_inside};
pub use trust::{Trust, TrustRoots, check_policy, policy_inside};
pub use trusted_key::{Role, TrustedKey};
