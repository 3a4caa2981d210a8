//! Release statements: a version may serve, where and when, signed by author and approvers.
//!
//! All of them sign the same bytes. The loader compares the statement's models, decision, policy and schema
//! with the actual ones.

use crate::dsse::{Envelope, EnvelopeKind, RELEASE_BYTES_MAX};
use crate::fields::{self, Fields};
use crate::manifest::STATEMENT_TYPE;
use crate::policy::NUMBER_MAX;
use crate::refused::Refused;
use crate::timestamp::Timestamp;
use crate::trust::Trust;
use crate::trusted_key::{Role, TrustedKey};
use flyball_core::Digest;
use flyball_core::snapshot::{VERSIONS_MAX, is_valid_name, is_valid_version};
use std::collections::{BTreeMap, HashSet};

const WHAT: &str = EnvelopeKind::Release.what();
pub(crate) const IN_TOTO: &str = "application/vnd.in-toto+json";
const PREDICATE: &str = "https://flyball/release/v1";
const ENVIRONMENTS_MAX: usize = 16;
/// The package itself and those that its decision references.
const SUBJECTS_MAX: usize = 16;

/// A valid release: signed, approved, within its time and for this environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Release {
    pub name: String,
    pub version: u64,
    /// The package itself first, then the referenced ones.
    pub subjects: Vec<Subject>,
    pub tier: Tier,
    /// By deployment version, each with its external data.
    pub models: BTreeMap<String, Digest>,
    pub decision: Option<Digest>,
    pub policy: Option<Digest>,
    pub schema: Option<Digest>,
    /// The name of its first signer.
    pub author: String,
    /// Names of the people whose approvals count, each once.
    pub approvers: Vec<String>,
    /// The hints of their approval keys, in the same order.
    pub approver_keys: Vec<String>,
}

/// The statement inside a release, as its author signed it; neither its signatures nor its time are verified.
pub fn statement_inside(envelope: &[u8]) -> Result<Vec<u8>, Refused> {
    let envelope = Envelope::read(envelope, EnvelopeKind::Release)?;
    Statement::read(&envelope.payload)?;
    Ok(envelope.payload)
}

/// Rejects a document that is not a release statement.
pub fn check_statement(document: &[u8]) -> Result<(), Refused> {
    Statement::read(document).map(drop)
}

/// Rejects a release that is not valid now and in this environment; does not verify signatures.
pub fn check_place(envelope: &[u8], now: i64, environment: &str) -> Result<(), Refused> {
    let envelope = Envelope::read(envelope, EnvelopeKind::Release)?;
    Statement::read(&envelope.payload)?.check_place(now, environment)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// `fraud@4`
    pub name: String,
    pub root: Digest,
}

flyball_core::labelled! {
    /// The possible harm of a wrong decision, which determines the required approvals.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Tier {
        Low => "low",
        Standard => "standard",
        High => "high",
    }
}

impl Release {
    /// Rejects a release of something else.
    pub fn check_name(&self, name: &str) -> Result<(), Refused> {
        if self.name == name {
            return Ok(());
        }
        Err(Refused::WrongName { released: self.shown(), asked: name.to_owned() })
    }

    /// Rejects a release that does not contain this package (`fraud@4`) with this root.
    pub fn check_package(&self, package: &str, root: Digest) -> Result<(), Refused> {
        if self.subjects.iter().any(|subject| subject.name == package && subject.root == root) {
            return Ok(());
        }
        Err(Refused::WrongSubject { name: self.shown(), root })
    }

    /// Rejects models, by version, that are not exactly the released ones: a package may contain others.
    pub fn check_models(&self, models: &BTreeMap<String, Digest>) -> Result<(), Refused> {
        self.models
            .keys()
            .chain(models.keys())
            .map(|version| (format!("model {version}"), self.models.get(version), models.get(version)))
            .try_for_each(|(what, signed, is)| check_digest(what, signed.copied(), is.copied()))
    }

    /// Rejects documents of a decision that are not the released ones; none is a possible value.
    pub fn check_documents(
        &self,
        decision: Option<Digest>,
        policy: Option<Digest>,
        schema: Option<Digest>,
    ) -> Result<(), Refused> {
        check_digest("decision", self.decision, decision)?;
        check_digest("policy", self.policy, policy)?;
        check_digest("schema", self.schema, schema)
    }

    /// `fraud@4`
    fn shown(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    pub(crate) fn read(
        trust: &Trust,
        envelope: &[u8],
        now: i64,
        environment: &str,
    ) -> Result<Release, Refused> {
        let envelope = Envelope::read(envelope, EnvelopeKind::Release)?;
        let keys = trust.signers(WHAT, &envelope, now)?;
        let statement = Statement::read(&envelope.payload)?;
        check_author(keys[0], &statement.author)?;
        statement.check_place(now, environment)?;
        let mut release = statement.release;
        release.subjects.iter().try_for_each(|subject| trust.check_package(subject.root))?;
        if let Some(minimum) = trust.minimum(&release.name).filter(|minimum| release.version < *minimum) {
            return Err(Refused::BelowMinimum { name: release.shown(), minimum });
        }
        let approvers = approvers(&keys);
        release.author = keys[0].name.clone();
        release.approvers = approvers.iter().map(|key| key.name.clone()).collect();
        release.approver_keys = approvers.iter().map(|key| key.hint().to_owned()).collect();
        let (have, needed) = (release.approvers.len() as u64, trust.approvals(release.tier));
        if have < needed {
            let (name, tier) = (release.shown(), release.tier.label());
            return Err(Refused::ApprovalsMissing { name, tier, have, needed });
        }
        Ok(release)
    }
}

/// The signed statement.
struct Statement {
    release: Release,
    environments: Vec<String>,
    not_before: Timestamp,
    not_after: Timestamp,
    author: String,
}

impl Statement {
    fn read(payload: &[u8]) -> Result<Statement, Refused> {
        let document = fields::parse(WHAT, payload, RELEASE_BYTES_MAX)?;
        Statement::from_fields(&Fields::root(WHAT, &document)?)
    }

    /// Rejects a statement that is not valid now and in this environment.
    fn check_place(&self, now: i64, environment: &str) -> Result<(), Refused> {
        let name = self.release.shown();
        if now < self.not_before.unix {
            return Err(Refused::NotYetValid { name, from: self.not_before.to_string() });
        }
        if now >= self.not_after.unix {
            return Err(Refused::Expired { name, until: self.not_after.to_string() });
        }
        if self.environments.iter().any(|allowed| allowed == environment) {
            return Ok(());
        }
        let (environment, allowed) = (environment.to_owned(), self.environments.join(", "));
        Err(Refused::WrongEnvironment { name, environment, allowed })
    }

    fn from_fields(fields: &Fields<'_>) -> Result<Statement, Refused> {
        fields.constant("_type", STATEMENT_TYPE)?;
        fields.constant("predicateType", PREDICATE)?;
        fields.only(&["_type", "subject", "predicateType", "predicate"])?;
        let subjects = subjects(fields)?;
        let predicate = fields.object("predicate")?;
        predicate.only(&[
            "name",
            "version",
            "environments",
            "not_before",
            "not_after",
            "tier",
            "author",
            "models",
            "decision",
            "policy",
            "schema",
        ])?;
        let tier = Tier::from_label(predicate.text("tier")?);
        let (not_before, not_after) = (predicate.moment("not_before")?, predicate.moment("not_after")?);
        if not_after.unix <= not_before.unix {
            return Err(predicate.fault("not_after", "after 'not_before'"));
        }
        let release = Release {
            name: predicate.name("name")?.to_owned(),
            version: predicate.number("version", 1..=NUMBER_MAX)?,
            subjects,
            tier: tier.ok_or_else(|| predicate.fault("tier", "low, standard or high"))?,
            models: models(&predicate)?,
            decision: predicate.or_null(Fields::digest, "decision")?,
            policy: predicate.or_null(Fields::digest, "policy")?,
            schema: predicate.or_null(Fields::digest, "schema")?,
            author: String::new(),
            approvers: Vec::new(),
            approver_keys: Vec::new(),
        };
        let (author, environments) = (predicate.hex("author")?.hex(), environments(&predicate)?);
        check_subjects(&release)?;
        Ok(Statement { release, environments, not_before, not_after, author })
    }
}

fn subjects(fields: &Fields<'_>) -> Result<Vec<Subject>, Refused> {
    let subject = |entry: Fields<'_>| {
        entry.only(&["name", "digest"])?;
        let digest = entry.object("digest")?;
        digest.only(&["sha256"])?;
        let name = entry.text("name")?.to_owned();
        if !is_valid_subject(&name) {
            return Err(entry.fault("name", "a name and a version, such as fraud@4"));
        }
        Ok(Subject { name, root: digest.hex("sha256")? })
    };
    fields.objects("subject", SUBJECTS_MAX)?.into_iter().map(subject).collect()
}

fn is_valid_subject(name: &str) -> bool {
    name.split_once('@').is_some_and(|(name, version)| {
        is_valid_name(name)
            && (1..=10).contains(&version.len())
            && !version.starts_with('0')
            && version.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Without duplicates, and the version itself first.
fn check_subjects(release: &Release) -> Result<(), Refused> {
    let mut names = HashSet::new();
    if let Some(twice) = release.subjects.iter().find(|subject| !names.insert(&subject.name)) {
        return Err(Refused::DuplicateName { name: twice.name.clone() });
    }
    match release.subjects.first() {
        Some(first) if first.name == release.shown() => Ok(()),
        Some(first) => Err(Refused::WrongSubject { name: release.shown(), root: first.root }),
        None => Err(Refused::Malformed { what: WHAT, why: "'subject' must name a package".to_owned() }),
    }
}

fn environments(fields: &Fields<'_>) -> Result<Vec<String>, Refused> {
    let environments = fields.texts("environments")?;
    if !(1..=ENVIRONMENTS_MAX).contains(&environments.len())
        || !environments.iter().all(|name| is_valid_name(name))
    {
        return Err(fields.fault("environments", &format!("a list of 1 to {ENVIRONMENTS_MAX} names")));
    }
    Ok(environments.into_iter().map(str::to_owned).collect())
}

/// At least one without a decision: else there is nothing to serve.
fn models(fields: &Fields<'_>) -> Result<BTreeMap<String, Digest>, Refused> {
    let models = fields.object("models")?;
    let least = usize::from(fields.or_null(Fields::digest, "decision")?.is_none());
    if !(least..=VERSIONS_MAX).contains(&models.keys().len())
        || !models.keys().all(|key| is_valid_version(key))
    {
        return Err(fields.fault("models", &format!("an object of {least} to {VERSIONS_MAX} versions")));
    }
    models.keys().map(|version| Ok((version.clone(), models.digest(version)?))).collect()
}

fn check_digest(what: impl Into<String>, signed: Option<Digest>, is: Option<Digest>) -> Result<(), Refused> {
    let shown =
        |digest: Option<Digest>| digest.map_or_else(|| "none".to_owned(), |digest| digest.to_string());
    if signed == is {
        return Ok(());
    }
    Err(Refused::WrongDigest { what: what.into(), signed: shown(signed), is: shown(is) })
}

/// Requires that the stated author signed first: else an author could name another person and approve too.
fn check_author(signer: &TrustedKey, author: &str) -> Result<(), Refused> {
    if signer.hint() == author && signer.has(Role::Signer) {
        return Ok(());
    }
    Err(signer.lacks(WHAT, Role::Signer))
}

/// Counts people, not keys: a person with two keys counts once, and the author never.
fn approvers<'k>(keys: &[&'k TrustedKey]) -> Vec<&'k TrustedKey> {
    let mut people = vec![keys[0]];
    for key in keys.iter().filter(|key| key.has(Role::Approver)) {
        if !people.iter().any(|known| known.same_person(key)) {
            people.push(key);
        }
    }
    people.split_off(1)
}
