//! The golden files are the contract: Python's reader runs over the very same ones.

use super::*;
use std::path::PathBuf;

#[derive(Deserialize)]
struct Golden {
    kind: String,
    document: Value,
    #[serde(default)]
    faults: Vec<String>,
}

fn golden(folder: &str) -> Vec<(PathBuf, Golden)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/snapshot/v1").join(folder);
    let files = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let golden = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        (path, golden)
    };
    let all: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|ext| ext == "json")).map(read).collect();
    assert!(all.len() >= 5, "too few golden files in {}", root.display());
    all
}

fn faults_of(golden: &Golden) -> Vec<SnapshotFault> {
    match golden.kind.as_str() {
        "index" => Index::check(&golden.document),
        "deployment" => Deployment::check(&golden.document),
        other => panic!("unknown kind {other}"),
    }
}

#[test]
fn every_good_golden_document_is_read_and_written_back_to_the_same_meaning() {
    for (path, golden) in golden("good") {
        assert_eq!(faults_of(&golden), [], "{}", path.display());
        let bytes = golden.document.to_string().into_bytes();
        if golden.kind == "index" {
            let index = Index::read(&bytes).unwrap();
            assert_eq!(Index::read(&serde_json::to_vec(&index).unwrap()).unwrap(), index);
        } else {
            let deployment = Deployment::read(&bytes).unwrap();
            assert_eq!(Deployment::read(&serde_json::to_vec(&deployment).unwrap()).unwrap(), deployment);
        }
    }
}

#[test]
fn every_bad_golden_document_is_refused_with_all_of_its_faults_at_once() {
    for (path, golden) in golden("bad") {
        let mut found: Vec<_> = faults_of(&golden).into_iter().map(|fault| fault.path).collect();
        found.sort();
        assert!(!golden.faults.is_empty(), "{} names no fault", path.display());
        assert_eq!(found, golden.faults, "{}", path.display());
    }
}

#[test]
fn a_document_of_the_next_format_is_refused_by_its_number() {
    let next = format!(r#"{{"format":{},"generation":1,"deployments":[]}}"#, FORMAT + 1);
    let faults = Index::read(next.as_bytes()).unwrap_err();
    assert_eq!(faults.0[0].path, "format");
}

#[test]
fn this_format_and_the_one_before_are_read_and_no_other() {
    let readable = |format: u64| {
        let text = format!(r#"{{"format":{format},"generation":1,"deployments":[]}}"#);
        Index::read(text.as_bytes()).is_ok()
    };
    let read: Vec<u64> = (0..FORMAT + 10).filter(|&format| readable(format)).collect();
    let wanted: Vec<u64> = [FORMAT - 1, FORMAT].into_iter().filter(|&format| format > 0).collect();
    assert_eq!(read, wanted);
}

#[test]
fn a_document_that_is_not_what_its_digest_says_is_not_given_out() {
    let index = r#"{"format":1,"generation":1,"deployments":[]}"#;
    let bundle = serde_json::json!({"index": index, "documents": ["{}"]}).to_string();
    let bundle = Bundle::from_memory(bundle.as_bytes()).unwrap();
    assert_eq!(bundle.document(&Digest::of(b"{}")), Some(&b"{}"[..]));
    assert_eq!(bundle.document(&Digest::of(b"{ }")), None);
}

#[test]
fn a_thousand_deployments_are_read_and_one_more_is_refused() {
    let text = |count: usize| {
        let digest = Digest::of(b"").to_string();
        let entries: Vec<_> =
            (0..count).map(|n| serde_json::json!({"name": format!("d{n}"), "digest": digest})).collect();
        serde_json::json!({"format": 1, "generation": 1, "deployments": entries}).to_string()
    };
    assert_eq!(Index::read(text(DEPLOYMENTS_MAX).as_bytes()).unwrap().deployments.len(), DEPLOYMENTS_MAX);
    assert_eq!(Index::read(text(DEPLOYMENTS_MAX + 1).as_bytes()).unwrap_err().0[0].path, "deployments");
}

#[test]
fn a_key_that_stands_twice_is_refused_wherever_it_stands() {
    for text in [
        r#"{"format":1,"format":1,"generation":1,"deployments":[]}"#,
        r#"{"format":1,"generation":1,"deployments":[{"name":"a","name":"b","digest":"x"}]}"#,
    ] {
        let faults = Index::read(text.as_bytes()).unwrap_err();
        assert!(faults.0[0].allowed.contains("stands twice"), "{faults}");
    }
}
