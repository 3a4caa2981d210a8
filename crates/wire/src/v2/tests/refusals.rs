//! Every error of a body over HTTP: its kind, and that its text names the fault and the fix.

use super::{LIMITS, http, input, parse, parse_binary, parse_json};
use bytes::Bytes;
use flyball_core::FaultKind::{BodyTooLarge, InvalidInput, MalformedRequest, NotOffered};
use flyball_core::{Dialect, Fault, FaultKind, InferRequest, RequestLimits, Stage};

fn refused(case: &str, parsed: Result<InferRequest, Fault>, kind: FaultKind, text: &str) {
    let fault = parsed.expect_err(case);
    assert_eq!((fault.kind, fault.stage), (kind, Stage::Parse), "{case}: {fault}");
    assert!(fault.text.contains(text), "{case}\n  says: {fault}\n  want: {text}");
}

#[test]
fn data_that_does_not_fit_its_datatype_or_shape_is_refused_by_name() {
    let cases = [
        (
            "FP32",
            "[3]",
            "[1,2]",
            MalformedRequest,
            "input 'x': shape [3] asks for 3 elements, but there are 2",
        ),
        ("FP32", "[1]", "[1,2]", MalformedRequest, "shape [1] asks for 1 elements, but there are more"),
        ("FP32", "[2,2]", "[[1,2,3],[4]]", MalformedRequest, "not nested as its shape [2, 2] says"),
        ("FP32", "[2,3]", "[[1,2],[3,4],[5,6]]", MalformedRequest, "not nested as its shape [2, 3] says"),
        ("FP32", "[2,2]", "[[1],[2],[3],[4]]", MalformedRequest, "nest it so, or give it flat"),
        ("FP32", "[1,2]", "[[[1],[2]],[]]", MalformedRequest, "not nested"),
        ("FP32", "[2,1]", "[1,[2]]", MalformedRequest, "not nested"),
        ("FP32", "[2,1]", "[[1],2]", MalformedRequest, "not nested"),
        ("FP32", "[1]", "1", MalformedRequest, "not nested"),
        ("FP32", "[1]", "[\"1\"]", InvalidInput, "input 'x': element 0 is \"1\"; FP32 takes numbers"),
        ("FP32", "[2]", "[0,null]", InvalidInput, "element 1 is null; FP32 takes numbers"),
        ("FP32", "[1]", "[{\"a\":[1,2]}]", InvalidInput, "element 0 is {\"a\":[1; FP32"),
        ("FP32", "[1]", "[true]", InvalidInput, "element 0 is true; FP32"),
        (
            "FP32",
            "[1]",
            "[1e39]",
            InvalidInput,
            "is 1e39; FP32 takes numbers from -3.4028235e38 to 3.4028235e38",
        ),
        ("FP64", "[1]", "[-1e999]", InvalidInput, "is -1e999; FP64 takes numbers from -1.79"),
        ("UINT8", "[1]", "[256]", InvalidInput, "element 0 is 256; UINT8 takes whole numbers from 0 to 255"),
        ("UINT8", "[1]", "[-1]", InvalidInput, "element 0 is -1; UINT8"),
        ("INT8", "[1]", "[-129]", InvalidInput, "from -128 to 127"),
        ("INT64", "[1]", "[9223372036854775808]", InvalidInput, "is 9223372036854775808; INT64"),
        ("UINT64", "[1]", "[18446744073709551616]", InvalidInput, "to 18446744073709551615"),
        ("INT32", "[1]", "[1.0]", InvalidInput, "element 0 is 1.0; INT32 takes whole numbers"),
        ("BOOL", "[1]", "[1]", InvalidInput, "element 0 is 1; BOOL takes true or false"),
        ("BYTES", "[1]", "[7]", InvalidInput, "element 0 is 7; BYTES takes strings"),
        ("BYTES", "[1]", "[\"\\ud800\"]", InvalidInput, "BYTES takes strings of valid Unicode"),
        (
            "FP16",
            "[1]",
            "[1]",
            InvalidInput,
            "input 'x': FP16 has no place here; JSON carries no 16-bit floats",
        ),
        ("BF16", "[1]", "[1]", InvalidInput, "send it as binary tensor data (binary_data_size) or over gRPC"),
        ("fp32", "[1]", "[1]", MalformedRequest, "datatype 'fp32' is unknown; allowed: BOOL, UINT8"),
        ("FP32", "[-1]", "[1]", MalformedRequest, "shape [-1] cannot be; each axis must be 0 or more"),
        (
            "FP32",
            "[4611686018427387904,8]",
            "[]",
            MalformedRequest,
            "causes total element count to exceed maximum size of",
        ),
        ("FP32", "[1152921504606846978,4]", "[]", MalformedRequest, "byte size overflow for input 'x'"),
        ("FP32", "[100000000]", "[]", BodyTooLarge, "tensors take more than 8388608 bytes; send fewer rows"),
        ("FP32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[1]", MalformedRequest, "17 axes; at most 16"),
        ("FP32", "\"1\"", "[1]", MalformedRequest, "expected 'shape' to be a list of whole numbers"),
        ("INT32", "[1]", "[NaN]", InvalidInput, "element 0 is NaN; INT32 takes whole numbers"),
        ("BYTES", "[1]", "[-Infinity]", InvalidInput, "element 0 is -Infinity; BYTES takes strings"),
        ("FP32", "[2]", "[NaN,\"NaN\"]", InvalidInput, "element 1 is \"NaN\"; FP32 takes numbers"),
        ("FP32", "[2]", "[NaN,0.0x]", MalformedRequest, "the JSON part does not parse: expected"),
        ("FP32", "[NaN]", "[1]", MalformedRequest, "invalid type: floating point"),
        ("FP32", "[1]", "[nan]", MalformedRequest, "the JSON part does not parse"),
    ];
    for (datatype, shape, data, kind, text) in cases {
        let body = input(datatype, shape, data);
        refused(&body, parse_json(&body), kind, text);
    }
}

#[test]
fn a_request_that_is_no_v2_request_is_refused() {
    let x = r#"{"name":"x","datatype":"FP32","shape":[1],"data":[1]}"#;
    let cases = [
        (String::new(), MalformedRequest, "the JSON part does not parse: EOF"),
        ("[]".into(), MalformedRequest, "expected a V2 inference request"),
        ("{}".into(), MalformedRequest, "missing field `inputs`"),
        (r#"{"inputs":7}"#.into(), MalformedRequest, "expected 'inputs' to be a list of objects"),
        (r#"{"inputs":[]} x"#.into(), MalformedRequest, "trailing characters"),
        (r#"{"inputs":[],"inputs":[]}"#.into(), MalformedRequest, "duplicate field `inputs`"),
        (r#"{"inputs":[],"id":7}"#.into(), MalformedRequest, "expected a string"),
        (r#"{"inputs":[{"datatype":"FP32","shape":[1]}]}"#.into(), MalformedRequest, "missing field `name`"),
        (r#"{"inputs":[{"name":"x","shape":[1]}]}"#.into(), MalformedRequest, "missing field `datatype`"),
        (r#"{"inputs":[{"name":"x","datatype":"FP32"}]}"#.into(), MalformedRequest, "missing field `shape`"),
        (
            r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1]}]}"#.into(),
            MalformedRequest,
            "input 'x': has neither data nor parameters.binary_data_size",
        ),
        (format!(r#"{{"inputs":[{x},{x}]}}"#), MalformedRequest, "input 'x' is given twice"),
        (
            format!(r#"{{"inputs":[{x}],"outputs":[{{"name":"y"}},{{"name":"y"}}]}}"#),
            MalformedRequest,
            "output 'y' already exists in request; ask for it once",
        ),
        (
            format!(r#"{{"inputs":[{x}],"outputs":[{{"name":"y","parameters":{{"classification":"3"}}}}]}}"#),
            MalformedRequest,
            "output 'y': classification must be a whole number",
        ),
        (
            r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"parameters":{"shared_memory_region":"r"}}]}"#
                .into(),
            NotOffered,
            "input 'x': Client shared memory is disabled; start the server with --allow-shared-memory",
        ),
        (
            r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}]}"#.into(),
            MalformedRequest,
            "binary_data_size is given, but the header Inference-Header-Content-Length is missing",
        ),
        (format!(r#"{{"inputs":[],"id":"{}"}}"#, "i".repeat(1025)), MalformedRequest, "has 1025 bytes; at most 1024"),
        (format!(r#"{{"inputs":[{}]}}"#, vec![x; 1025].join(",")), MalformedRequest, "more inputs than the 1024"),
        (format!(r#"{{"inputs":[],"deep":{}"#, "[".repeat(100_000)), MalformedRequest, "does not parse: EOF"),
        (input("FP32", "[1]", &"[".repeat(100_000)), MalformedRequest, "does not parse"),
    ];
    for (body, kind, text) in cases {
        refused(&body[..body.len().min(200)], parse_json(&body), kind, text);
    }
    let not_utf8 = parse(&http(None), &Bytes::from_static(b"{\"inputs\":[],\"id\":\"\xff\"}"));
    refused("bytes", not_utf8, MalformedRequest, "the JSON part is not UTF-8");
}

#[test]
fn raw_tensors_that_do_not_add_up_are_refused() {
    let raw = |datatype: &str, shape: &str, size: usize| {
        format!(
            r#"{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":{shape},"parameters":{{"binary_data_size":{size}}}}}]}}"#
        )
    };
    let cases: [(String, &[u8], FaultKind, &str); 10] = [
        (raw("FP32", "[2]", 4), &[0; 4], MalformedRequest, "Expected 8, got 4 bytes for shape [2] of FP32"),
        (raw("FP32", "[1]", 4), &[0; 3], MalformedRequest, "binary_data_size is 4, but only 3 bytes are left"),
        (raw("FP32", "[1]", 4), &[0; 5], MalformedRequest, "has 5 bytes after its JSON part, but"),
        (raw("BOOL", "[2]", 2), &[1, 2], InvalidInput, "element 1 is byte 2; a BOOL byte is 0 or 1"),
        (raw("BYTES", "[1]", 3), &[0; 3], MalformedRequest, "element 0 is cut short"),
        (raw("BYTES", "[1]", 5), &[2, 0, 0, 0, 65], MalformedRequest, "element 0 is cut short"),
        (raw("BYTES", "[1]", 6), &[1, 0, 0, 0, 65, 66], MalformedRequest, "unexpected number of string elements 2 for inference input 'x'"),
        (raw("BYTES", "[9000000]", 0), &[], BodyTooLarge, "send fewer rows"),
        (raw("FP32", "[-4]", 16), &[0; 16], MalformedRequest, "shape [-4] cannot be"),
        (
            r#"{"inputs":[{"name":"x","datatype":"INT8","shape":[1],"data":[1],"parameters":{"binary_data_size":1}}]}"#
                .into(),
            &[1],
            MalformedRequest,
            "has more than one of data, parameters.binary_data_size and",
        ),
    ];
    for (json, bytes, kind, text) in cases {
        refused(&json, parse_binary(&json, bytes), kind, text);
    }
}

#[test]
fn a_length_header_that_cannot_be_is_refused() {
    let body = Bytes::from_static(b"{\"inputs\":[]}");
    let longer = parse(&http(Some(14)), &body);
    refused(
        "longer",
        longer,
        MalformedRequest,
        "Inference-Header-Content-Length is 14, but the body has only 13 bytes",
    );
}

#[test]
fn the_limit_on_bytes_holds_for_all_tensors_of_a_request_together() {
    let limits = RequestLimits { tensor_bytes_max: 8, ..LIMITS };
    let one = |name: &str| format!(r#"{{"name":"{name}","datatype":"FP32","shape":[1],"data":[1]}}"#);
    let body = |names: &[&str]| {
        let inputs: Vec<_> = names.iter().map(|name| one(name)).collect();
        Bytes::from(format!(r#"{{"inputs":[{}]}}"#, inputs.join(",")))
    };
    assert!(http(None).parse(&body(&["a", "b"]), &limits, Vec::new()).is_ok());
    let third = http(None).parse(&body(&["a", "b", "c"]), &limits, Vec::new());
    refused("three", third, BodyTooLarge, "input 'c': the request's tensors take more than 8 bytes");
}

#[test]
fn lists_of_one_more_or_less_than_in_the_shape_do_not_matter() {
    for (shape, data) in [
        ("[1,1]", format!("{}7{}", "[".repeat(100), "]".repeat(100))),
        ("[]", "[[7]]".to_owned()),
        ("[2]", "[[7,8]]".to_owned()),
        ("[2]", "[[7],[8]]".to_owned()),
        ("[1,2]", "[[[7]],[[8]]]".to_owned()),
        ("[2,2]", "[[[[7,8],[9,10]]]]".to_owned()),
        ("[2,0,3]", "[[[]],[[]]]".to_owned()),
    ] {
        let nested = parse_json(&input("INT16", shape, &data)).expect("it is nested like its shape");
        let flat = parse_json(&input("INT16", shape, &format!("[{}]", data.replace(['[', ']'], " "))))
            .or_else(|_| {
                parse_json(&input("INT16", shape, "[]")) // without elements, only the commas of lists are left
            });
        assert_eq!(nested.inputs, flat.expect("flat data is accepted").inputs, "{shape} {data}");
    }
}

#[test]
fn nesting_costs_no_stack_wherever_it_stands() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let data = parse_json(&input("FP32", "[1]", &deep));
    refused("data", data, MalformedRequest, "JSON nesting depth exceeds maximum allowed limit (100)");
    let shape = parse_json(&input("FP32", &deep, "[1]"));
    refused("shape", shape, MalformedRequest, "does not parse");
    let timeout = parse_json(&format!(r#"{{"inputs":[],"parameters":{{"timeout":{deep}}}}}"#));
    refused("timeout", timeout, MalformedRequest, "parameter 'timeout' must be a whole number");
    let unknown = format!(r#"{{"inputs":[],"later":{deep},"parameters":{{"later":{deep}}}}}"#);
    assert!(parse_json(&unknown).is_ok(), "what is not known is stepped over");
}
