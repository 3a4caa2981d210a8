//! A key of the trust policy: its holder, its roles, and its validity.

use crate::dsse::Signature;
use crate::fields::Fields;
use crate::key::PublicKey;
use crate::refused::Refused;
use crate::timestamp::Timestamp;

#[derive(Clone, Debug)]
pub struct TrustedKey {
    public: PublicKey,
    /// Of the person or the service that holds it.
    pub name: String,
    pub roles: Vec<Role>,
    from: Timestamp,
    until: Option<Timestamp>,
}

flyball_core::labelled! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Role {
        Signer => "signer",
        Approver => "approver",
        Publisher => "publisher",
    }
}

impl TrustedKey {
    pub(crate) fn from_fields(what: &'static str, fields: &Fields<'_>) -> Result<TrustedKey, Refused> {
        fields.only(&["hint", "pem", "name", "roles", "from", "until"])?;
        let public = PublicKey::read(what, fields.short_text("pem")?)?;
        if public.hint() != fields.text("hint")? {
            return Err(fields.fault("hint", &format!("that of its key, {}", public.hint())));
        }
        let name = fields.text("name")?.to_owned();
        if !is_valid_person(&name) {
            return Err(
                fields.fault("name", "1 to 128 of A-Z a-z 0-9 . _ @ + - and blanks, a letter or digit first")
            );
        }
        let (from, until) = (fields.moment("from")?, fields.or_null(Fields::moment, "until")?);
        if until.as_ref().is_some_and(|until| until.unix <= from.unix) {
            return Err(fields.fault("until", "after 'from'"));
        }
        Ok(TrustedKey { public, name, roles: roles(fields)?, from, until })
    }

    /// How signatures name the key.
    pub fn hint(&self) -> &str {
        self.public.hint()
    }

    pub(crate) fn has(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }

    /// Whether one person holds both. Names are ASCII, which every language folds alike.
    pub(crate) fn same_person(&self, other: &TrustedKey) -> bool {
        self.name.eq_ignore_ascii_case(&other.name)
    }

    /// Rejects a time outside the key's validity; its last second is the one before `until`.
    pub(crate) fn check_time(&self, what: &'static str, now: i64) -> Result<(), Refused> {
        if now < self.from.unix {
            return Err(Refused::KeyNotYetValid { what, key: self.shown(), from: self.from.to_string() });
        }
        match &self.until {
            Some(until) if now >= until.unix => {
                Err(Refused::KeyExpired { what, key: self.shown(), until: until.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Rejects a signature that this key did not make.
    pub(crate) fn check_signature(
        &self,
        what: &'static str,
        message: &[u8],
        signature: &Signature,
    ) -> Result<(), Refused> {
        if self.public.verifies(message, &signature.der) {
            return Ok(());
        }
        Err(Refused::BadSignature { what, key: self.shown() })
    }

    pub(crate) fn lacks(&self, what: &'static str, role: Role) -> Refused {
        Refused::WrongRole { what, key: self.shown(), role: role.label() }
    }

    /// For messages: the holder, and enough of the hint to find the key.
    pub(crate) fn shown(&self) -> String {
        format!("{} ({}\u{2026})", self.name, &self.hint()[..12])
    }
}

fn roles(fields: &Fields<'_>) -> Result<Vec<Role>, Refused> {
    let texts = fields.texts("roles")?;
    let mut roles = Vec::new();
    for role in texts.iter().filter_map(|text| Role::from_label(text)) {
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    if roles.is_empty() || roles.len() != texts.len() {
        return Err(fields.fault("roles", "a list of signer, approver and publisher, each once"));
    }
    Ok(roles)
}

/// Names of people and teams.
fn is_valid_person(name: &str) -> bool {
    name.len() <= 128
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ._@+-".contains(&byte))
}
