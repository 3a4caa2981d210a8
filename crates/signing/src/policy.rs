//! The trust policy document: parsed and checked as a whole. `trust.rs` evaluates it.

use crate::dsse::{SIGNATURES_MAX, TRUST_BYTES_MAX};
use crate::fields::{self, Fields};
use crate::refused::Refused;
use crate::release::Tier;
use crate::timestamp::Timestamp;
use crate::trusted_key::TrustedKey;
use flyball_core::Digest;
use flyball_core::snapshot::is_valid_name;
use std::collections::BTreeMap;

pub(crate) const POLICY: &str = "the trust policy";
const FORMAT: u64 = 1;
const KEYS_MAX: usize = 1000;
const REVOKED_MAX: usize = 10_000;
const MINIMUMS_MAX: usize = 10_000;
/// An envelope has room for the author's signature and this many more.
const APPROVALS_MAX: u64 = SIGNATURES_MAX as u64 - 1;
/// Maximum of serials and versions.
pub(crate) const NUMBER_MAX: u64 = i32::MAX as u64;

#[derive(Clone, Debug)]
pub(crate) struct Policy {
    pub(crate) serial: u64,
    pub(crate) expires: Option<Timestamp>,
    /// By their hints.
    pub(crate) keys: BTreeMap<String, TrustedKey>,
    pub(crate) revoked_keys: BTreeMap<String, Revoked>,
    pub(crate) revoked_packages: BTreeMap<Digest, Revoked>,
    /// The lowest accepted version, by lower-case name.
    pub(crate) minimum: BTreeMap<String, u64>,
    pub(crate) approvals: BTreeMap<Tier, u64>,
}

/// Time and reason are informative: a revocation always applies.
#[derive(Clone, Debug)]
pub(crate) struct Revoked {
    pub(crate) at: Timestamp,
    pub(crate) why: String,
}

impl Policy {
    pub(crate) fn read(payload: &[u8]) -> Result<Policy, Refused> {
        let document = fields::parse(POLICY, payload, TRUST_BYTES_MAX)?;
        let fields = Fields::root(POLICY, &document)?;
        fields.constant_number("format", FORMAT)?;
        fields.only(&["format", "serial", "issued", "expires", "keys", "revoked", "minimum", "approvals"])?;
        fields.moment("issued")?;
        let (revoked_keys, revoked_packages) = revoked(&fields)?;
        Ok(Policy {
            serial: fields.number("serial", 1..=NUMBER_MAX)?,
            expires: fields.or_null(Fields::moment, "expires")?,
            keys: keys(&fields)?,
            revoked_keys,
            revoked_packages,
            minimum: minimum(&fields.object("minimum")?)?,
            approvals: approvals(&fields.object("approvals")?)?,
        })
    }
}

fn keys(fields: &Fields<'_>) -> Result<BTreeMap<String, TrustedKey>, Refused> {
    let mut keys = BTreeMap::new();
    for entry in fields.objects("keys", KEYS_MAX)? {
        let key = TrustedKey::from_fields(POLICY, &entry)?;
        if let Some(twice) = keys.insert(key.hint().to_owned(), key) {
            return Err(Refused::DuplicateName { name: twice.shown() });
        }
    }
    Ok(keys)
}

/// By key hint, and by package root.
type Revocations = (BTreeMap<String, Revoked>, BTreeMap<Digest, Revoked>);

fn revoked(fields: &Fields<'_>) -> Result<Revocations, Refused> {
    let (mut keys, mut packages) = (BTreeMap::new(), BTreeMap::new());
    for entry in fields.objects("revoked", REVOKED_MAX)? {
        let revoked = Revoked { at: entry.moment("at")?, why: entry.short_text("why")?.to_owned() };
        if entry.has("key") {
            entry.only(&["key", "at", "why"])?;
            keys.insert(entry.hex("key")?.hex(), revoked);
        } else {
            entry.only(&["package", "at", "why"])?;
            packages.insert(entry.digest("package")?, revoked);
        }
    }
    Ok((keys, packages))
}

fn minimum(fields: &Fields<'_>) -> Result<BTreeMap<String, u64>, Refused> {
    if fields.keys().len() > MINIMUMS_MAX {
        let limit = format!("{MINIMUMS_MAX} names with a minimum");
        return Err(Refused::TooLarge { what: POLICY, limit });
    }
    let minimum = |name: &String| {
        if !is_valid_name(name) || name.contains(|letter: char| letter.is_ascii_uppercase()) {
            return Err(fields.fault(name, "a name, in small letters"));
        }
        Ok((name.clone(), fields.number(name, 1..=NUMBER_MAX)?))
    };
    fields.keys().map(minimum).collect()
}

fn approvals(fields: &Fields<'_>) -> Result<BTreeMap<Tier, u64>, Refused> {
    fields.only(&Tier::ALL.map(Tier::label))?;
    let needed = |tier: Tier| Ok((tier, fields.number(tier.label(), 0..=APPROVALS_MAX)?));
    Tier::ALL.into_iter().map(needed).collect()
}
