//! Each finding of a scan, by a model with just that fault; and random bytes never crash it.

mod onnx;
mod values;

use super::*;
use onnx::ValueInfoProto;
use onnx::*;
use proptest::prelude::*;

fn scanned(model: &ModelProto) -> Result<ScanFacts, Refusal> {
    ScanFacts::of(&model.encode_to_vec(), &ScanLimits::default())
}

#[track_caller]
fn refused(bytes: &[u8], limits: &ScanLimits) -> ScanRefusal {
    match ScanFacts::of(bytes, limits) {
        Err(Refusal::Scan(refusal)) => refusal,
        other => panic!("not refused by the scan: {other:?}"),
    }
}

/// The rejection's text.
#[track_caller]
fn words(model: &ModelProto) -> String {
    refused(&model.encode_to_vec(), &ScanLimits::default()).to_string()
}

fn nested(depth: usize) -> ModelProto {
    let innermost = graph(vec![node("Add", "")]);
    let wrap = |inner, _| {
        let attribute = AttributeProto { name: "body".into(), g: Some(inner), ..AttributeProto::default() };
        graph(vec![NodeProto { attribute: vec![attribute], ..node("Loop", "") }])
    };
    model((0..depth).fold(innermost, wrap))
}

/// `count` functions, each calling the next one twice.
fn doubling(count: usize) -> ModelProto {
    let name = |number: usize| format!("f{number}");
    let functions = (0..count).map(|number| {
        let calls = match number + 1 {
            last if last == count => vec![node("Add", "")],
            next => vec![node(&name(next), "mine"), node(&name(next), "mine")],
        };
        FunctionProto { name: name(number), domain: "mine".into(), node: calls }
    });
    ModelProto { functions: functions.collect(), ..model(graph(vec![node("f0", "mine")])) }
}

#[test]
fn a_model_says_what_it_is() {
    let dims = vec![4, 2];
    let inside = TensorProto { dims, data_type: 1, raw_data: vec![0; 32], ..TensorProto::default() };
    let value = |name: &str| ValueInfoProto { name: name.into(), r#type: None };
    let graph = GraphProto {
        initializer: vec![TensorProto { name: "w".into(), ..inside }],
        input: vec![value("x"), value("w")],
        output: vec![value("y")],
        ..graph(vec![node("MatMul", ""), node("Scaler", "ai.onnx.ml"), node("Add", "ai.onnx")])
    };
    let opset_import = vec![OperatorSetIdProto { domain: String::new(), version: 17 }];
    let facts = scanned(&ModelProto { producer_name: "tests".into(), opset_import, ..model(graph) }).unwrap();
    assert_eq!(facts.opset, [Opset { domain: "ai.onnx".to_owned(), version: 17 }]);
    assert_eq!((facts.producer.as_str(), facts.nodes, facts.nodes_expanded, facts.depth), ("tests", 3, 3, 0));
    assert_eq!((facts.initialisers, facts.functions, facts.value_dependent), (1, 0, false));
    assert!((32..64).contains(&facts.weight_bytes), "{}", facts.weight_bytes);
    assert_eq!(facts.domains, BTreeSet::from(["ai.onnx".to_owned(), "ai.onnx.ml".to_owned()]));
    let names = |tensors: &[DeclaredTensor]| tensors.iter().map(|t| t.name.clone()).collect::<Vec<_>>();
    assert_eq!((names(&facts.inputs), names(&facts.outputs)), (vec!["x".to_owned()], vec!["y".to_owned()]));
}

#[test]
fn files_of_other_formats_are_refused_with_what_to_do() {
    let zip = |name: &str| [b"PK\x03\x04\x14\0\0\0", name.as_bytes()].concat();
    let tar = [&[b'm'; 257][..], b"ustar\0"].concat();
    let safetensors = [&7u64.to_le_bytes()[..], b"{\"w\":1}"].concat();
    let files: [(&[u8], &str, &str); 25] = [
        (b"\x80\x04\x95\x10\0\0\0", "a pickle", "skl2onnx"),
        (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", "a PyTorch file", "torch.onnx.export"),
        (b"ccopy_reg\n_reconstructor\n", "a pickle", "skl2onnx"),
        (b"x\x9c\xed\xbd\x07", "zlib", "joblib"),
        (&zip("archive/data.pkl"), "a PyTorch file", "torch.onnx.export"),
        (&zip("model.weights.h5"), "a Keras model", "tf2onnx"),
        (&zip("arr_0.npy"), "arrays of NumPy", "export the model"),
        (&zip("model.onnx"), "a zip archive", "unpack"),
        (b"\x1f\x8b\x08\0", "gzip", "unpack"),
        (b"\x28\xb5\x2f\xfd\0", "zstd", "unpack"),
        (&tar, "a tar archive", "unpack"),
        (b"\x89HDF\r\n\x1a\n\0", "HDF5", "tf2onnx"),
        (b"\x93NUMPY\x01\0", "an array of NumPy", "export the model"),
        (b"GGUF\x03\0\0\0", "GGUF", "torch.onnx.export"),
        (&safetensors, "safetensors", "torch.onnx.export"),
        (b"\x1c\0\0\0TFL3", "TensorFlow Lite", "tf2onnx"),
        (b"\x18\0\0\0ORTM", "ONNX Runtime's own format", "made from"),
        (b"CBM1\0", "CatBoost", "onnx"),
        (b"tree\nversion=v4\n", "LightGBM", "convert_lightgbm"),
        (b"{\"learner\":{}}", "XGBoost", "convert_xgboost"),
        (b"\x7fELF\x02", "a program or a library", ".onnx"),
        (b"version https://git-lfs.example/spec/v1\n", "Git LFS", "git lfs pull"),
        (b"<!DOCTYPE html>", "a web page", "download"),
        (b"ftrt\0", "TensorRT", "made from"),
        (b"not a model", "a text file", ".onnx"),
    ];
    for (bytes, found, advice) in files {
        let refusal = refused(bytes, &ScanLimits::default());
        assert!(matches!(refusal.finding, Finding::Foreign { .. }), "{found}: {refusal}");
        let words = refusal.to_string();
        assert!(words.contains(found) && words.contains(advice), "{found}: {words}");
    }
}

#[test]
fn a_producer_may_be_called_as_another_format_begins() {
    for name in ["ORTM", "TFL3", "GGUF"] {
        let facts = scanned(&ModelProto { producer_name: name.into(), ..model(graph(vec![])) }).unwrap();
        assert_eq!(facts.producer, name);
    }
}

#[test]
fn bytes_that_are_no_model_are_refused() {
    let group = [0x0b, 0x0c];
    let whole = model(graph(vec![node("Add", ""); 9])).encode_to_vec();
    let cut = &whole[..whole.len() - 3];
    for bytes in [&b""[..], b"\xff\xff\xff", b"\x08\x08", &group, cut] {
        let refusal = refused(bytes, &ScanLimits::default());
        assert!(matches!(refusal.finding, Finding::Malformed(_)), "{bytes:?}: {refusal}");
    }
    assert!(refused(cut, &ScanLimits::default()).to_string().contains("truncated"));
}

#[test]
fn a_part_that_stands_there_twice_is_refused_because_readers_merge_it() {
    let one = model(graph(vec![node("Add", "")])).encode_to_vec();
    let twice = [one.clone(), one].concat();
    assert!(refused(&twice, &ScanLimits::default()).to_string().contains("the graph is given twice"));
    // The first half of an attribute names a tensor, the second half its location.
    let half =
        |tensor: TensorProto| AttributeProto { t: Some(tensor), ..AttributeProto::default() }.encode_to_vec();
    let attribute = [half(external(&[("location", "w.bin")])), half(external(&[("offset", "7")]))].concat();
    let node = [vec![0x2a, attribute.len() as u8], attribute].concat();
    let graph = [vec![0x0a, node.len() as u8], node].concat();
    let model = [vec![0x3a, graph.len() as u8], graph].concat();
    assert!(refused(&model, &ScanLimits::default()).to_string().contains("the tensor is given twice"));
}

#[test]
fn every_limit_refuses_what_is_over_it_and_says_so() {
    let usual = ScanLimits::default();
    let weights = |bytes: usize| {
        let tensor = TensorProto { raw_data: vec![0; bytes], data_type: 2, ..TensorProto::default() };
        with_weights(TensorProto { dims: vec![bytes as i64], ..tensor })
    };
    let text = AttributeProto { name: "s".into(), s: vec![0; 100], ..AttributeProto::default() };
    let files = (0..3).map(|number| external(&[("location", &format!("w{number}"))])).collect();
    let files = model(GraphProto { initializer: files, ..graph(vec![]) });
    let function = FunctionProto { name: "f".into(), ..FunctionProto::default() };
    let cases = [
        (weights(10), ScanLimits { file_bytes_max: 20, ..usual }, "bytes of the model's file"),
        (model(graph(vec![node("Add", ""); 3])), ScanLimits { nodes_max: 2, ..usual }, "nodes"),
        (nested(3), ScanLimits { depth_max: 2, ..usual }, "graphs inside one another"),
        (files.clone(), ScanLimits { initialisers_max: 2, ..usual }, "initialisers"),
        (weights(100), ScanLimits { weight_bytes_max: 90, ..usual }, "bytes of weights"),
        (with_attribute(text), ScanLimits { attribute_bytes_max: 90, ..usual }, "bytes of an attribute"),
        (
            ModelProto { functions: vec![function], ..model(graph(vec![])) },
            ScanLimits { functions_max: 0, ..usual },
            "functions",
        ),
        (files, ScanLimits { external_files_max: 2, ..usual }, "files of external data"),
    ];
    for (model, limits, over) in cases {
        assert!(scanned(&model).is_ok(), "{over}: {:?}", scanned(&model));
        let refusal = refused(&model.encode_to_vec(), &limits);
        let Finding::OverLimit { what, is, most, .. } = &refusal.finding else { panic!("{over}: {refusal}") };
        assert!(*what == over && is > most, "{over}: {refusal}");
        assert!(
            refusal.to_string().contains(&format!("{is}, but at most {most} are allowed; ")),
            "{refusal}"
        );
    }
}

#[test]
fn the_usual_limits_hold() {
    assert!(scanned(&nested(32)).is_ok());
    assert!(words(&nested(33)).contains("graphs inside one another: 33, but at most 32 are allowed"));
    // 200,001 nodes of two bytes each.
    assert!(
        words(&model(graph(vec![NodeProto::default(); 200_001])))
            .contains("nodes: 200001, but at most 200000")
    );
    let vast = TensorProto { dims: vec![1 << 40, 1 << 40], data_type: 1, ..TensorProto::default() };
    assert!(words(&with_weights(vast)).contains("bytes of weights"));
    let negative = TensorProto { dims: vec![-1], data_type: 1, ..TensorProto::default() };
    assert!(words(&with_weights(negative)).contains("negative axis"));
    let entries = vec![entry("key", "value"); 1001];
    let model = ModelProto { metadata_props: entries, ..model(graph(vec![])) };
    assert!(words(&model).contains("entries of metadata: 1001, but at most 1000"));
}

#[test]
fn types_inside_one_another_are_bounded() {
    let wrap = |inner, _| TypeProto {
        sequence_type: Some(Box::new(SequenceProto { elem_type: Some(Box::new(inner)) })),
        ..TypeProto::default()
    };
    let value = |depth| {
        let of = (0..depth).fold(TypeProto::default(), wrap);
        model(GraphProto {
            output: vec![ValueInfoProto { name: "y".into(), r#type: Some(of) }],
            ..graph(vec![])
        })
    };
    assert!(scanned(&value(10)).is_ok());
    assert!(words(&value(16)).contains("types inside one another: 17, but at most 16"));
    let tp = Some((0..20).fold(TypeProto::default(), wrap));
    assert!(
        words(&with_attribute(AttributeProto { tp, ..AttributeProto::default() })).contains("types inside")
    );
}

#[test]
fn functions_are_counted_as_written_out() {
    let facts = scanned(&doubling(10)).unwrap();
    assert_eq!((facts.functions, facts.nodes_expanded), (10, 512));
    assert!(words(&doubling(30)).contains("nodes, with all functions written out"));
    assert!(words(&doubling(100)).contains("functions that call one another in a row"));
}

#[test]
fn a_function_that_calls_itself_is_refused() {
    let function = |name: &str, calls: &str| FunctionProto {
        name: name.into(),
        domain: "mine".into(),
        node: vec![node(calls, "mine")],
    };
    let functions = vec![function("a", "b"), function("b", "a")];
    let model = ModelProto { functions, ..model(graph(vec![node("a", "mine")])) };
    assert!(words(&model).contains("function 0 calls itself"));
}

#[test]
fn graphs_of_functions_count_towards_the_depth_where_they_are_called() {
    let body = nested(20).graph.unwrap();
    let function = FunctionProto { name: "f".into(), domain: "mine".into(), node: body.node };
    let mut outer = nested(20);
    let mut inner = outer.graph.as_mut().unwrap();
    while !inner.node[0].attribute.is_empty() {
        inner = inner.node[0].attribute[0].g.as_mut().unwrap();
    }
    inner.node = vec![node("f", "mine")];
    outer.functions = vec![function];
    assert!(words(&outer).contains("graphs inside one another: 40, but at most 32"));
}

#[test]
fn operators_of_other_domains_are_refused_wherever_they_stand() {
    for domain in ["acme.ops", "ai.onnx.contrib", "com.ms.internal.nhwc", "ai.onnx.training"] {
        let inner = AttributeProto { name: "body".into(), ..AttributeProto::default() };
        let inner = AttributeProto { graphs: vec![graph(vec![node("Odd", domain)])], ..inner };
        let refusal = words(&with_attribute(inner));
        assert!(
            refusal.starts_with("in node 0 'the_Loop' (Loop), attribute 'body', node 0 'the_Odd' (Odd): "),
            "{refusal}"
        );
        assert!(refusal.contains(&format!("'{domain}'")) && refusal.contains("ai.onnx.ml"), "{refusal}");
    }
    let function = FunctionProto { name: "f".into(), domain: "mine".into(), node: vec![node("Odd", "acme")] };
    let model = |graph| ModelProto { functions: vec![function.clone()], ..model(graph) };
    assert!(words(&model(graph(vec![]))).starts_with("in function 0, node 0"));
    assert!(words(&model(graph(vec![node("g", "mine")]))).contains("'mine'"));
}

#[test]
fn operators_that_run_what_a_library_brings_are_refused() {
    for op in ["EPContext", "Snpe"] {
        assert!(words(&model(graph(vec![node(op, "com.microsoft")]))).contains(op));
    }
    assert!(scanned(&model(graph(vec![node("FusedMatMul", "com.microsoft")]))).is_ok());
}

#[test]
fn metadata_that_asks_for_libraries_or_settings_is_refused() {
    let with = |key: &str, value: &str| ModelProto {
        metadata_props: vec![entry(key, value)],
        ..model(graph(vec![]))
    };
    for (key, value) in [
        ("ort_config", "{}"),
        ("custom_ops_library", "x"),
        ("Session_Options", "x"),
        ("plugin", "libevil.so"),
        ("plugin", "C:\\evil.DLL"),
    ] {
        assert!(words(&with(key, value)).contains(key), "{key}");
    }
    assert!(scanned(&with("author", "somebody")).is_ok());
}

#[test]
fn training_information_is_refused() {
    let model = ModelProto { training_info: Some(Vec::new()), ..model(graph(vec![])) };
    assert!(words(&model).contains("training information"));
}

/// One external tensor in each possible position.
fn everywhere(tensor: &TensorProto) -> [ModelProto; 6] {
    let sparse = |values, indices| SparseTensorProto { values, indices };
    let (values, indices) = (Some(tensor.clone()), Some(tensor.clone()));
    let attribute = AttributeProto { name: "value".into(), ..AttributeProto::default() };
    let inner = GraphProto { initializer: vec![tensor.clone()], ..graph(vec![]) };
    [
        with_weights(tensor.clone()),
        model(GraphProto { sparse_initializer: vec![sparse(values.clone(), None)], ..graph(vec![]) }),
        with_attribute(AttributeProto { t: values, ..attribute.clone() }),
        with_attribute(AttributeProto { tensors: vec![tensor.clone()], ..attribute.clone() }),
        with_attribute(AttributeProto { sparse_tensor: Some(sparse(None, indices)), ..attribute.clone() }),
        with_attribute(AttributeProto { g: Some(inner), ..attribute }),
    ]
}

#[test]
fn external_data_anywhere_but_beside_the_model_is_refused_wherever_it_is_named() {
    let long = "w".repeat(256);
    let names = [
        "../w",
        "/etc/passwd",
        "a/b",
        "*/_ORT_MEM_ADDR_/*",
        "_ORT_MEM_ADDR_",
        "..",
        ".",
        "",
        "a\\b",
        "a\0",
        &long,
    ];
    for location in names {
        for model in everywhere(&external(&[("location", location)])) {
            let refusal = refused(&model.encode_to_vec(), &ScanLimits::default());
            assert!(matches!(refusal.finding, Finding::ExternalDataOutside(_)), "{location}: {refusal}");
        }
    }
    // Without the flag, and without any location.
    let unflagged = TensorProto { data_location: 0, ..external(&[("location", "../w")]) };
    assert!(words(&with_weights(unflagged)).contains("plain file name"));
    assert!(words(&with_weights(external(&[]))).contains("plain file name"));
}

#[test]
fn external_data_is_found_wherever_it_is_named_with_the_bytes_that_it_needs() {
    for model in everywhere(&external(&[("location", "w.bin"), ("offset", "100"), ("checksum", "00")])) {
        assert_eq!(scanned(&model).unwrap().external_data, BTreeMap::from([("w.bin".to_owned(), 132)]));
    }
    let said = with_weights(external(&[("location", "w.bin"), ("length", "40")]));
    assert_eq!(scanned(&said).unwrap().external_data["w.bin"], 40);
    let vast =
        with_weights(external(&[("location", "w.bin"), ("offset", "18446744073709551615"), ("length", "9")]));
    assert_eq!(scanned(&vast).unwrap().external_data["w.bin"], u64::MAX);
}

#[test]
fn external_data_that_says_anything_else_is_refused() {
    for (key, value, words_of) in [
        ("basepath", "/", "'basepath'"),
        ("prepacked_0", "x|0;8;0", "'prepacked_0'"),
        ("offset", "-1", "offset '-1'"),
        ("length", "0x10", "length '0x10'"),
        ("offset", "18446744073709551616", "not a whole number"),
        ("location", "again", "is given twice"),
    ] {
        let refusal = words(&with_weights(external(&[("location", "w.bin"), (key, value)])));
        assert!(refusal.contains(words_of) && refusal.contains("tensor 'w'"), "{key}: {refusal}");
    }
    let odd = TensorProto { data_location: 2, ..external(&[]) };
    assert!(words(&with_weights(odd)).contains("data_location 2"));
}

#[test]
fn a_name_is_shown_at_bounded_length() {
    let long = "x".repeat(100_000);
    let refusal = words(&model(graph(vec![node(&long, &long)])));
    assert!(refusal.len() < 1000, "{}", refusal.len());
}

/// A sample of everything that the scan visits.
fn whole() -> Vec<u8> {
    let mut model = doubling(3);
    let [_, sparse, attribute, ..] = everywhere(&external(&[("location", "w.bin"), ("offset", "4")]));
    let graph = model.graph.as_mut().unwrap();
    graph.sparse_initializer = sparse.graph.unwrap().sparse_initializer;
    graph.node.extend(attribute.graph.unwrap().node);
    graph.node.extend(nested(2).graph.unwrap().node);
    graph.input = vec![ValueInfoProto { name: "x".into(), r#type: Some(TypeProto::default()) }];
    model.metadata_props = vec![entry("author", "somebody")];
    model.opset_import = vec![OperatorSetIdProto { domain: "ai.onnx.ml".into(), version: 3 }];
    model.encode_to_vec()
}

/// The limits hold for everything that is accepted.
fn check(bytes: &[u8]) {
    let limits = ScanLimits { nodes_max: 50, depth_max: 5, ..ScanLimits::default() };
    match ScanFacts::of(bytes, &limits) {
        Ok(facts) => {
            assert!(facts.nodes <= 50 && facts.nodes_expanded <= 50 && facts.depth <= 5);
            assert!(facts.external_data.keys().all(|name| !name.contains('/') && !name.is_empty()));
            assert!(facts.domains.len() <= 4);
        }
        Err(refusal) => assert!(refusal.to_string().len() < 4096, "{refusal}"),
    }
}

proptest! {
    #[test]
    fn no_bytes_bring_the_scan_down(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
    }

    #[test]
    fn no_damage_to_a_model_brings_the_scan_down(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = whole();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        check(&bytes);
        check(&bytes[..cut.index(bytes.len())]);
    }
}
