//! Reasons for rejecting a signature: one closed list, each with the next step.
//!
//! Labels are stable: they are used in metrics, acknowledgements and `tests/golden/signing/reasons.json`.

use flyball_core::Digest;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{what} is not signed; sign it with `flyball sign`")]
    Unsigned { what: String },
    #[error("{what} cannot be read: {why}; have it made again")]
    Malformed { what: &'static str, why: String },
    #[error("{what} is of a kind that is not served: {why}")]
    Unsupported { what: &'static str, why: String },
    #[error(
        "{what} does not match its signature by {key}: it was changed, or signed by another key; sign it again"
    )]
    BadSignature { what: &'static str, key: String },
    #[error(
        "{what} is signed by the key {hint}, which is not trusted; add it with `flyball trust add`, or sign with another"
    )]
    UnknownKey { what: &'static str, hint: String },
    #[error("{what} is signed by {key}, which is no {role} in the trust policy; sign with one that is")]
    WrongRole { what: &'static str, key: String, role: &'static str },
    #[error("{what} is signed by {key}, which is valid from {from} on; wait, or sign with another key")]
    KeyNotYetValid { what: &'static str, key: String, from: String },
    #[error("{what} is signed by {key}, which expired on {until}; sign again with a key that is valid")]
    KeyExpired { what: &'static str, key: String, until: String },
    #[error("{what} is signed by {key}, which was revoked on {at} ({why}); sign again with another key")]
    KeyRevoked { what: &'static str, key: String, at: String, why: String },
    #[error("the package {root} was revoked on {at} ({why}); promote another version")]
    PackageRevoked { root: Digest, at: String, why: String },
    #[error("{name} is released from {from} on; wait, or have it released again")]
    NotYetValid { name: String, from: String },
    #[error("the release of {name} ended on {until}; have it released again")]
    Expired { name: String, until: String },
    #[error(
        "{name} is not released for the environment {environment}, only for {allowed}; have it released for this one"
    )]
    WrongEnvironment { name: String, environment: String, allowed: String },
    #[error("the release is of {released}, and {asked} was asked for; sign a release of that one")]
    WrongName { released: String, asked: String },
    #[error("the release of {name} does not speak of the package {root}; sign a release that does")]
    WrongSubject { name: String, root: Digest },
    #[error(
        "{name} is below version {minimum}, the lowest that the trust policy allows; promote a newer one"
    )]
    BelowMinimum { name: String, minimum: u64 },
    #[error(
        "{name} (tier {tier}) has {have} of {needed} approvals by people other than its author; ask with `flyball approve`"
    )]
    ApprovalsMissing { name: String, tier: &'static str, have: u64, needed: u64 },
    #[error("the file '{file}' is not the one that was signed; put the signed one back, or sign again")]
    ChangedFile { file: String },
    #[error("the file '{file}' was signed and cannot be read here ({why}); put it back")]
    MissingFile { file: String, why: String },
    #[error("the file '{file}' is not among those that were signed; remove it, or sign again")]
    ExtraFile { file: String },
    #[error("{file} is a symbolic link; put the file itself there, and sign it")]
    Symlink { file: String },
    #[error("'{file}' is neither a file nor a folder; remove it")]
    SpecialFile { file: String },
    #[error(
        "the signed name '{name}' leads out of its package or is not plain; sign a folder with plain names"
    )]
    PathEscape { name: String },
    #[error("the name '{name}' was signed twice; sign the folder again")]
    DuplicateName { name: String },
    #[error("the signature leaves '{path}' out; sign the whole folder")]
    IgnoredPaths { path: String },
    #[error("the signature names the root {said}, its files have {is}; sign the folder again")]
    RootMismatch { said: Digest, is: Digest },
    #[error("the trust policy expired on {at}; have the holder of the root key issue a new one")]
    TrustExpired { at: String },
    #[error("the trust policy has the serial {serial}, and {lowest} was taken before; take the newest")]
    TrustDowngrade { serial: u64, lowest: u64 },
    #[error("the index has the generation {generation}, and {taken} was taken before; publish a newer one")]
    IndexDowngrade { generation: u64, taken: String },
    #[error("the {what} is not the one that was released ({signed}): {is}; have this one released")]
    WrongDigest { what: String, signed: String, is: String },
    #[error("{what} is larger than is read ({limit}); have a smaller one made")]
    TooLarge { what: &'static str, limit: String },
}

impl Refused {
    /// The reason's label, from the closed list.
    pub const fn label(&self) -> &'static str {
        match self {
            Refused::Unsigned { .. } => "unsigned",
            Refused::Malformed { .. } => "malformed",
            Refused::Unsupported { .. } => "unsupported",
            Refused::BadSignature { .. } => "bad_signature",
            Refused::UnknownKey { .. } => "unknown_key",
            Refused::WrongRole { .. } => "wrong_role",
            Refused::KeyNotYetValid { .. } => "key_not_yet_valid",
            Refused::KeyExpired { .. } => "key_expired",
            Refused::KeyRevoked { .. } => "key_revoked",
            Refused::PackageRevoked { .. } => "package_revoked",
            Refused::NotYetValid { .. } => "not_yet_valid",
            Refused::Expired { .. } => "expired",
            Refused::WrongEnvironment { .. } => "wrong_environment",
            Refused::WrongName { .. } => "wrong_name",
            Refused::WrongSubject { .. } => "wrong_subject",
            Refused::BelowMinimum { .. } => "below_minimum",
            Refused::ApprovalsMissing { .. } => "approvals_missing",
            Refused::ChangedFile { .. } => "changed_file",
            Refused::MissingFile { .. } => "missing_file",
            Refused::ExtraFile { .. } => "extra_file",
            Refused::Symlink { .. } => "symlink",
            Refused::SpecialFile { .. } => "special_file",
            Refused::PathEscape { .. } => "path_escape",
            Refused::DuplicateName { .. } => "duplicate_name",
            Refused::IgnoredPaths { .. } => "ignored_paths",
            Refused::RootMismatch { .. } => "root_mismatch",
            Refused::TrustExpired { .. } => "trust_expired",
            Refused::TrustDowngrade { .. } => "trust_downgrade",
            Refused::IndexDowngrade { .. } => "index_downgrade",
            Refused::WrongDigest { .. } => "wrong_digest",
            Refused::TooLarge { .. } => "too_large",
        }
    }

    /// Whether something valid was withdrawn: then it must also stop where it already serves.
    pub const fn revokes(&self) -> bool {
        matches!(self, Refused::KeyRevoked { .. } | Refused::PackageRevoked { .. })
    }
}
