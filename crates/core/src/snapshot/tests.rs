//! The golden files are the contract: Python's tests run over the very same ones, through the boundary.

use super::*;
use std::path::PathBuf;

#[derive(Deserialize)]
struct Golden {
    kind: String,
    document: Value,
    #[serde(default)]
    faults: Vec<String>,
}

/// The files that are `good` or `bad`.
fn golden(folder: &str) -> Vec<(PathBuf, Golden)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/snapshot").join(folder);
    let files = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: PathBuf| {
        let golden = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        (path, golden)
    };
    let all: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|ext| ext == "json")).map(read).collect();
    assert!(all.len() >= 30, "too few golden files in {}", root.display());
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
fn every_good_golden_document_is_read() {
    for (path, golden) in golden("good") {
        assert_eq!(faults_of(&golden), [], "{}", path.display());
        let bytes = golden.document.to_string().into_bytes();
        match golden.kind.as_str() {
            "index" => assert!(Index::read(&bytes).is_ok(), "{}", path.display()),
            _ => assert!(Deployment::read(&bytes).is_ok(), "{}", path.display()),
        }
    }
}

fn deployment(more: Value) -> Value {
    let artifact = serde_json::json!({"path": "m.onnx", "digest": Digest::of(b"").to_string()});
    let mut document = serde_json::json!({
        "format": FORMAT, "name": "m", "route": {"version": "1"},
        "versions": [{"version": "1", "artifact": artifact}],
    });
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    document
}

fn read(document: &Value) -> Deployment {
    Deployment::read(document.to_string().as_bytes()).unwrap()
}

#[test]
fn what_a_document_leaves_out_has_its_default() {
    let read = read(&deployment(serde_json::json!({})));
    let limits = Limits {
        in_flight_max: 1024,
        batch_rows_max: 64,
        concurrency_max: 256,
        queue_wait_ms_max: 1000,
        run_ms_max: 10_000,
        share: 100,
    };
    assert_eq!((read.limits, read.slo, read.batch), (limits, Slo { deadline_ms: None }, None));
    assert!(read.labels.is_empty() && read.decision.is_none());
    assert!(read.signed.is_none() && read.candidate.is_none());
}

#[test]
fn every_term_reaches_its_field() {
    let limits = serde_json::json!({"in_flight_max": 1, "batch_rows_max": 8, "concurrency_max": 3,
        "queue_wait_ms_max": 4, "run_ms_max": 50, "share": 6});
    let more = serde_json::json!({"limits": limits, "slo": {"deadline_ms": 7}, "batch": {"size": 8, "window_ms": 9}});
    let read = read(&deployment(more));
    let limits = Limits {
        in_flight_max: 1,
        batch_rows_max: 8,
        concurrency_max: 3,
        queue_wait_ms_max: 4,
        run_ms_max: 50,
        share: 6,
    };
    assert_eq!(read.limits, limits);
    assert_eq!(read.slo, Slo { deadline_ms: Some(7) });
    assert_eq!(read.batch, Some(BatchWait { size: 8, window_ms: 9 }));
}

#[test]
fn an_unknown_key_is_refused_with_those_that_are_known() {
    let faults = Deployment::check(&deployment(serde_json::json!({"limits": {"rate": 1}})));
    let keys = "in_flight_max, batch_rows_max, concurrency_max, queue_wait_ms_max, run_ms_max, share";
    assert_eq!(
        (faults[0].path.as_str(), faults[0].allowed.clone()),
        ("limits.rate", format!("no such key; keys are {keys}"))
    );
}

#[test]
fn labels_reach_their_field_in_order() {
    let labels = serde_json::json!({"labels": {"y": ["cat", "dog", ""]}});
    assert_eq!(read(&deployment(labels)).labels["y"], ["cat", "dog", ""]);
}

#[test]
fn whatever_is_in_a_decision_reaches_its_field() {
    let decision = serde_json::json!({"decision": {"anything": [1, {"goes": 0.1}]}});
    assert_eq!(read(&deployment(decision.clone())).decision, Some(decision["decision"].clone()));
    assert_eq!(read(&deployment(serde_json::json!({"decision": null}))).decision, None);
}

#[test]
fn every_key_of_signatures_and_candidates_reaches_its_field() {
    let version = |number: &str| {
        let artifact = serde_json::json!({"path": "p/m.onnx", "digest": Digest::of(b"").to_string()});
        serde_json::json!({"version": number, "artifact": artifact})
    };
    let package = serde_json::json!({"name": "n", "version": 2, "folder": "p", "bundle": {"a": 1}});
    let signed = serde_json::json!({"name": "m", "version": 4, "packages": [package], "release": {"b": 2}});
    let candidate = serde_json::json!({"share": 0.25, "shadow": true, "decision": {"c": 3}, "signed": signed,
        "versions": [version("5")]});
    let more = serde_json::json!({"signed": signed, "candidate": candidate});
    let read = read(&deployment(more));
    let candidate = read.candidate.unwrap();
    assert_eq!((candidate.share, candidate.shadow), (0.25, true));
    assert_eq!(candidate.decision, Some(serde_json::json!({"c": 3})));
    assert_eq!(candidate.versions[0].version, "5");
    let signed = read.signed.unwrap();
    assert_eq!(candidate.signed.as_ref(), Some(&signed));
    assert_eq!(
        (signed.name.as_str(), signed.version, &signed.release),
        ("m", 4, &serde_json::json!({"b": 2}))
    );
    let Package { name, version, folder, bundle } = &signed.packages[0];
    assert_eq!((name.as_str(), *version, folder.as_str()), ("n", 2, "p"));
    assert_eq!(bundle, &serde_json::json!({"a": 1}));
}

#[test]
fn an_index_says_where_it_comes_from_and_what_for() {
    let hash = Digest::of(b"an event");
    let text =
        serde_json::json!({"format": FORMAT, "generation": 1, "deployments": [], "environment": "production",
        "registry": {"sequence": 41, "hash": hash.to_string()}})
        .to_string();
    let index = Index::read(text.as_bytes()).unwrap();
    assert_eq!(index.registry, Some(Checkpoint { sequence: 41, hash }));
    assert_eq!(index.environment.as_deref(), Some("production"));
}

#[test]
fn the_signature_of_an_index_comes_with_it_from_disk_and_from_memory() {
    let folder = tempfile::tempdir().unwrap();
    let (file, index) = (folder.path().join("index.json"), r#"{"format":1,"generation":1,"deployments":[]}"#);
    std::fs::write(&file, index).unwrap();
    assert_eq!(Bundle::from_file(&file).unwrap().signature, None);
    std::fs::write(folder.path().join(SIGNATURE_FILE), "signed").unwrap();
    let bundle = Bundle::from_file(&file).unwrap();
    assert_eq!(bundle.signature.as_deref(), Some(&b"signed"[..]));
    assert_eq!(
        (bundle.index_bytes.as_slice(), bundle.file.as_deref()),
        (index.as_bytes(), Some(file.as_path()))
    );
    let parts = serde_json::json!({"index": index, "documents": [], "signature": "signed"}).to_string();
    let bundle = Bundle::from_memory(parts.as_bytes()).unwrap();
    assert_eq!(bundle.signature.as_deref(), Some(&b"signed"[..]));
    assert_eq!((bundle.index_bytes.as_slice(), bundle.file), (index.as_bytes(), None));
}

#[test]
fn labels_beyond_their_bounds_are_told_one_by_one() {
    let (longest, longer) = ("ä".repeat(LABEL_CHARACTERS_MAX), "ä".repeat(LABEL_CHARACTERS_MAX + 1));
    let paths = |labels: Value| -> Vec<String> {
        let faults = Deployment::check(&deployment(serde_json::json!({"labels": labels})));
        faults.into_iter().map(|fault| fault.path).collect()
    };
    assert_eq!(paths(serde_json::json!({"y": [longest, longer, 1]})), ["labels.y[1]", "labels.y[2]"]);
    let many = |count: usize| serde_json::json!({"y": vec!["a"; count]});
    assert_eq!(paths(many(LABELS_MAX)), [""; 0]);
    assert_eq!(paths(many(LABELS_MAX + 1)), ["labels.y"]);
    let outputs = |count: usize| -> Value { (0..count).map(|n| (n.to_string(), vec!["a"])).collect() };
    assert_eq!(paths(outputs(LABELLED_OUTPUTS_MAX)), [""; 0]);
    assert_eq!(paths(outputs(LABELLED_OUTPUTS_MAX + 1)), ["labels"]);
}

#[test]
fn a_batch_that_no_run_may_have_is_refused_with_the_limit() {
    let batch = serde_json::json!({"size": 65, "window_ms": 1});
    let faults = Deployment::check(&deployment(serde_json::json!({"batch": batch})));
    assert_eq!(faults[0].allowed, "at most limits.batch_rows_max, which is 64");
    let limits = serde_json::json!({"batch_rows_max": 65});
    assert_eq!(Deployment::check(&deployment(serde_json::json!({"batch": batch, "limits": limits}))), []);
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
fn one_format_is_read_and_no_other() {
    let readable = |format: u64| {
        let text = format!(r#"{{"format":{format},"generation":1,"deployments":[]}}"#);
        Index::read(text.as_bytes()).is_ok()
    };
    assert_eq!((0..10).filter(|&format| readable(format)).collect::<Vec<u64>>(), [FORMAT]);
    let next = format!(r#"{{"format":{},"generation":1,"deployments":[]}}"#, FORMAT + 1);
    assert_eq!(Index::read(next.as_bytes()).unwrap_err().0[0].path, "format");
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
