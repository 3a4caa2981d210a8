//! The tamper corpus of `tests/golden/signing` through a loader: for each fault the previous deployment keeps serving, and the
//! reason is the listed one. Cases of bytes alone, such as bundles that are not JSON, are tested in `signing`.

use super::*;
use flyball_signing::{Trust, TrustRoots};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use std::fs;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/signing/cases.json");

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap())
}

fn pairs(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    map.as_object().into_iter().flatten().map(|(name, text)| (name.as_str(), text.as_str().unwrap()))
}

fn build(package: &Value, folder: &Path) {
    let beside = |name: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    };
    texts(&package["folders"]).for_each(|name| fs::create_dir_all(folder.join(name)).unwrap());
    pairs(&package["files"]).for_each(|(name, text)| fs::write(beside(name), text).unwrap());
    pairs(&package["symlinks"])
        .for_each(|(name, target)| std::os::unix::fs::symlink(target, beside(name)).unwrap());
    texts(&package["pipes"])
        .for_each(|name| mknodat(CWD, beside(name), FileType::Fifo, Mode::RUSR, 0).unwrap());
}

/// The trust of a case, and its release and bundle; none if a document cannot contain them.
fn given(corpus: &Value, case: &Value) -> Option<(Trust, Option<Value>, Value)> {
    let padded = ["trust_bytes", "release_bytes", "bundle_bytes"].iter().any(|key| case.get(key).is_some());
    let text = |key: &str| case[key].as_str().and_then(|name| corpus["texts"][name].as_str());
    let object = |text: &str| snapshot::strict_json(text.as_bytes()).ok().filter(Value::is_object);
    if padded || case.get("index").is_some() {
        return None;
    }
    let roots: Vec<_> = texts(&corpus["roots"][case["roots"].as_str()?]).collect();
    let roots = TrustRoots::read(&roots).ok()?;
    let (now, serial) = (case["now"].as_i64()?, case["lowest_serial"].as_u64()?);
    let trust = Trust::read(text("trust")?.as_bytes(), &roots, now, serial).ok()?;
    let release = match text("release") {
        None => None,
        Some(text) => Some(object(text)?),
    };
    Some((trust, release, object(text("bundle")?)?))
}

/// A deployment whose model is a file of the package: the released one if there is one.
fn bundle(release: Option<Value>, signature: Value, named: &str, package: &Value, folder: &Path) -> Bundle {
    let file = |(name, _): &(&str, &str)| !name.starts_with(".git");
    let model = pairs(&package["files"]).find(|(name, _)| *name == "model.onnx");
    let (name, text) = model.or_else(|| pairs(&package["files"]).find(file)).unwrap();
    let digest = Digest::of(text.as_bytes()).to_string();
    let artifact = json!({"path": folder.join("package").join(name), "digest": digest});
    let (named, version) = named.split_once('@').unwrap();
    let version: u64 = version.parse().unwrap();
    let package = json!({"name": named, "version": version, "folder": "package", "bundle": signature});
    let signed = release
        .map(|release| json!({"name": "fraud", "version": 4, "packages": [package], "release": release}));
    let document = json!({
        "format": 1, "name": "fraud", "route": {"version": "4"},
        "versions": [{"version": "4", "artifact": artifact}], "signed": signed,
    })
    .to_string();
    let entry = json!({"name": "fraud", "digest": Digest::of(document.as_bytes()).to_string()});
    let index = json!({"format": 1, "generation": 2, "deployments": [entry]}).to_string();
    let parts = json!({"index": index, "documents": [document], "base": folder}).to_string();
    Bundle::from_memory(parts.as_bytes()).unwrap()
}

#[test]
fn whatever_is_wrong_with_what_was_signed_the_old_version_goes_on() {
    let corpus: Value = serde_json::from_slice(&fs::read(GOLDEN).unwrap()).unwrap();
    let (mut met, mut wrong) = (0, Vec::new());
    for case in corpus["cases"].as_array().unwrap() {
        let Some((trust, release, signature)) = given(&corpus, case) else { continue };
        met += 1;
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("package")).unwrap();
        let package = &corpus["packages"][case["package"].as_str().unwrap()];
        build(package, &folder.path().join("package"));
        let now = WallClock::manual(case["now"].as_i64().unwrap() * 1000);
        let gate = TrustGate::new(Some(trust), case["environment"].as_str().unwrap(), false, now);
        let loader = loader_by(gate);
        let old = deployment("fraud", Digest::of(b"old"));
        loader.change(&loader.hold(), |routes| drop(routes.serve(old)));
        let named = case["package_name"].as_str().unwrap();
        let bundle = bundle(release, signature, named, package, folder.path());
        let ack = loader.apply_one(&bundle, &bundle.index.deployments[0], &|| false).unwrap();
        let reason = ack.reason.unwrap_or_default();
        // The document has no decision, but the corpus' releases are of a decision: so the last check, and that of the
        // version, which is 4 here, are refused for that reason.
        let expected = case["expect"].as_str().unwrap();
        let met = |label: &str| reason.starts_with(&format!("{label}: "));
        let unlike = met("wrong_digest") || met("wrong_name");
        let right = met(expected) || expected == "ok" && unlike;
        let serving = loader.plane.routes.load().get("fraud").map(|serving| serving.digest);
        if !right || ack.state != AckState::Refused || serving != Some(Digest::of(b"old")) {
            wrong.push(format!("{}: {expected}, but {reason}", case["name"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(met >= 100, "only {met} cases can be met by a loader");
}
