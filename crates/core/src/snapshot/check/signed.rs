//! The faults of a document's signatures, candidate and origin. Signatures are not verified here: that needs keys.

use super::super::{GENERATION_MAX, PACKAGES_MAX, VERSION_NUMBER_MAX};
use super::{Check, NAME_ALLOWED, is_valid_name, join};
use serde_json::{Map, Value};
use std::collections::HashSet;

impl Check {
    /// Checks the registry and environment of an index.
    pub(super) fn origin(&mut self, root: &Map<String, Value>) {
        let environment = root.get("environment").filter(|value| !value.is_null());
        self.string("environment", environment, NAME_ALLOWED, is_valid_name);
        let Some(registry) = root.get("registry").filter(|value| !value.is_null()) else { return };
        let Some(registry) = self.object("registry", registry, &["sequence", "hash"], &[]) else { return };
        self.integer("registry.sequence", registry.get("sequence"), 0..=GENERATION_MAX);
        self.digest("registry.hash", registry.get("hash"));
    }

    pub(super) fn signed(&mut self, path: &str, owner: &Map<String, Value>) {
        let Some(signed) = owner.get("signed").filter(|value| !value.is_null()) else { return };
        let keys = ["name", "version", "packages", "release"];
        let Some(signed) = self.object(path, signed, &keys, &[]) else { return };
        self.version_of_registry(path, signed);
        let list = join(path, "packages");
        for (place, package) in self.list(&list, signed.get("packages"), 1..=PACKAGES_MAX).iter().enumerate()
        {
            let path = format!("{list}[{place}]");
            let keys = ["name", "version", "folder", "bundle"];
            let Some(package) = self.object(&path, package, &keys, &[]) else { continue };
            self.version_of_registry(&path, package);
            let sound = |text: &str| !text.is_empty();
            self.string(&join(&path, "folder"), package.get("folder"), "a path that is not empty", sound);
            self.plain_object(&join(&path, "bundle"), package.get("bundle"));
        }
        self.plain_object(&join(path, "release"), signed.get("release"));
    }

    /// `taken` contains the numbers of the deployment's own versions.
    pub(super) fn candidate<'v>(&mut self, root: &'v Map<String, Value>, mut taken: HashSet<&'v str>) {
        let Some(candidate) = root.get("candidate").filter(|value| !value.is_null()) else { return };
        let keys = ["share", "shadow", "versions"];
        let Some(candidate) = self.object("candidate", candidate, &keys, &["decision", "signed"]) else {
            return;
        };
        let (share, shadow) = (candidate.get("share"), candidate.get("shadow"));
        let part = |value: &Value| value.as_f64().is_some_and(|share| (0.0..=1.0).contains(&share));
        if share.is_some_and(|value| !part(value)) {
            self.fault("candidate.share", share, "a number, 0 to 1");
        }
        if shadow.is_some_and(|value| !value.is_boolean()) {
            self.fault("candidate.shadow", shadow, "true or false");
        }
        self.versions("candidate.versions", candidate, &mut taken);
        self.decision("candidate.decision", candidate);
        self.signed("candidate.signed", candidate);
    }

    fn version_of_registry(&mut self, path: &str, owner: &Map<String, Value>) {
        self.string(&join(path, "name"), owner.get("name"), NAME_ALLOWED, is_valid_name);
        self.integer(&join(path, "version"), owner.get("version"), 1..=VERSION_NUMBER_MAX);
    }

    fn plain_object(&mut self, path: &str, value: Option<&Value>) {
        if value.is_some_and(|value| !value.is_object()) {
            self.fault(path, value, "an object");
        }
    }
}
