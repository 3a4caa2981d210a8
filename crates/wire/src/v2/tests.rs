//! What the three forms of V2 accept, reject and write; only through the public dialects.

mod dialects_agree;
mod grpc;
mod parameters;
mod prost_agrees;
mod refusals;
mod replies;
mod round_trips;
mod shared_memory;
mod stream;

use super::{GrpcDialect, HttpDialect, HttpReply};
use bytes::{Bytes, BytesMut};
use flyball_core::{
    Answer, Dialect, Fault, InferRequest, ModelRef, OutputSlot, RequestLimits, Tensor, TensorData,
};

const LIMITS: RequestLimits = RequestLimits::for_body(1 << 20);

fn http(header_length: Option<usize>) -> HttpDialect {
    let model = ModelRef { name: "fraud".into(), version: None };
    HttpDialect { model, header_length, regions: None, strict_json: false, triton_statuses: false }
}

fn parse(dialect: &impl Dialect, body: &Bytes) -> Result<InferRequest, Fault> {
    dialect.parse(body, &LIMITS, Vec::new())
}

fn parse_json(body: &str) -> Result<InferRequest, Fault> {
    parse(&http(None), &Bytes::copy_from_slice(body.as_bytes()))
}

/// Encodes a response with these outputs, each raw or not.
fn answer<D: Dialect>(
    dialect: &D,
    id: Option<&str>,
    outputs: Vec<(Tensor, bool)>,
) -> Result<D::Reply, Fault> {
    let places: Vec<_> =
        (0..).zip(&outputs).map(|(output, &(_, raw))| OutputSlot { output, raw, region: None }).collect();
    let outputs: Vec<_> = outputs.into_iter().map(|(tensor, _)| tensor).collect();
    let answer = Answer { model: "fraud", version: "1", id, outputs: &outputs, places: &places };
    let mut out = BytesMut::new();
    let reply = dialect.answer(&answer, &mut out);
    assert!(out.is_empty(), "what was written was taken");
    reply
}

/// A JSON part followed by raw tensors.
fn parse_binary(json: &str, raw: &[u8]) -> Result<InferRequest, Fault> {
    let body = [json.as_bytes(), raw].concat();
    parse(&http(Some(json.len())), &body.into())
}

fn input(datatype: &str, shape: &str, data: &str) -> String {
    format!(r#"{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":{shape},"data":{data}}}]}}"#)
}

fn fixed(tensor: &Tensor) -> &[u8] {
    match &tensor.data {
        TensorData::Fixed(bytes) => bytes,
        TensorData::Strings(_) => panic!("{} holds strings", tensor.name),
    }
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    fixed(tensor).as_chunks().0.iter().map(|&le| f32::from_le_bytes(le)).collect()
}

#[test]
fn keys_may_come_in_any_order_and_unknown_ones_are_ignored() {
    let body = r#"{"outputs":[{"parameters":{"binary_data":true,"more":1},"name":"y"},{"name":"z"}],"later":[[{}]],
        "inputs":[{"data":[[1,2.5],[-3e0,4]],"extra":null,"shape":[2,2],"parameters":{"note":"n"},"name":"x",
        "datatype":"FP32"}],"parameters":{"binary_data_output":true,"priority":1},"id":"a\u00e9"}"#;
    let request = parse_json(body).expect("parses");
    assert_eq!(request.id.as_deref(), Some("aé"));
    assert_eq!(request.model.name, "fraud");
    assert!(request.binary_outputs);
    let asked: Vec<_> = request.outputs.iter().map(|output| (&*output.name, output.binary)).collect();
    assert_eq!(asked, [("y", Some(true)), ("z", None)]);
    assert_eq!(request.inputs[0].shape.as_slice(), [2, 2]);
    assert_eq!(floats(&request.inputs[0]), [1.0, 2.5, -3.0, 4.0]);
}

#[test]
fn json_and_binary_inputs_may_be_mixed_and_neither_names_nor_raw_tensors_are_copied() {
    let json = r#"{"inputs":[{"name":"a","datatype":"INT16","shape":[2],"parameters":{"binary_data_size":4}},
        {"name":"b","datatype":"BOOL","shape":[1,2],"data":[[true,false]]},
        {"name":"c","datatype":"BYTES","shape":[2],"parameters":{"binary_data_size":10}}]}"#;
    let raw = [1, 0, 255, 255, 2, 0, 0, 0, b'h', b'i', 0, 0, 0, 0];
    let body = Bytes::from([json.as_bytes(), &raw].concat());
    let request = parse(&http(Some(json.len())), &body).expect("parses");
    assert_eq!(fixed(&request.inputs[0]), [1, 0, 255, 255]);
    assert_eq!(fixed(&request.inputs[0]).as_ptr(), body[json.len()..].as_ptr());
    assert!(body.as_ptr_range().contains(&request.inputs[2].name.as_ptr()));
    assert_eq!(fixed(&request.inputs[1]), [1, 0]);
    assert_eq!(request.inputs[2].data, TensorData::Strings(vec!["hi".into(), Bytes::new()]));
}

#[test]
fn a_body_without_a_json_part_is_the_only_input_and_its_outputs_are_raw() {
    let body = Bytes::from_static(&[1, 2, 255]);
    let request = parse(&http(Some(0)), &body).expect("parses");
    assert_eq!((request.whole.as_ref(), request.inputs.len(), request.outputs.len()), (Some(&body), 0, 0));
    assert!(request.binary_outputs);
}

#[test]
fn an_output_may_be_asked_for_as_classes() {
    let body = r#"{"inputs":[],"outputs":[{"name":"y","parameters":{"classification":3}},{"name":"z",
        "parameters":{"classification":18446744073709551615,"binary_data":true}},{"name":"w","parameters":null}]}"#;
    let request = parse_json(body).expect("parses");
    let asked: Vec<_> = request.outputs.iter().map(|output| (output.classes, output.binary)).collect();
    assert_eq!(asked, [(3, None), (u32::MAX, Some(true)), (0, None)]);
}

#[test]
fn a_scalar_and_an_empty_tensor_are_tensors() {
    for data in ["5", "[5]"] {
        let request = parse_json(&input("INT8", "[]", data)).expect("parses");
        assert_eq!(fixed(&request.inputs[0]), [5]);
    }
    for (shape, data) in [("[0,3]", "[]"), ("[2,0]", "[[],[]]"), ("[2,0]", "[]")] {
        let request = parse_json(&input("FP64", shape, data)).expect("parses");
        assert!(fixed(&request.inputs[0]).is_empty());
    }
}

#[test]
fn floats_are_the_nearest_ones_and_fp32_is_rounded_from_the_double() {
    let texts = [
        "0.1",
        "1e-46",
        "16777217",
        "-0",
        "3.4028235e38",
        "0.30000000000000004",
        "1.00000017881393432617187500",
    ];
    let request = parse_json(&input("FP32", "[7]", &format!("[{}]", texts.join(",")))).expect("parses");
    let wanted: Vec<f32> = texts.iter().map(|text| text.parse::<f64>().expect("a number") as f32).collect();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&floats(&request.inputs[0])), bits(&wanted));
}
