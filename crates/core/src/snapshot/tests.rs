//! The golden files are the contract: Python's reader runs over the same files.

use super::*;
use std::path::PathBuf;

#[derive(Deserialize)]
struct Golden {
    kind: String,
    document: Value,
    #[serde(default)]
    faults: Vec<String>,
}

/// The files of every format, `good` or `bad`.
fn golden(folder: &str) -> Vec<(PathBuf, Golden)> {
    (FORMAT_OLDEST..=FORMAT).flat_map(|format| golden_of(format, folder)).collect()
}

fn golden_of(format: u64, folder: &str) -> Vec<(PathBuf, Golden)> {
    let root =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/golden/snapshot/v{format}"));
    let root = root.join(folder);
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

fn deployment(format: u64, more: Value) -> Value {
    let artifact = serde_json::json!({"path": "m.onnx", "digest": Digest::of(b"").to_string()});
    let mut document = serde_json::json!({
        "format": format, "name": "m", "route": {"version": "1"},
        "versions": [{"version": "1", "artifact": artifact}],
    });
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    document
}

fn read(document: &Value) -> Deployment {
    Deployment::read(document.to_string().as_bytes()).unwrap()
}

#[test]
fn what_a_document_leaves_out_is_the_same_in_every_format() {
    let read = [1, 2, 3, 4, 5].map(|format| read(&deployment(format, serde_json::json!({}))));
    let limits = Limits {
        in_flight_max: 1024,
        batch_rows_max: 64,
        concurrency_max: 256,
        queue_wait_ms_max: 1000,
        run_ms_max: 10_000,
        share: 100,
    };
    for read in &read {
        assert_eq!((read.limits, read.slo, read.batch), (limits, Slo { deadline_ms: None }, None));
        assert!(read.labels.is_empty() && read.decision.is_none());
        assert!(read.signed.is_none() && read.candidate.is_none());
    }
}

#[test]
fn every_key_of_format_2_reaches_its_field() {
    let limits = serde_json::json!({"in_flight_max": 1, "batch_rows_max": 8, "concurrency_max": 3,
        "queue_wait_ms_max": 4, "run_ms_max": 50, "share": 6});
    let more = serde_json::json!({"limits": limits, "slo": {"deadline_ms": 7}, "batch": {"size": 8, "window_ms": 9}});
    let read = read(&deployment(2, more));
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
fn a_key_of_format_2_in_a_document_of_format_1_is_told_with_the_format() {
    let faults = Deployment::check(&deployment(1, serde_json::json!({"slo": {}, "limits": {"share": 1}})));
    let told: Vec<_> = faults.iter().map(|fault| (fault.path.as_str(), fault.allowed.as_str())).collect();
    assert_eq!(
        told,
        [
            ("slo", "no such key in format 1; keys are format, name, route, versions, limits"),
            ("limits.share", "no such key in format 1; keys are in_flight_max, batch_rows_max"),
        ]
    );
}

#[test]
fn labels_are_keys_of_format_3_and_reach_their_field_in_order() {
    let labels = serde_json::json!({"labels": {"y": ["cat", "dog", ""]}});
    let faults = Deployment::check(&deployment(2, labels.clone()));
    let told: Vec<_> = faults.iter().map(|fault| (fault.path.as_str(), fault.allowed.as_str())).collect();
    assert_eq!(
        told,
        [("labels", "no such key in format 2; keys are format, name, route, versions, limits, slo, batch")]
    );
    assert_eq!(read(&deployment(3, labels)).labels["y"], ["cat", "dog", ""]);
}

#[test]
fn a_decision_is_a_key_of_format_4_and_whatever_is_in_it_reaches_its_field() {
    let decision = serde_json::json!({"decision": {"anything": [1, {"goes": 0.1}]}});
    let faults = Deployment::check(&deployment(3, decision.clone()));
    let told: Vec<_> = faults.iter().map(|fault| (fault.path.as_str(), fault.allowed.as_str())).collect();
    assert_eq!(
        told,
        [(
            "decision",
            "no such key in format 3; keys are format, name, route, versions, limits, slo, batch, labels"
        )]
    );
    assert_eq!(read(&deployment(4, decision.clone())).decision, Some(decision["decision"].clone()));
    assert_eq!(read(&deployment(4, serde_json::json!({"decision": null}))).decision, None);
}

#[test]
fn every_key_of_format_5_reaches_its_field_and_is_none_of_format_4() {
    let version = |number: &str| {
        let artifact = serde_json::json!({"path": "p/m.onnx", "digest": Digest::of(b"").to_string()});
        serde_json::json!({"version": number, "artifact": artifact})
    };
    let package = serde_json::json!({"name": "n", "version": 2, "folder": "p", "bundle": {"a": 1}});
    let signed = serde_json::json!({"name": "m", "version": 4, "packages": [package], "release": {"b": 2}});
    let candidate = serde_json::json!({"share": 0.25, "shadow": true, "decision": {"c": 3}, "signed": signed,
        "versions": [version("5")]});
    let more = serde_json::json!({"signed": signed, "candidate": candidate});
    let faults = Deployment::check(&deployment(4, more.clone()));
    assert_eq!(faults.iter().map(|fault| fault.path.as_str()).collect::<Vec<_>>(), ["candidate", "signed"]);
    let read = read(&deployment(5, more));
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
fn an_index_of_format_5_says_where_it_comes_from_and_what_for() {
    let hash = Digest::of(b"an event");
    let text = |format: u64| {
        serde_json::json!({"format": format, "generation": 1, "deployments": [], "environment": "production",
            "registry": {"sequence": 41, "hash": hash.to_string()}})
        .to_string()
    };
    let index = Index::read(text(5).as_bytes()).unwrap();
    assert_eq!(index.registry, Some(Checkpoint { sequence: 41, hash }));
    assert_eq!(index.environment.as_deref(), Some("production"));
    let faults = Index::read(text(4).as_bytes()).unwrap_err();
    assert_eq!(faults.0[0].allowed, "no such key in format 4; keys are format, generation, deployments");
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
        let faults = Deployment::check(&deployment(3, serde_json::json!({"labels": labels})));
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
    let faults = Deployment::check(&deployment(2, serde_json::json!({"batch": batch})));
    assert_eq!(faults[0].allowed, "at most limits.batch_rows_max, which is 64");
    let limits = serde_json::json!({"batch_rows_max": 65});
    assert_eq!(Deployment::check(&deployment(2, serde_json::json!({"batch": batch, "limits": limits}))), []);
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
fn this_format_and_those_before_are_read_and_no_other() {
    let readable = |format: u64| {
        let text = format!(r#"{{"format":{format},"generation":1,"deployments":[]}}"#);
        Index::read(text.as_bytes()).is_ok()
    };
    let read: Vec<u64> = (0..FORMAT + 10).filter(|&format| readable(format)).collect();
    assert_eq!(read, [1, 2, 3, 4, 5]);
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
