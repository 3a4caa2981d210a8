//! DSSE envelopes: a payload, its type, and signatures over both.
//!
//! States which key signed what; the trust policy decides whether that key counts.

use crate::fields::{self, Fields};
use crate::refused::Refused;
use crate::release::IN_TOTO;
use base64::{Engine as _, engine::general_purpose::STANDARD};

pub(crate) const SIGNATURES_MAX: usize = 16;
/// Maximum size of the index's signature, which contains the whole index.
pub const INDEX_BYTES_MAX: usize = 64 << 20;
pub const RELEASE_BYTES_MAX: usize = 256 << 10;
pub const TRUST_BYTES_MAX: usize = 4 << 20;
const TRANSFER_BYTES_MAX: usize = 16 << 20;

flyball_core::labelled! {
    /// The contents of one of our own envelopes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EnvelopeKind {
        Policy => "policy",
        Release => "release",
        Index => "index",
        /// The table of contents of a bundle file.
        Transfer => "transfer",
    }
}

impl EnvelopeKind {
    /// The name in messages.
    pub(crate) const fn what(self) -> &'static str {
        match self {
            EnvelopeKind::Policy => "the trust policy",
            EnvelopeKind::Release => "the release",
            EnvelopeKind::Index => "the index",
            EnvelopeKind::Transfer => "the bundle file",
        }
    }

    const fn payload_type(self) -> &'static str {
        match self {
            EnvelopeKind::Policy => "application/vnd.flyball.trust.v1+json",
            EnvelopeKind::Release => IN_TOTO,
            EnvelopeKind::Index => "application/vnd.flyball.index.v1+json",
            EnvelopeKind::Transfer => "application/vnd.flyball.transfer.v1+json",
        }
    }

    const fn bytes_max(self) -> usize {
        match self {
            EnvelopeKind::Policy => TRUST_BYTES_MAX,
            EnvelopeKind::Release => RELEASE_BYTES_MAX,
            EnvelopeKind::Index => INDEX_BYTES_MAX,
            EnvelopeKind::Transfer => TRANSFER_BYTES_MAX,
        }
    }
}

/// The payload of an envelope that is well formed; its signatures are not verified.
pub fn payload_of(kind: EnvelopeKind, envelope: &[u8]) -> Result<Vec<u8>, Refused> {
    Envelope::read(envelope, kind).map(|envelope| envelope.payload)
}

pub(crate) struct Envelope {
    payload_type: &'static str,
    pub(crate) payload: Vec<u8>,
    /// At least one.
    pub(crate) signatures: Vec<Signature>,
}

pub(crate) struct Signature {
    /// The key's hint; empty in OMS bundles, which have it elsewhere.
    pub(crate) key: String,
    pub(crate) der: Vec<u8>,
}

impl Envelope {
    /// Reads one of our own envelopes, in which every signature names its key.
    pub(crate) fn read(bytes: &[u8], kind: EnvelopeKind) -> Result<Envelope, Refused> {
        let what = kind.what();
        let document = fields::parse(what, bytes, kind.bytes_max())?;
        let envelope = Envelope::from_fields(&Fields::root(what, &document)?, what, kind.payload_type())?;
        if envelope.signatures.iter().any(|signature| fields::hex(&signature.key).is_none()) {
            let why = "a signature does not name its key by the key's hint ('keyid')".to_owned();
            return Err(Refused::Malformed { what, why });
        }
        Ok(envelope)
    }

    /// Reads any envelope, such as that of an OMS bundle, where `keyid` may be absent. Ignores unknown keys.
    pub(crate) fn from_fields(
        fields: &Fields<'_>,
        what: &'static str,
        kind: &'static str,
    ) -> Result<Envelope, Refused> {
        fields.constant("payloadType", kind)?;
        let payload = base64(fields, "payload")?;
        let signature = |entry: &Fields<'_>| {
            let key = if entry.has("keyid") { entry.or_null(Fields::text, "keyid")? } else { None };
            Ok(Signature { key: key.unwrap_or_default().to_owned(), der: base64(entry, "sig")? })
        };
        let signatures = fields.objects("signatures", SIGNATURES_MAX)?;
        if signatures.is_empty() {
            return Err(Refused::Unsigned { what: what.to_owned() });
        }
        let signatures = signatures.iter().map(signature).collect::<Result<_, Refused>>()?;
        Ok(Envelope { payload_type: kind, payload, signatures })
    }

    /// The signed bytes (DSSE's PAE). The lengths separate type and payload.
    pub(crate) fn message(&self) -> Vec<u8> {
        let (kind, payload) = (self.payload_type, &self.payload);
        let mut message = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len()).into_bytes();
        message.extend_from_slice(payload);
        message
    }
}

/// Standard base64 with padding; accepts only the canonical form.
fn base64(fields: &Fields<'_>, key: &str) -> Result<Vec<u8>, Refused> {
    STANDARD.decode(fields.text(key)?).map_err(|_| fields.fault(key, "standard base64"))
}
