//! Finds every fault of a snapshot document at once.
//!
//! Works on plain JSON values, so that one wrong field does not hide the others. Semantic checks (duplicates,
//! routes) run only where the parts are valid.

use super::{
    BATCH_ROWS_MAX, CONCURRENCY_MAX, DEPLOYMENTS_MAX, FORMAT, GENERATION_MAX, IN_FLIGHT_MAX,
    LABEL_CHARACTERS_MAX, LABELLED_OUTPUTS_MAX, LABELS_MAX, Limits, RANK_MAX, RUN_MS_MIN, SHAPES_MAX,
    SHARE_MAX, SnapshotFault, TIME_MS_MAX, UNAVAILABLE_NAME_MAX, UNAVAILABLE_REASON_MAX, VERSIONS_MAX,
    WINDOW_MS_MAX,
};
use crate::Digest;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::ops::RangeInclusive;

mod signed;

pub(super) fn index(document: &Value) -> Vec<SnapshotFault> {
    let mut check = Check::default();
    let required = ["format", "generation", "deployments"];
    if let Some(root) = check.object("", document, &required, &["registry", "environment", "unavailable"]) {
        check.format(root);
        check.origin(root);
        check.integer("generation", root.get("generation"), 1..=GENERATION_MAX);
        let entries = check.list("deployments", root.get("deployments"), 0..=DEPLOYMENTS_MAX);
        let mut seen = HashSet::new();
        for (place, entry) in entries.iter().enumerate() {
            let path = format!("deployments[{place}]");
            let Some(entry) = check.object(&path, entry, &["name", "digest"], &[]) else { continue };
            check.name(&path, entry, &mut seen);
            check.digest(&format!("{path}.digest"), entry.get("digest"));
        }
        check.unavailable(root, &mut seen);
    }
    check.faults
}

pub(super) fn deployment(document: &Value) -> Vec<SnapshotFault> {
    let mut check = Check::default();
    let required = ["format", "name", "route", "versions"];
    let optional = ["limits", "slo", "batch", "labels", "shapes", "decision", "signed", "candidate"];
    if let Some(root) = check.object("", document, &required, &optional) {
        check.format(root);
        check.name("", root, &mut HashSet::new());
        let mut versions = HashSet::new();
        check.versions("versions", root, &mut versions);
        check.route(root, &versions);
        check.terms(root);
        check.labels(root);
        check.shapes(root);
        check.decision("decision", root);
        check.signed("signed", root);
        check.candidate(root, versions);
    }
    check.faults
}

/// The part of a deployment that a compiler is given for all of its models.
pub(super) fn terms(document: &Value) -> Vec<SnapshotFault> {
    let mut check = Check::default();
    if let Some(root) = check.object("", document, &[], &["limits", "slo", "batch"]) {
        check.terms(root);
    }
    check.faults
}

#[derive(Default)]
struct Check {
    faults: Vec<SnapshotFault>,
}

impl Check {
    fn fault(&mut self, path: &str, is: Option<&Value>, allowed: impl Into<String>) {
        self.faults.push(SnapshotFault {
            path: path.to_owned(),
            is: is.cloned().unwrap_or(Value::Null),
            allowed: allowed.into(),
        });
    }

    /// Requires an object with all of `required`, any of `optional`, and nothing else.
    ///
    /// Missing keys are reported here once, so that the field checks below may treat `None` as already
    /// reported.
    fn object<'v>(
        &mut self,
        path: &str,
        value: &'v Value,
        required: &[&str],
        optional: &[&str],
    ) -> Option<&'v Map<String, Value>> {
        let Value::Object(map) = value else {
            self.fault(path, Some(value), "an object");
            return None;
        };
        for key in required.iter().filter(|key| !map.contains_key(**key)) {
            self.fault(&join(path, key), None, "required, but missing");
        }
        let known = || required.iter().chain(optional).copied();
        for (key, is) in map.iter().filter(|(key, _)| !known().any(|name| name == *key)) {
            let allowed = format!("no such key; keys are {}", known().collect::<Vec<_>>().join(", "));
            self.fault(&join(path, key), Some(is), allowed);
        }
        Some(map)
    }

    fn list<'v>(
        &mut self,
        path: &str,
        value: Option<&'v Value>,
        count: RangeInclusive<usize>,
    ) -> &'v [Value] {
        match value {
            None => &[],
            Some(Value::Array(items)) if count.contains(&items.len()) => items,
            Some(other) => {
                self.fault(
                    path,
                    Some(other),
                    format!("a list of {} to {} items", count.start(), count.end()),
                );
                &[]
            }
        }
    }

    fn integer(&mut self, path: &str, value: Option<&Value>, range: RangeInclusive<u64>) -> Option<u64> {
        let value = value?;
        let sound = value.as_u64().filter(|number| range.contains(number));
        if sound.is_none() {
            self.fault(path, Some(value), format!("a whole number, {} to {}", range.start(), range.end()));
        }
        sound
    }

    fn string<'v>(
        &mut self,
        path: &str,
        value: Option<&'v Value>,
        allowed: &str,
        sound: impl Fn(&str) -> bool,
    ) -> Option<&'v str> {
        let value = value?;
        match value.as_str() {
            Some(text) if sound(text) => Some(text),
            _ => {
                self.fault(path, Some(value), allowed);
                None
            }
        }
    }

    fn digest(&mut self, path: &str, value: Option<&Value>) {
        let allowed = "'sha256:' and 64 lower-case hex digits";
        self.string(path, value, allowed, |text| text.parse::<Digest>().is_ok());
    }

    fn format(&mut self, root: &Map<String, Value>) {
        let Some(value) = root.get("format") else { return };
        if value.as_u64() != Some(FORMAT) {
            self.fault("format", Some(value), format!("{FORMAT}, the format that this build reads"));
        }
    }

    fn name<'v>(&mut self, path: &str, map: &'v Map<String, Value>, seen: &mut HashSet<&'v str>) {
        self.own_name(&join(path, "name"), map.get("name"), NAME_ALLOWED, is_valid_name, seen);
    }

    /// Reports a name that is not sound, or is already in `seen`.
    fn own_name<'v>(
        &mut self,
        path: &str,
        value: Option<&'v Value>,
        allowed: &str,
        sound: impl Fn(&str) -> bool,
        seen: &mut HashSet<&'v str>,
    ) {
        if let Some(name) = self.string(path, value, allowed, sound)
            && !seen.insert(name)
        {
            self.fault(path, value, "a name of its own: this one is taken");
        }
    }

    /// Reports numbers that are already in `seen`.
    fn versions<'v>(&mut self, path: &str, owner: &'v Map<String, Value>, seen: &mut HashSet<&'v str>) {
        // A decision may have no model; the `decision` crate checks that.
        let decides = path == "versions" && owner.get("decision").is_some_and(Value::is_object);
        let least = usize::from(!decides);
        let versions = self.list(path, owner.get("versions"), least..=VERSIONS_MAX);
        for (place, version) in versions.iter().enumerate() {
            let path = format!("{path}[{place}]");
            let Some(version) = self.object(&path, version, &["version", "artifact"], &[]) else { continue };
            let number = format!("{path}.version");
            if let Some(text) =
                self.string(&number, version.get("version"), VERSION_ALLOWED, is_valid_version)
                && !seen.insert(text)
            {
                self.fault(&number, version.get("version"), "a version of its own: this one is taken");
            }
            if let Some(artifact) = version.get("artifact") {
                self.artifact(&format!("{path}.artifact"), artifact);
            }
        }
    }

    fn artifact(&mut self, path: &str, value: &Value) {
        let optional = ["external_data", "optional_inputs"];
        let Some(artifact) = self.object(path, value, &["path", "digest"], &optional) else {
            return;
        };
        let file = join(path, "path");
        self.string(&file, artifact.get("path"), "a path that is not empty", |text| !text.is_empty());
        self.digest(&join(path, "digest"), artifact.get("digest"));
        let list = join(path, "external_data");
        for (place, item) in self.list(&list, artifact.get("external_data"), 0..=1000).iter().enumerate() {
            let path = format!("{list}[{place}]");
            let Some(item) = self.object(&path, item, &["name", "digest"], &[]) else { continue };
            let allowed = "a plain file name: external data is next to its model";
            self.string(&join(&path, "name"), item.get("name"), allowed, plain_file_name);
            self.digest(&join(&path, "digest"), item.get("digest"));
        }
        let list = join(path, "optional_inputs");
        for (place, name) in self.list(&list, artifact.get("optional_inputs"), 0..=64).iter().enumerate() {
            let allowed = "the name of an input";
            self.string(&format!("{list}[{place}]"), Some(name), allowed, |name| !name.is_empty());
        }
    }

    fn route(&mut self, root: &Map<String, Value>, versions: &HashSet<&str>) {
        let Some(route) = root.get("route") else { return };
        let Some(route) = self.object("route", route, &["version"], &[]) else { return };
        let value = route.get("version");
        if let Some(version) = self.string("route.version", value, VERSION_ALLOWED, is_valid_version)
            && !versions.is_empty()
            && !versions.contains(version)
        {
            self.fault("route.version", value, "one of the versions listed in 'versions'");
        }
    }

    fn terms(&mut self, owner: &Map<String, Value>) {
        let rows_max = self.limits(owner);
        self.slo(owner);
        self.batch(owner, rows_max);
    }

    /// Returns the maximum rows of a run, for the check of `batch`; none if that value is a fault.
    fn limits(&mut self, root: &Map<String, Value>) -> Option<u64> {
        let rows_by_default = Some(u64::from(Limits::default().batch_rows_max));
        let Some(limits) = root.get("limits") else { return rows_by_default };
        let limits = self.object("limits", limits, &[], &LIMITS.each_ref().map(|(key, _)| *key))?;
        let mut rows = rows_by_default;
        for (key, range) in LIMITS {
            let sound = self.integer(&join("limits", key), limits.get(key), range);
            if key == "batch_rows_max" && limits.contains_key(key) {
                rows = sound;
            }
        }
        rows
    }

    fn slo(&mut self, root: &Map<String, Value>) {
        let Some(slo) = root.get("slo") else { return };
        let Some(slo) = self.object("slo", slo, &[], &["deadline_ms"]) else { return };
        let deadline = slo.get("deadline_ms").filter(|value| !value.is_null());
        self.integer("slo.deadline_ms", deadline, 1..=TIME_MS_MAX);
    }

    fn batch(&mut self, root: &Map<String, Value>, rows_max: Option<u64>) {
        let Some(batch) = root.get("batch").filter(|value| !value.is_null()) else { return };
        let Some(batch) = self.object("batch", batch, &["size", "window_ms"], &[]) else { return };
        self.integer("batch.window_ms", batch.get("window_ms"), 1..=WINDOW_MS_MAX);
        let size = self.integer("batch.size", batch.get("size"), 2..=BATCH_ROWS_MAX);
        // A size larger than any run would make every request wait for the whole window.
        if let (Some(size), Some(rows_max)) = (size, rows_max)
            && size > rows_max
        {
            let allowed = format!("at most limits.batch_rows_max, which is {rows_max}");
            self.fault("batch.size", batch.get("size"), allowed);
        }
    }

    fn unavailable<'v>(&mut self, root: &'v Map<String, Value>, seen: &mut HashSet<&'v str>) {
        let models = self.list("unavailable", root.get("unavailable"), 0..=DEPLOYMENTS_MAX);
        let name_allowed = format!("a text of 1 to {UNAVAILABLE_NAME_MAX} characters");
        let reason_allowed = format!("a text of 0 to {UNAVAILABLE_REASON_MAX} characters");
        for (place, model) in models.iter().enumerate() {
            let path = format!("unavailable[{place}]");
            let Some(model) = self.object(&path, model, &["name", "reason"], &[]) else { continue };
            let sound = |text: &str| (1..=UNAVAILABLE_NAME_MAX).contains(&text.chars().count());
            self.own_name(&format!("{path}.name"), model.get("name"), &name_allowed, sound, seen);
            let sound = |text: &str| text.chars().count() <= UNAVAILABLE_REASON_MAX;
            self.string(&format!("{path}.reason"), model.get("reason"), &reason_allowed, sound);
        }
    }

    fn labels(&mut self, root: &Map<String, Value>) {
        let Some(value) = root.get("labels") else { return };
        let outputs = value.as_object().filter(|outputs| outputs.len() <= LABELLED_OUTPUTS_MAX);
        let Some(outputs) = outputs else {
            let allowed = format!("an object: labels of 0 to {LABELLED_OUTPUTS_MAX} outputs by their names");
            return self.fault("labels", Some(value), allowed);
        };
        let allowed = format!("a text of 0 to {LABEL_CHARACTERS_MAX} characters");
        let sound = |text: &str| text.chars().count() <= LABEL_CHARACTERS_MAX;
        for (output, labels) in outputs {
            let path = join("labels", output);
            for (place, label) in self.list(&path, Some(labels), 1..=LABELS_MAX).iter().enumerate() {
                self.string(&format!("{path}[{place}]"), Some(label), &allowed, sound);
            }
        }
    }

    fn shapes(&mut self, root: &Map<String, Value>) {
        let Some(value) = root.get("shapes") else { return };
        let Some(tensors) = value.as_object().filter(|tensors| tensors.len() <= SHAPES_MAX) else {
            let allowed = format!("an object: shapes of 0 to {SHAPES_MAX} inputs and outputs by their names");
            return self.fault("shapes", Some(value), allowed);
        };
        for (tensor, shapes) in tensors {
            let path = join("shapes", tensor);
            let Some(shapes) = self.object(&path, shapes, &["client", "model"], &["layout"]) else {
                continue;
            };
            let client = self.shape(&join(&path, "client"), shapes.get("client"));
            let model = self.shape(&join(&path, "model"), shapes.get("model"));
            if let (Some(client), Some(model)) = (client, model)
                && content(&client) != content(&model)
            {
                let allowed = "as many elements as 'model', and as many free axes (-1)";
                self.fault(&join(&path, "client"), shapes.get("client"), allowed);
            }
            let layout = shapes.get("layout").filter(|value| !value.is_null());
            if layout.is_some_and(|value| !matches!(value.as_str(), Some("NCHW" | "NHWC"))) {
                self.fault(&join(&path, "layout"), layout, "'NCHW' or 'NHWC'; null for none");
            }
        }
    }

    fn shape(&mut self, path: &str, value: Option<&Value>) -> Option<Vec<i64>> {
        let value = value?;
        let axis = |axis: &Value| axis.as_i64().filter(|axis| *axis >= -1);
        let axes = value.as_array().filter(|axes| axes.len() <= RANK_MAX);
        let shape = axes.and_then(|axes| axes.iter().map(axis).collect());
        if shape.is_none() {
            let allowed = format!("a list of 0 to {RANK_MAX} axes, each a size or -1");
            self.fault(path, Some(value), allowed);
        }
        shape
    }

    fn decision(&mut self, path: &str, owner: &Map<String, Value>) {
        let decision = owner.get("decision").filter(|value| !value.is_null());
        if decision.is_some_and(|value| !value.is_object()) {
            self.fault(path, decision, "an object: a decision, as 'flyball plan' compiles it; null for none");
        }
    }
}

/// The keys of `limits` and their bounds.
const LIMITS: [(&str, RangeInclusive<u64>); 6] = [
    ("in_flight_max", 1..=IN_FLIGHT_MAX),
    ("batch_rows_max", 0..=BATCH_ROWS_MAX),
    ("concurrency_max", 1..=CONCURRENCY_MAX),
    ("queue_wait_ms_max", 1..=TIME_MS_MAX),
    ("run_ms_max", RUN_MS_MIN..=TIME_MS_MAX),
    ("share", 1..=SHARE_MAX),
];

const NAME_ALLOWED: &str = "1 to 128 of A-Z a-z 0-9 . _ -, not starting with '.'";
const VERSION_ALLOWED: &str = "a decimal number from \"1\" to \"999999999\", as a string";

/// What two shapes of one tensor have in common: the elements of their fixed axes, and their free axes.
fn content(shape: &[i64]) -> (Option<i64>, usize) {
    let free = shape.iter().filter(|axis| **axis == -1).count();
    (shape.iter().filter(|axis| **axis != -1).try_fold(1_i64, |all, axis| all.checked_mul(*axis)), free)
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// Whether the text is a valid name of a deployment. Other names have the same form.
pub fn is_valid_name(text: &str) -> bool {
    (1..=128).contains(&text.len())
        && !text.starts_with('.')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Whether the text is a valid version number of a deployment.
pub fn is_valid_version(text: &str) -> bool {
    (1..=9).contains(&text.len()) && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn plain_file_name(text: &str) -> bool {
    !text.is_empty() && text != "." && text != ".." && !text.contains(['/', '\\', '\0'])
}
