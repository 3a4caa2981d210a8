//! Whether something may be served here: the index's signature, each deployment's release and packages, by the trust that the
//! server was given. Judged before a byte of a model is read.
//!
//! Knows neither ONNX Runtime nor the files that trust comes from: whoever reads those hands over what they say.

use arc_swap::ArcSwapOption;
use flyball_core::Digest;
use flyball_core::WallClock;
use flyball_core::snapshot::{self, Bundle, Signed};
use flyball_decision::{DecisionDocument, Digests};
use flyball_signing::{Manifest, Refused, Release, Trust};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who says what may be served, and what for.
pub struct Judge {
    trust: ArcSwapOption<Trust>,
    environment: String,
    /// What nobody signed is served too.
    allow_unsigned: bool,
    wall: WallClock,
    /// The newest signed index that was taken.
    taken: Mutex<Option<Taken>>,
    /// Keeps it over restarts.
    keep: Option<Keep>,
}

/// What is to be remembered of a signed index, so that an older one is not taken after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    pub generation: u64,
    /// Of its bytes.
    pub index: Digest,
    /// The registry's event that it was compiled from.
    pub registry: Option<Digest>,
}

/// Writes down what was taken.
pub type Keep = Box<dyn Fn(&Taken) + Send + Sync>;

impl Taken {
    fn of(bundle: &Bundle) -> Taken {
        Taken {
            generation: bundle.index.generation,
            index: Digest::of(&bundle.index_bytes),
            registry: bundle.index.registry.as_ref().map(|registry| registry.hash),
        }
    }

    /// One generation is one index; but what a registry's event says may be compiled again, when a package that could not be
    /// had is there, or one is not any more.
    fn may_follow(&self, before: &Taken) -> bool {
        let again = self.registry.is_some() && self.registry == before.registry;
        self.generation > before.generation
            || self.generation == before.generation && (again || self.index == before.index)
    }
}

/// What stands behind a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nobody, or nobody that could be asked.
    Unsigned,
    Signed(Approved),
}

/// A version of a registry that was signed, and by whom it was approved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Approved {
    pub name: String,
    pub version: u64,
    pub approvers: Vec<String>,
}

impl Serialize for Standing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Standing::Unsigned => serializer.serialize_str("unsigned"),
            Standing::Signed(approved) => approved.serialize(serializer),
        }
    }
}

/// A deployment whose signatures are sound; its files and documents have not been looked at.
pub(crate) struct Judged<'d> {
    pub(crate) standing: Standing,
    released: Vec<Released<'d>>,
}

/// What has a release of its own: a deployment, or its candidate.
struct Part<'d> {
    signed: Option<&'d Signed>,
    versions: &'d [snapshot::Version],
    decision: Option<&'d Value>,
}

struct Released<'d> {
    part: Part<'d>,
    release: Release,
    packages: Vec<(PathBuf, Manifest)>,
}

impl Judge {
    /// Without `trust` nothing is taken but what is unsigned, where that is allowed.
    pub fn new(trust: Option<Trust>, environment: &str, allow_unsigned: bool, wall: WallClock) -> Judge {
        let trust = ArcSwapOption::from(trust.map(Arc::new));
        let environment = environment.to_owned();
        Judge { trust, environment, allow_unsigned, wall, taken: Mutex::default(), keep: None }
    }

    /// One who knows what was taken before it was there, and has kept what is taken from now on.
    #[must_use]
    pub fn remembering(self, taken: Option<Taken>, keep: Keep) -> Judge {
        Judge { taken: Mutex::new(taken), keep: Some(keep), ..self }
    }

    /// Whoever trusts nobody, and serves everything.
    pub fn of_nobody() -> Judge {
        Judge::new(None, "production", true, WallClock::system())
    }

    pub fn environment(&self) -> &str {
        &self.environment
    }

    /// From now on; what serves is judged by it with the next snapshot.
    pub fn trust(&self, trust: Trust) {
        self.trust.store(Some(Arc::new(trust)));
    }

    /// Whether there is anything to judge by.
    pub(crate) fn trusts(&self) -> bool {
        self.trust.load().is_some()
    }

    /// Whether a snapshot as a whole may be applied here.
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
                self.no_older(&Taken::of(bundle))
            }
            _ if self.allow_unsigned => Ok(()),
            _ => Err(Refused::Unsigned { what: "the snapshot's index".to_owned() }),
        }
    }

    fn no_older(&self, offered: &Taken) -> Result<(), Refused> {
        match &*self.taken() {
            Some(before) if !offered.may_follow(before) => {
                let Taken { generation, index, .. } = before;
                let other =
                    if offered.generation == *generation { "another one of it" } else { "a newer one" };
                let taken = format!("{other} ({generation}, {index})");
                Err(Refused::IndexDowngrade { generation: offered.generation, taken })
            }
            _ => Ok(()),
        }
    }

    /// A snapshot is applied that was judged: an older one will be refused, if this one was signed.
    pub(crate) fn take(&self, bundle: &Bundle) {
        let offered = Taken::of(bundle);
        let mut taken = self.taken();
        if !self.trusts() || bundle.signature.is_none() || taken.as_ref() == Some(&offered) {
            return;
        }
        self.keep.iter().for_each(|keep| keep(&offered));
        *taken = Some(offered);
    }

    fn taken(&self) -> MutexGuard<'_, Option<Taken>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what a document and its candidate say was signed and approved, and holds here and now.
    pub(crate) fn deployment<'d>(
        &self,
        document: &'d snapshot::Deployment,
        base: &Path,
    ) -> Result<Judged<'d>, Refused> {
        let own = Part {
            signed: document.signed.as_ref(),
            versions: &document.versions,
            decision: document.decision.as_ref(),
        };
        let candidate = document.candidate.as_ref().map(|candidate| Part {
            signed: candidate.signed.as_ref(),
            versions: &candidate.versions,
            decision: candidate.decision.as_ref(),
        });
        let own = self.part(&document.name, own, base)?;
        let candidate = candidate.map(|part| self.part(&document.name, part, base)).transpose()?;
        // As bad as the worse of the two: whoever looks for what is unsigned must find it.
        let standing = match (&own, &candidate) {
            (None, _) | (_, Some(None)) => Standing::Unsigned,
            (Some(own), _) => Standing::Signed(own.approved()),
        };
        Ok(Judged { standing, released: own.into_iter().chain(candidate.flatten()).collect() })
    }

    /// `None` where it is signed by nobody that could be asked, and that is allowed.
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

impl Judged<'_> {
    /// Whether everything that is to be loaded is what was signed. Reads and hashes every file of every package: what is more,
    /// less or other is refused.
    pub(crate) fn check_contents(&self, base: &Path) -> Result<(), Refused> {
        for Released { part, release, packages } in &self.released {
            packages.iter().try_for_each(|(folder, manifest)| manifest.check_folder(folder))?;
            part.versions
                .iter()
                .try_for_each(|version| artifact_signed(&version.artifact, base, packages))?;
            let model = |one: &snapshot::Version| (one.version.clone(), one.artifact.digest_with_data());
            release.check_models(&part.versions.iter().map(model).collect())?;
            decision_released(part.decision, release)?;
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

/// In one line, for acknowledgements and logs: the reason first, which is of a closed list.
pub(crate) fn words(refused: &Refused) -> String {
    format!("{}: {refused}", refused.label())
}

/// Envelopes and bundles stand in documents as JSON. What is signed in them is text, so writing them anew changes nothing.
fn bytes(envelope: &Value) -> Vec<u8> {
    envelope.to_string().into_bytes()
}

/// A decision without a release, or a release without its decision, is as wrong as another one.
fn decision_released(decision: Option<&Value>, release: &Release) -> Result<(), Refused> {
    let Some(decision) = decision else { return release.check_documents(None, None, None) };
    let document = DecisionDocument::read(decision)
        .map_err(|fault| Refused::Malformed { what: "the decision", why: fault.to_string() })?;
    let Digests { document, policy, schema } = document.digests();
    release.check_documents(Some(document), Some(policy), Some(schema))
}

/// A model and its external data are among the files that were signed, with these very bytes.
fn artifact_signed(
    artifact: &snapshot::Artifact,
    base: &Path,
    packages: &[(PathBuf, Manifest)],
) -> Result<(), Refused> {
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

/// The name of a file in a folder, as manifests write it; none where it lies elsewhere, or may.
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
        let index = json!({"format": 5, "generation": 1, "deployments": [], "environment": environment});
        let parts = json!({"index": index.to_string(), "documents": []}).to_string();
        Bundle::from_memory(parts.as_bytes()).unwrap()
    }

    fn document(more: Value) -> snapshot::Deployment {
        let artifact = json!({"path": "m.onnx", "digest": format!("sha256:{}", "0".repeat(64))});
        let versions = json!([{"version": "1", "artifact": artifact}]);
        let mut document = json!({"format": 5, "name": "m", "route": {"version": "1"}, "versions": versions});
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        snapshot::Deployment::read(document.to_string().as_bytes()).unwrap()
    }

    fn judge(allow_unsigned: bool) -> Judge {
        Judge::new(None, "production", allow_unsigned, WallClock::manual(0))
    }

    #[test]
    fn what_nobody_signed_is_taken_only_where_that_is_allowed() {
        let base = Path::new("");
        assert_eq!(judge(false).index(&bundle(None)).unwrap_err().label(), "unsigned");
        let plain = document(json!({}));
        assert_eq!(judge(false).deployment(&plain, base).err().unwrap().label(), "unsigned");
        assert!(judge(true).index(&bundle(None)).is_ok());
        let allowing = judge(true);
        let judged = allowing.deployment(&plain, base).unwrap_or_else(|refused| panic!("{refused}"));
        assert_eq!(judged.standing, Standing::Unsigned);
        assert!(judged.check_contents(base).is_ok(), "it has no package");
    }

    #[test]
    fn a_snapshot_for_another_environment_is_refused_even_where_nothing_need_be_signed() {
        assert!(judge(true).index(&bundle(Some("production"))).is_ok());
        let refused = judge(true).index(&bundle(Some("staging"))).unwrap_err();
        assert_eq!(refused.label(), "wrong_environment");
        assert!(words(&refused).starts_with("wrong_environment: "), "{}", words(&refused));
    }

    #[test]
    fn no_older_index_is_taken_nor_another_of_one_generation_unless_one_event_is_compiled_again() {
        let taken = |generation, index: &str, registry: Option<&str>| Taken {
            generation,
            index: Digest::of(index.as_bytes()),
            registry: registry.map(|event| Digest::of(event.as_bytes())),
        };
        let judge = judge(true).remembering(Some(taken(7, "a", Some("event"))), Box::new(|_| {}));
        let refused = |offered: Taken| judge.no_older(&offered).err().map(|refused| words(&refused));
        assert_eq!(refused(taken(8, "b", None)), None);
        assert_eq!(refused(taken(7, "a", Some("event"))), None);
        assert_eq!(refused(taken(7, "b", Some("event"))), None);
        for (offered, said) in [
            (taken(6, "a", Some("event")), "a newer one (7, "),
            (taken(7, "b", Some("other")), "another one of it (7, "),
            (taken(7, "b", None), "another one of it (7, "),
        ] {
            let words = refused(offered).unwrap_or_default();
            assert!(words.starts_with("index_downgrade: ") && words.contains(said), "{words}");
        }
        judge.take(&bundle(None));
        assert!(
            judge.taken().as_ref().is_some_and(|taken| taken.generation == 7),
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

    #[test]
    fn a_standing_is_one_word_or_a_version_with_its_approvers() {
        let approved = Approved { name: "m".into(), version: 4, approvers: vec!["ada".into()] };
        let told =
            [Standing::Unsigned, Standing::Signed(approved)].map(|it| serde_json::to_value(it).unwrap());
        assert_eq!(told[0], json!("unsigned"));
        assert_eq!(told[1], json!({"name": "m", "version": 4, "approvers": ["ada"]}));
    }
}
