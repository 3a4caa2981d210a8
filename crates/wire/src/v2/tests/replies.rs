//! Replies over HTTP: responses in JSON and binary, and errors.

use super::{HttpDialect, HttpReply, answer, http};
use crate::v2::{GrpcDialect, GrpcReply};
use bytes::{Bytes, BytesMut};
use flyball_core::{
    Answer, DataType, Dialect, Fault, FaultKind, OutputSlot, Shape, Stage, Tensor, TensorData,
};
use std::time::Duration;

fn tensor(name: &str, datatype: DataType, bytes: Vec<u8>) -> Tensor {
    let shape = Shape::from_slice(&[(bytes.len() / datatype.size().unwrap_or(1)) as i64]);
    Tensor { name: name.into(), datatype, shape, data: TensorData::Fixed(bytes.into()) }
}

fn fp32(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn text(reply: &HttpReply) -> &str {
    std::str::from_utf8(&reply.body).expect("UTF-8")
}

#[test]
fn an_answer_in_json_has_shortest_floats_and_escaped_texts() {
    let strings = Tensor {
        name: "label\n".into(),
        datatype: DataType::Bytes,
        shape: Shape::from_slice(&[1, 2]),
        data: TensorData::Strings(vec!["é\"".into(), Bytes::new()]),
    };
    let score = tensor("score", DataType::Fp32, fp32(&[0.1, -0.0, 1.0, 16_777_216.0]));
    let flags = tensor("flags", DataType::Bool, vec![1, 0]);
    let reply = answer(&http(None), Some("a\"b"), vec![(score, false), (strings, false), (flags, false)])
        .expect("answers");
    assert_eq!((reply.status, reply.content_type, reply.header_length), (200, "application/json", None));
    assert_eq!(
        text(&reply),
        concat!(
            r#"{"model_name":"fraud","model_version":"1","id":"a\"b","outputs":["#,
            r#"{"name":"score","datatype":"FP32","shape":[4],"data":[0.1,-0.0,1.0,16777216.0]},"#,
            r#"{"name":"label\n","datatype":"BYTES","shape":[1,2],"data":["é\"",""]},"#,
            r#"{"name":"flags","datatype":"BOOL","shape":[2],"data":[true,false]}]}"#
        )
    );
}

#[test]
fn raw_outputs_follow_the_json_part_in_order() {
    let first = tensor("a", DataType::Int16, vec![1, 2]);
    let second = tensor("b", DataType::Uint8, vec![7]);
    let third = tensor("c", DataType::Fp16, vec![0, 60]);
    let reply =
        answer(&http(None), None, vec![(first, true), (second, false), (third, true)]).expect("answers");
    assert_eq!(reply.content_type, "application/octet-stream");
    let (json, raw) = reply.body.split_at(reply.header_length.expect("a length"));
    assert_eq!(raw, [1, 2, 0, 60]);
    let json: serde_json::Value = serde_json::from_slice(json).expect("JSON");
    assert_eq!(json["outputs"][0]["parameters"]["binary_data_size"], 2);
    assert_eq!(json["outputs"][0].get("data"), None);
    assert_eq!(json["outputs"][1]["data"][0], 7);
    assert_eq!(json["outputs"][2]["parameters"]["binary_data_size"], 2);
}

#[test]
fn what_strict_json_cannot_carry_is_a_fault_with_advice_and_is_fine_as_raw_bytes() {
    let strict = HttpDialect { strict_json: true, ..http(None) };
    let cases = [
        (tensor("y", DataType::Fp32, fp32(&[0.0, f32::NAN])), "output 'y' holds NaN"),
        (tensor("y", DataType::Fp64, f64::INFINITY.to_le_bytes().to_vec()), "output 'y' holds inf"),
        (tensor("y", DataType::Fp32, fp32(&[f32::NEG_INFINITY])), "output 'y' holds -inf"),
        (tensor("y", DataType::Fp16, vec![0, 60]), "output 'y' is FP16, which JSON does not carry"),
        (
            Tensor {
                data: TensorData::Strings(vec![vec![255].into()]),
                ..tensor("y", DataType::Bytes, vec![])
            },
            "output 'y' has bytes that are not UTF-8",
        ),
    ];
    for (tensor, wanted) in cases {
        assert!(answer(&strict, None, vec![(tensor.clone(), true)]).is_ok());
        let fault = answer(&strict, None, vec![(tensor, false)]).expect_err(wanted);
        assert_eq!((fault.kind, fault.stage), (FaultKind::AnswerNotRepresentable, Stage::Respond));
        assert!(fault.text.contains(wanted), "{fault}");
        assert!(fault.text.contains("ask for it as binary data"), "{fault}");
    }
}

#[test]
fn the_size_of_an_answer_is_never_underestimated() {
    let longest = [
        tensor("y", DataType::Bool, vec![0; 1000]),
        tensor("y", DataType::Uint8, vec![255; 1000]),
        tensor("y", DataType::Int8, vec![128; 1000]),
        tensor("y", DataType::Uint16, vec![255; 1000]),
        tensor("y", DataType::Int16, [0, 128].repeat(500)),
        tensor("y", DataType::Uint32, vec![255; 1000]),
        tensor("y", DataType::Int32, [0, 0, 0, 128].repeat(500)),
        tensor("y", DataType::Uint64, vec![255; 1000]),
        tensor("y", DataType::Int64, i64::MIN.to_le_bytes().repeat(500)),
        tensor("y", DataType::Fp32, fp32(&[-1.175_494_4e-38, -3.402_823_5e38, -1.0e-45]).repeat(500)),
        tensor("y", DataType::Fp64, (-2.225_073_858_507_201_4e-308_f64).to_le_bytes().repeat(500)),
        Tensor {
            name: "\u{1}\"".into(),
            datatype: DataType::Bytes,
            shape: Shape::from_slice(&[i64::MIN; 16]),
            data: TensorData::Strings(vec!["\u{0}\u{1f}\\\"\n\u{7f}é\u{2028}".into(); 100]),
        },
    ];
    for tensor in longest {
        for raw in [false, true] {
            let places = [OutputSlot { output: 0, raw, region: None }];
            let outputs = std::slice::from_ref(&tensor);
            let answer = Answer { model: "m\n", version: "1", id: Some("\u{2}"), outputs, places: &places };
            let http = http(None);
            let body = http.answer(&answer, &mut BytesMut::new()).expect("answers").body;
            let size_max = http.size_max(&answer);
            assert!(body.len() <= size_max, "{:?}: {} > {size_max}", tensor.datatype, body.len());
            assert!(size_max <= 2 * body.len() + 1500, "{:?}: {} of {size_max}", tensor.datatype, body.len());
            let grpc = GrpcDialect::default();
            let GrpcReply::Frame(frame) = grpc.answer(&answer, &mut BytesMut::new()).expect("answers") else {
                panic!("a frame");
            };
            assert_eq!(frame.len(), grpc.size_max(&answer));
        }
    }
}

#[test]
fn an_answer_without_id_has_none() {
    let reply = answer(&http(None), None, vec![]).expect("answers");
    assert_eq!(text(&reply), r#"{"model_name":"fraud","model_version":"1","outputs":[]}"#);
}

#[test]
fn a_refusal_has_the_status_of_the_table() {
    for kind in FaultKind::ALL {
        let reply = http(None).refuse(&Fault::new(kind, Stage::Admit, "it is \"full\""));
        assert_eq!((reply.status, reply.retry_after_s), (kind.http(), None));
        assert_eq!(reply.body, Bytes::from_static(br#"{"error":"it is \"full\""}"#));
    }
}

#[test]
fn a_refusal_says_when_to_try_again_in_whole_seconds_and_never_at_once() {
    for (wait_ms, wanted) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (59_999, 60)] {
        let fault = Fault::new(FaultKind::InFlightFull, Stage::Admit, "full");
        let reply = http(None).refuse(&fault.retry_after(Duration::from_millis(wait_ms)));
        assert_eq!(reply.retry_after_s, Some(wanted), "{wait_ms} ms");
    }
}
