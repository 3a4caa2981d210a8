//! The tamper corpus of `tests/golden/signing`, which Python reads through the boundary: every case has one outcome.

use flyball_core::Digest;
use flyball_core::snapshot::{Artifact, ExternalData};
use flyball_signing::{Refused, Trust, TrustRoots};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/signing");

struct Corpus(Value);

impl Corpus {
    fn read() -> Corpus {
        Corpus(json("cases.json"))
    }

    fn cases(&self) -> &[Value] {
        self.0["cases"].as_array().expect("a list of cases")
    }

    /// The bytes of one of a case's texts, padded with blanks to the case's length.
    fn text(&self, case: &Value, key: &str) -> Option<Vec<u8>> {
        let name = case[key].as_str()?;
        let mut text = self.0["texts"][name].as_str().expect("a text of this name").to_owned().into_bytes();
        if let Some(length) = case[format!("{key}_bytes")].as_u64() {
            text.resize(usize::try_from(length).expect("it fits into memory"), b' ');
        }
        Some(text)
    }

    /// The checks of `Trust` when a deployment is loaded, in order.
    fn judge(&self, case: &Value, folder: &Path) -> Result<(), Refused> {
        let unsigned = |what: &str| Refused::Unsigned { what: what.to_owned() };
        let roots = case["roots"].as_str().expect("a name");
        let roots: Vec<&str> = texts(&self.0["roots"][roots]).collect();
        let roots = TrustRoots::read(&roots)?;
        let now = case["now"].as_i64().expect("a time");
        let serial_least = case["lowest_serial"].as_u64().expect("a serial");
        let policy = self.text(case, "trust").ok_or_else(|| unsigned("the trust policy"))?;
        let trust = Trust::read(&policy, &roots, now, serial_least)?;
        if let Some(index) = self.text(case, "index") {
            let signature = self.text(case, "index_signature").ok_or_else(|| unsigned("the index"))?;
            trust.index(&index, &signature, now)?;
        }
        let release = self.text(case, "release").ok_or_else(|| unsigned("the release"))?;
        let release = trust.release(&release, now, case["environment"].as_str().expect("a name"))?;
        release.check_name(case["deployment"].as_str().expect("a name"))?;
        let bundle = self.text(case, "bundle").ok_or_else(|| unsigned("the package"))?;
        let manifest = trust.package(&bundle, now)?;
        release.check_package(case["package_name"].as_str().expect("a name"), manifest.root)?;
        manifest.check_folder(folder)?;
        if let Some(models) = case["models"].as_object() {
            release.check_models(&models.iter().map(model).collect())?;
        }
        let document = |key: &str, released: Option<Digest>| match &case["digests"][key] {
            _ if case["digests"].get(key).is_none() => released,
            found => found.as_str().map(|text| text.parse().expect("a digest")),
        };
        release.check_documents(
            document("decision", release.decision),
            document("policy", release.policy),
            document("schema", release.schema),
        )
    }

    fn build(&self, case: &Value, folder: &Path) {
        let package = &self.0["packages"][case["package"].as_str().expect("a name")];
        let beside = |name: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().expect("it is in the folder")).expect("a folder");
            path
        };
        for (name, text) in package["files"].as_object().into_iter().flatten() {
            fs::write(beside(name), text.as_str().expect("a text")).expect("a file");
        }
        for name in texts(&package["folders"]) {
            fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        for (name, target) in package["symlinks"].as_object().into_iter().flatten() {
            symlink(target.as_str().expect("a path"), beside(name)).expect("a link");
        }
        for name in texts(&package["pipes"]) {
            mknodat(CWD, beside(name), FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
        }
    }
}

/// A model deployed as a version.
fn model((version, files): (&String, &Value)) -> (String, Digest) {
    let digest = |text: &Value| text.as_str().expect("a text").parse().expect("a digest");
    let data = files["external_data"].as_object().into_iter().flatten();
    let data = data.map(|(name, text)| ExternalData { name: name.clone(), digest: digest(text) });
    let artifact = Artifact {
        path: String::new(),
        digest: digest(&files["digest"]),
        external_data: data.collect(),
        optional_inputs: Vec::new(),
    };
    (version.clone(), artifact.digest_with_data())
}

fn json(file: &str) -> Value {
    let text = fs::read(format!("{GOLDEN}/{file}")).expect("it is checked in");
    serde_json::from_slice(&text).expect("it is JSON")
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().expect("a text"))
}

#[test]
fn every_case_of_the_corpus_has_its_one_outcome() {
    let corpus = Corpus::read();
    let mut wrong = Vec::new();
    for case in corpus.cases() {
        let folder = tempfile::tempdir().expect("a folder");
        let package = folder.path().join("package");
        fs::create_dir(&package).expect("a folder");
        corpus.build(case, &package);
        let judged = corpus.judge(case, &package);
        let is = judged.as_ref().map_or_else(Refused::label, |()| "ok");
        if is != case["expect"] {
            wrong.push(format!("{}: {}, not {is} ({judged:?})", case["name"], case["expect"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(corpus.cases().len() >= 40);
}

#[test]
fn the_corpus_knows_every_reason_and_no_other() {
    let corpus = Corpus::read();
    let expected = corpus.cases().iter().map(|case| case["expect"].as_str().expect("a text"));
    let expected: BTreeSet<&str> = expected.filter(|reason| *reason != "ok").collect();
    let reasons = json("reasons.json");
    // Servers remember earlier generations; no bytes can express that.
    let by_bytes = texts(&reasons).filter(|reason| *reason != "index_downgrade");
    assert_eq!(expected, by_bytes.collect());
}
