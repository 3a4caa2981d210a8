//! Decides whether a deployment may be served, by the server's trust policy: verifies the index's signature, and each
//! deployment's release and packages, before a byte of a model is read.
//!
//! Knows neither ONNX Runtime nor the policy's files: their reader passes the contents.

use arc_swap::ArcSwapOption;
use flyball_core::snapshot::{self, Bundle, Signed};
use flyball_core::{Digest, WallClock};
use flyball_decision::{DecisionDocument, Digests};
use flyball_plane::{Approved, Provenance};
use flyball_signing::{Manifest, Refused, Release, Trust};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Decides what may be served, by the trust policy and for one environment.
pub struct TrustGate {
    trust: ArcSwapOption<Trust>,
    environment: String,
    /// Whether unsigned deployments are served.
    allow_unsigned: bool,
    wall: WallClock,
    /// The newest signed index that was applied.
    newest: Mutex<Option<IndexMark>>,
    /// Keeps it over restarts.
    keep: Option<KeepMark>,
}

/// Identifies a signed index, so that no older one is applied after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexMark {
    pub generation: u64,
    /// The digest of its bytes.
    pub index: Digest,
    /// The registry event that it was compiled from.
    pub registry: Option<Digest>,
}

/// Stores the newest mark.
pub type KeepMark = Box<dyn Fn(&IndexMark) + Send + Sync>;

impl IndexMark {
    fn of(bundle: &Bundle) -> IndexMark {
        IndexMark {
            generation: bundle.index.generation,
            index: Digest::of(&bundle.index_bytes),
            registry: bundle.index.registry.as_ref().map(|registry| registry.hash),
        }
    }

    /// A generation has one index; but a registry event may be compiled again, when a missing package has arrived or one was
    /// removed.
    fn may_follow(&self, before: &IndexMark) -> bool {
        let again = self.registry.is_some() && self.registry == before.registry;
        self.generation > before.generation
            || self.generation == before.generation && (again || self.index == before.index)
    }
}

/// A deployment whose signatures are valid; its files and documents are not checked yet.
pub(crate) struct Verified<'d> {
    pub(crate) provenance: Provenance,
    released: Vec<Released<'d>>,
}

/// A part with a release of its own: a deployment, or its candidate.
struct Part<'d> {
    signed: &'d Option<Signed>,
    versions: &'d [snapshot::Version],
    decision: &'d Option<Value>,
}

struct Released<'d> {
    part: Part<'d>,
    release: Release,
    packages: Vec<(PathBuf, Manifest)>,
}

impl TrustGate {
    /// Without `trust` only unsigned deployments are served, if those are allowed.
    pub fn new(trust: Option<Trust>, environment: &str, allow_unsigned: bool, wall: WallClock) -> TrustGate {
        let trust = ArcSwapOption::from(trust.map(Arc::new));
        let environment = environment.to_owned();
        TrustGate { trust, environment, allow_unsigned, wall, newest: Mutex::default(), keep: None }
    }

    /// Starts from the mark of an earlier process, and stores later ones.
    #[must_use]
    pub fn remembering(self, newest: Option<IndexMark>, keep: KeepMark) -> TrustGate {
        TrustGate { newest: Mutex::new(newest), keep: Some(keep), ..self }
    }

    /// Verifies nothing and serves everything.
    pub fn open() -> TrustGate {
        TrustGate::new(None, "production", true, WallClock::system())
    }

    pub fn environment(&self) -> &str {
        &self.environment
    }

    /// Replaces the policy. The caller must verify serving deployments again.
    pub fn trust(&self, trust: Trust) {
        self.trust.store(Some(Arc::new(trust)));
    }

    /// Whether there is a policy to verify against.
    pub(crate) fn trusts(&self) -> bool {
        self.trust.load().is_some()
    }

    /// Checks that a snapshot as a whole may be applied.
    pub(crate) fn index(&self, bundle: &Bundle) -> Result<(), Refused> {
        if let Some(wanted) = bundle.index.environment.as_ref().filter(|wanted| **wanted != self.environment)
        {
            return Err(Refused::WrongEnvironment {
                name: "the snapshot".to_owned(),
                environment: self.environment.clone(),
                allowed: wanted.clone(),
            });
        }
        match (&*self.trust.load(), &bundle.signature) {
            (Some(trust), Some(signature)) => {
                trust.index(&bundle.index_bytes, signature, self.now())?;
                self.no_older(&IndexMark::of(bundle))
            }
            _ if self.allow_unsigned => Ok(()),
            _ => Err(Refused::Unsigned { what: "the snapshot's index".to_owned() }),
        }
    }

    fn no_older(&self, offered: &IndexMark) -> Result<(), Refused> {
        match &*self.newest() {
            Some(before) if !offered.may_follow(before) => {
                let IndexMark { generation, index, .. } = before;
                let other =
                    if offered.generation == *generation { "another one of it" } else { "a newer one" };
                let taken = format!("{other} ({generation}, {index})");
                Err(Refused::IndexDowngrade { generation: offered.generation, taken })
            }
            _ => Ok(()),
        }
    }

    /// Refuses older snapshots from now on, if this verified one was signed.
    pub(crate) fn advance(&self, bundle: &Bundle) {
        let offered = IndexMark::of(bundle);
        let mut newest = self.newest();
        if !self.trusts() || bundle.signature.is_none() || newest.as_ref() == Some(&offered) {
            return;
        }
        self.keep.iter().for_each(|keep| keep(&offered));
        *newest = Some(offered);
    }

    fn newest(&self) -> MutexGuard<'_, Option<IndexMark>> {
        self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Verifies that a document and its candidate are signed and approved, for this environment and time.
    pub(crate) fn deployment<'d>(
        &self,
        document: &'d snapshot::Deployment,
        base: &Path,
    ) -> Result<Verified<'d>, Refused> {
        let snapshot::Deployment { name, signed, versions, decision, .. } = document;
        let own = self.part(name, Part { signed, versions, decision }, base)?;
        let candidate = document.candidate.as_ref().map(|candidate| {
            let snapshot::Candidate { signed, versions, decision, .. } = candidate;
            self.part(name, Part { signed, versions, decision }, base)
        });
        let candidate = candidate.transpose()?;
        // The worse of the two, so that a search for unsigned deployments finds it.
        let provenance = match (&own, &candidate) {
            (None, _) | (_, Some(None)) => Provenance::Unsigned,
            (Some(own), _) => Provenance::Signed(own.approved()),
        };
        Ok(Verified { provenance, released: own.into_iter().chain(candidate.flatten()).collect() })
    }

    /// `None` if its signature cannot be verified and unsigned parts are allowed.
    fn part<'d>(&self, name: &str, part: Part<'d>, base: &Path) -> Result<Option<Released<'d>>, Refused> {
        let trust = self.trust.load();
        let (Some(trust), Some(signed)) = (&*trust, part.signed) else {
            let unsigned = || Refused::Unsigned { what: format!("'{name}'") };
            return if self.allow_unsigned { Ok(None) } else { Err(unsigned()) };
        };
        let now = self.now();
        let release = trust.release(&bytes(&signed.release), now, &self.environment)?;
        release.check_name(name)?;
        let shown = format!("{}@{}", release.name, release.version);
        let asked = format!("{}@{}", signed.name, signed.version);
        if asked != shown {
            return Err(Refused::WrongName { released: shown, asked });
        }
        let mut packages = Vec::with_capacity(signed.packages.len());
        for package in &signed.packages {
            let manifest = trust.package(&bytes(&package.bundle), now)?;
            release.check_package(&format!("{}@{}", package.name, package.version), manifest.root)?;
            packages.push((base.join(&package.folder), manifest));
        }
        Ok(Some(Released { part, release, packages }))
    }

    fn now(&self) -> i64 {
        self.wall.now_ms().div_euclid(1000)
    }
}

impl Verified<'_> {
    /// Verifies that the files to be loaded are the signed ones. Reads and hashes every file of every package: extra, missing or
    /// changed files are refused.
    pub(crate) fn check_contents(&self, base: &Path) -> Result<(), Refused> {
        for Released { part, release, packages } in &self.released {
            packages.iter().try_for_each(|(folder, manifest)| manifest.check_folder(folder))?;
            part.versions
                .iter()
                .try_for_each(|version| artifact_signed(&version.artifact, base, packages))?;
            let model = |one: &snapshot::Version| (one.version.clone(), one.artifact.digest_with_data());
            release.check_models(&part.versions.iter().map(model).collect())?;
            decision_released(part.decision.as_ref(), release)?;
        }
        Ok(())
    }
}

impl Released<'_> {
    fn approved(&self) -> Approved {
        let Release { name, version, approvers, .. } = self.release.clone();
        Approved { name, version, approvers }
    }
}

/// The refusal as one line for acknowledgements and logs, which starts with its label.
pub(crate) fn reason(refused: &Refused) -> String {
    format!("{}: {refused}", refused.label())
}

/// An envelope or bundle of a document. What is signed in it is text, so serializing it again changes nothing.
fn bytes(envelope: &Value) -> Vec<u8> {
    envelope.to_string().into_bytes()
}

/// A decision without a release, or a release without its decision, is refused like a wrong one.
fn decision_released(decision: Option<&Value>, release: &Release) -> Result<(), Refused> {
    let Some(decision) = decision else { return release.check_documents(None, None, None) };
    let document = DecisionDocument::read(decision)
        .map_err(|fault| Refused::Malformed { what: "the decision", why: fault.to_string() })?;
    let Digests { document, policy, schema } = document.digests();
    release.check_documents(Some(document), Some(policy), Some(schema))
}

/// Verifies that a model and its external data are among the signed files, with these bytes.
fn artifact_signed(
    artifact: &snapshot::Artifact,
    base: &Path,
    packages: &[(PathBuf, Manifest)],
) -> Result<(), Refused> {
    // Nobody approved other values of the model's constants.
    if !artifact.optional_inputs.is_empty() {
        let why = "a release does not cover optional_inputs".to_owned();
        return Err(Refused::Malformed { what: "the deployment", why });
    }
    let path = base.join(&artifact.path);
    let beside = artifact.external_data.iter().map(|file| (path.with_file_name(&file.name), file.digest));
    for (path, wanted) in [(path.clone(), artifact.digest)].into_iter().chain(beside) {
        let file = path.display().to_string();
        match packages.iter().find_map(|(folder, manifest)| manifest.digest_of(&inside(&path, folder)?)) {
            Some(signed) if signed == wanted => {}
            Some(_) => return Err(Refused::ChangedFile { file }),
            None => return Err(Refused::ExtraFile { file }),
        }
    }
    Ok(())
}

/// The name of a file in a folder, as manifests write it; none if it is, or may be, elsewhere.
fn inside(path: &Path, folder: &Path) -> Option<String> {
    let parts = path.strip_prefix(folder).ok()?.components();
    let names: Option<Vec<_>> = parts
        .map(|part| match part {
            Component::Normal(name) => name.to_str(),
            _ => None,
        })
        .collect();
    Some(names?.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_core::snapshot::Document;
    use serde_json::json;

    fn bundle(environment: Option<&str>) -> Bundle {
        let index = json!({"format": 1, "generation": 1, "deployments": [], "environment": environment});
        let parts = json!({"index": index.to_string(), "documents": []}).to_string();
        Bundle::from_memory(parts.as_bytes()).unwrap()
    }

    #[test]
    fn a_signed_model_has_no_inputs_that_were_constants_of_its_file() {
        let digest = format!("sha256:{}", "0".repeat(64));
        let artifact = json!({"path": "m.onnx", "digest": digest, "optional_inputs": ["scale"]});
        let artifact: snapshot::Artifact = serde_json::from_value(artifact).unwrap();
        let refused = artifact_signed(&artifact, Path::new(""), &[]).unwrap_err();
        assert!(refused.to_string().contains("a release does not cover optional_inputs"), "{refused}");
    }

    fn document(more: Value) -> snapshot::Deployment {
        let artifact = json!({"path": "m.onnx", "digest": format!("sha256:{}", "0".repeat(64))});
        let versions = json!([{"version": "1", "artifact": artifact}]);
        let mut document = json!({"format": 1, "name": "m", "route": {"version": "1"}, "versions": versions});
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        snapshot::Deployment::read(document.to_string().as_bytes()).unwrap()
    }

    fn gate(allow_unsigned: bool) -> TrustGate {
        TrustGate::new(None, "production", allow_unsigned, WallClock::manual(0))
    }

    #[test]
    fn unsigned_deployments_are_served_only_where_they_are_allowed() {
        let base = Path::new("");
        assert_eq!(gate(false).index(&bundle(None)).unwrap_err().label(), "unsigned");
        let plain = document(json!({}));
        assert_eq!(gate(false).deployment(&plain, base).err().unwrap().label(), "unsigned");
        assert!(gate(true).index(&bundle(None)).is_ok());
        let allowing = gate(true);
        let verified = allowing.deployment(&plain, base).unwrap_or_else(|refused| panic!("{refused}"));
        assert_eq!(verified.provenance, Provenance::Unsigned);
        assert!(verified.check_contents(base).is_ok(), "it has no package");
    }

    #[test]
    fn a_snapshot_for_another_environment_is_refused_even_where_nothing_need_be_signed() {
        assert!(gate(true).index(&bundle(Some("production"))).is_ok());
        let refused = gate(true).index(&bundle(Some("staging"))).unwrap_err();
        assert_eq!(refused.label(), "wrong_environment");
        assert!(reason(&refused).starts_with("wrong_environment: "), "{}", reason(&refused));
    }

    #[test]
    fn no_older_index_is_applied_nor_another_of_one_generation_unless_one_event_is_compiled_again() {
        let taken = |generation, index: &str, registry: Option<&str>| IndexMark {
            generation,
            index: Digest::of(index.as_bytes()),
            registry: registry.map(|event| Digest::of(event.as_bytes())),
        };
        let gate = gate(true).remembering(Some(taken(7, "a", Some("event"))), Box::new(|_| {}));
        let refused = |offered: IndexMark| gate.no_older(&offered).err().map(|refused| reason(&refused));
        assert_eq!(refused(taken(8, "b", None)), None);
        assert_eq!(refused(taken(7, "a", Some("event"))), None);
        assert_eq!(refused(taken(7, "b", Some("event"))), None);
        for (offered, said) in [
            (taken(6, "a", Some("event")), "a newer one (7, "),
            (taken(7, "b", Some("other")), "another one of it (7, "),
            (taken(7, "b", None), "another one of it (7, "),
        ] {
            let reason = refused(offered).unwrap_or_default();
            assert!(reason.starts_with("index_downgrade: ") && reason.contains(said), "{reason}");
        }
        gate.advance(&bundle(None));
        assert!(
            gate.newest().as_ref().is_some_and(|taken| taken.generation == 7),
            "the unsigned bind nobody"
        );
    }

    #[test]
    fn a_file_is_in_a_package_by_its_name_alone() {
        let inside = |path: &str| inside(Path::new(path), Path::new("/srv/p"));
        assert_eq!(inside("/srv/p/m.onnx").as_deref(), Some("m.onnx"));
        assert_eq!(inside("/srv/p/a/m.onnx").as_deref(), Some("a/m.onnx"));
        assert_eq!(inside("/srv/p/./m.onnx").as_deref(), Some("m.onnx"));
        for elsewhere in ["/srv/q/m.onnx", "/srv/p/../q/m.onnx", "/srv/pm.onnx", "m.onnx"] {
            assert_eq!(inside(elsewhere), None, "{elsewhere}");
        }
    }
}
