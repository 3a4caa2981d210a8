//! Who signed what, and whether that counts here: OMS bundles of packages, release statements with their approvals, the index's
//! signature, all judged by a signed trust policy. Verification only; `flyball.signing` in Python makes what is read here.
//!
//! Knows neither Snapshots nor models: it takes bytes and a folder, and gives facts or the one reason why not. Reads no clock.
#![forbid(unsafe_code)]

mod admission;
mod dsse;
mod fields;
mod folder;
mod key;
mod manifest;
mod moment;
mod policy;
mod refused;
mod release;
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
