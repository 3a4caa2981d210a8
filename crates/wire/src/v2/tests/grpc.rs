//! V2 over gRPC: raw and typed contents, errors, and responses.

use super::{GrpcDialect, LIMITS, answer, fixed};
use crate::proto::inference::infer_parameter::ParameterChoice;
use crate::proto::inference::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use crate::proto::inference::model_infer_response::InferOutputTensor;
use crate::proto::inference::{InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse};
use crate::{GrpcReply, frame};
use bytes::{Bytes, BytesMut};
use flyball_core::FaultKind::{BodyTooLarge, InvalidInput, MalformedRequest, NotOffered};
use flyball_core::{
    Answer, DataType, Dialect, Fault, FaultKind, GrpcCode, InferRequest, OutputSlot, RequestLimits, Shape,
    Stage, Tensor, TensorData,
};
use prost::Message;

fn parse(message: &ModelInferRequest) -> Result<InferRequest, Fault> {
    super::parse(&GrpcDialect::default(), &message.encode_to_vec().into())
}

fn input(datatype: &str, shape: &[i64], contents: Option<InferTensorContents>) -> InferInputTensor {
    InferInputTensor {
        name: "x".into(),
        datatype: datatype.into(),
        shape: shape.to_vec(),
        contents,
        ..Default::default()
    }
}

fn request(inputs: Vec<InferInputTensor>, raw: Vec<&'static [u8]>) -> ModelInferRequest {
    ModelInferRequest {
        model_name: "fraud".into(),
        inputs,
        raw_input_contents: raw.into_iter().map(Bytes::from_static).collect(),
        ..Default::default()
    }
}

#[test]
fn names_and_raw_contents_are_slices_of_the_message() {
    let message = ModelInferRequest {
        model_version: "2".into(),
        id: "7".into(),
        outputs: vec![InferRequestedOutputTensor { name: "y".into(), ..Default::default() }],
        ..request(vec![input("FP32", &[1, 2], None)], vec![&[0, 0, 128, 63, 0, 0, 0, 64]])
    };
    let body = Bytes::from(message.encode_to_vec());
    let parsed = super::parse(&GrpcDialect::default(), &body).expect("parses");
    assert_eq!((&*parsed.model.name, parsed.model.version.as_deref()), ("fraud", Some("2")));
    assert_eq!((parsed.id.as_deref(), parsed.binary_outputs), (Some("7"), true));
    assert_eq!(parsed.outputs[0].name, "y");
    assert_eq!(super::floats(&parsed.inputs[0]), [1.0, 2.0]);
    let (input, output) = (&parsed.inputs[0], &parsed.outputs[0]);
    for address in
        [fixed(input).as_ptr(), input.name.as_ptr(), output.name.as_ptr(), parsed.model.name.as_ptr()]
    {
        assert!(body.as_ptr_range().contains(&address));
    }
}

#[test]
fn empty_version_and_id_are_none() {
    let parsed = parse(&request(vec![], vec![])).expect("parses");
    assert_eq!((parsed.model.version, parsed.id), (None, None));
}

#[test]
fn each_datatype_is_read_from_its_own_list() {
    let contents = InferTensorContents::default;
    let cases = [
        ("BOOL", InferTensorContents { bool_contents: vec![true], ..contents() }, vec![1]),
        ("INT8", InferTensorContents { int_contents: vec![-1], ..contents() }, vec![255]),
        ("INT16", InferTensorContents { int_contents: vec![-2], ..contents() }, vec![254, 255]),
        ("INT32", InferTensorContents { int_contents: vec![1], ..contents() }, vec![1, 0, 0, 0]),
        (
            "INT64",
            InferTensorContents { int64_contents: vec![1], ..contents() },
            vec![1, 0, 0, 0, 0, 0, 0, 0],
        ),
        ("UINT8", InferTensorContents { uint_contents: vec![255], ..contents() }, vec![255]),
        ("UINT16", InferTensorContents { uint_contents: vec![256], ..contents() }, vec![0, 1]),
        ("UINT32", InferTensorContents { uint_contents: vec![1], ..contents() }, vec![1, 0, 0, 0]),
        (
            "UINT64",
            InferTensorContents { uint64_contents: vec![1], ..contents() },
            vec![1, 0, 0, 0, 0, 0, 0, 0],
        ),
        ("FP32", InferTensorContents { fp32_contents: vec![1.0], ..contents() }, vec![0, 0, 128, 63]),
        (
            "FP64",
            InferTensorContents { fp64_contents: vec![1.0], ..contents() },
            vec![0, 0, 0, 0, 0, 0, 240, 63],
        ),
    ];
    for (datatype, contents, wanted) in cases {
        let parsed = parse(&request(vec![input(datatype, &[1], Some(contents))], vec![])).expect(datatype);
        assert_eq!(fixed(&parsed.inputs[0]), wanted, "{datatype}");
    }
    let texts = InferTensorContents { bytes_contents: vec!["é".into()], ..contents() };
    let parsed = parse(&request(vec![input("BYTES", &[1], Some(texts))], vec![])).expect("BYTES");
    assert_eq!(parsed.inputs[0].data, TensorData::Strings(vec!["é".into()]));
}

#[test]
fn a_message_that_cannot_be_meant_is_refused_with_its_reason() {
    let contents = InferTensorContents::default;
    let int = |value| Some(InferTensorContents { int_contents: vec![value], ..contents() });
    let region = InferParameter { parameter_choice: Some(ParameterChoice::StringParam("r".into())) };
    let shared = InferInputTensor {
        parameters: [("shared_memory_region".to_owned(), region)].into(),
        ..input("FP32", &[1], None)
    };
    let cases = [
        (
            request(vec![input("INT8", &[1], int(300))], vec![]),
            InvalidInput,
            "element 0 is 300; INT8 takes whole",
        ),
        (
            request(vec![input("FP32", &[1], int(1))], vec![]),
            MalformedRequest,
            "int_contents is filled, but FP32",
        ),
        (
            request(vec![input("INT32", &[2], int(1))], vec![]),
            MalformedRequest,
            "asks for 2 elements, but there are 1",
        ),
        (
            request(vec![input("INT32", &[2], None)], vec![]),
            MalformedRequest,
            "asks for 2 elements, but there are 0",
        ),
        (request(vec![input("FP16", &[1], None)], vec![]), InvalidInput, "send it in raw_input_contents"),
        (request(vec![input("INT32", &[1], int(1))], vec![&[0; 4]]), MalformedRequest, "use one of them"),
        (
            request(vec![input("FP32", &[1], None)], vec![&[0; 4], &[]]),
            MalformedRequest,
            "2 entries for 1 inputs",
        ),
        (
            request(vec![input("FP32", &[1], None)], vec![&[0; 5]]),
            MalformedRequest,
            "input byte size mismatch for input 'x' for model 'fraud'. Expected 4, got 5 bytes",
        ),
        (request(vec![input("BOOL", &[1], None)], vec![&[3]]), InvalidInput, "a BOOL byte is 0 or 1"),
        (request(vec![shared], vec![]), NotOffered, "input 'x': Client shared memory is disabled"),
        (
            request(vec![input("FP32", &[0], None), input("FP32", &[0], None)], vec![]),
            MalformedRequest,
            "given twice",
        ),
        (request(vec![input("FP32", &[1; 17], None)], vec![]), MalformedRequest, "17 axes; at most 16"),
        (request(vec![input("FP32", &[1; 200], None)], vec![]), MalformedRequest, "more than the 16 axes"),
        (request(vec![input("FP32", &[-1], None)], vec![]), MalformedRequest, "shape [-1] cannot be"),
    ];
    for (message, kind, text) in cases {
        let fault = parse(&message).expect_err(text);
        assert_eq!((fault.kind, fault.stage), (kind, Stage::Parse), "{fault}");
        assert!(fault.text.contains(text), "says: {fault}; want: {text}");
    }
}

#[test]
fn a_small_message_cannot_ask_for_much_memory() {
    // Two bytes each: an empty input, an empty output, an empty raw tensor.
    for (tag, what) in
        [(0x2a, "inputs"), (0x32, "outputs"), (0x3a, "raw_input_contents"), (0x22, "parameters")]
    {
        let fault = super::parse(&GrpcDialect::default(), &[tag, 0].repeat(2000).into()).expect_err(what);
        assert!(fault.text.contains(&format!("more {what} than the 1024")), "{fault}");
    }
    let texts = InferTensorContents { bytes_contents: vec![Bytes::new(); 1000], ..Default::default() };
    let message = request(vec![input("BYTES", &[1000], Some(texts))], vec![]);
    let limits = RequestLimits { tensor_bytes_max: 1000, ..LIMITS };
    let fault = GrpcDialect::default()
        .parse(&message.encode_to_vec().into(), &limits, Vec::new())
        .expect_err("too many texts");
    assert_eq!(fault.kind, BodyTooLarge);
}

#[test]
fn an_answer_is_raw_and_framed_and_byte_for_byte_what_prost_would_write() {
    let tensor = |name: &str, datatype, shape: &[i64], data| {
        (Tensor { name: name.into(), datatype, shape: shape.into(), data }, false)
    };
    let outputs = vec![
        tensor("y", DataType::Fp32, &[1], TensorData::Fixed(f32::NAN.to_le_bytes().to_vec().into())),
        tensor("z", DataType::Bytes, &[300, 1], TensorData::Strings(vec!["ab".into(); 300])),
        tensor("", DataType::Int8, &[], TensorData::Fixed(vec![7].into())),
        tensor("nothing", DataType::Int8, &[0], TensorData::Fixed(Bytes::new())),
    ];
    for id in [None, Some("9")] {
        let written = outputs.iter().map(|(tensor, _)| InferOutputTensor {
            name: tensor.name.to_string(),
            datatype: tensor.datatype.name().into(),
            shape: tensor.shape.to_vec(),
            ..Default::default()
        });
        let wanted = ModelInferResponse {
            model_name: "fraud".into(),
            model_version: "1".into(),
            id: id.unwrap_or_default().into(),
            outputs: written.collect(),
            raw_output_contents: vec![
                f32::NAN.to_le_bytes().to_vec().into(),
                [2, 0, 0, 0, b'a', b'b'].repeat(300).into(),
                vec![7].into(),
                Bytes::new(),
            ],
            ..Default::default()
        };
        let Ok(GrpcReply::Frame(frame)) = answer(&GrpcDialect::default(), id, outputs.clone()) else {
            panic!("no frame")
        };
        assert_eq!(frame::decode(&frame).expect("a frame"), wanted.encode_to_vec());
    }
}

#[test]
fn an_answer_has_only_the_outputs_that_were_asked_for() {
    let outputs = ["a", "b"].map(|name| Tensor {
        name: name.into(),
        datatype: DataType::Int8,
        shape: Shape::from_slice(&[1]),
        data: TensorData::Fixed(Bytes::copy_from_slice(name.as_bytes())),
    });
    let place = OutputSlot { output: 1, raw: true, region: None };
    let answer = Answer { model: "m", version: "1", id: None, outputs: &outputs, places: &[place] };
    let Ok(GrpcReply::Frame(frame)) = GrpcDialect::default().answer(&answer, &mut BytesMut::new()) else {
        panic!("no frame")
    };
    let message = ModelInferResponse::decode(frame::decode(&frame).expect("a frame")).expect("decodes");
    assert_eq!((message.outputs.len(), message.outputs[0].name.as_str()), (1, "b"));
    assert_eq!(message.raw_output_contents, ["b"]);
}

#[test]
fn a_refusal_has_the_code_of_the_table() {
    let fault = Fault::new(FaultKind::LaneFull, Stage::Queue, "full");
    let wanted =
        GrpcReply::Status { code: GrpcCode::ResourceExhausted, text: "full".into(), retry_after_ms: None };
    assert_eq!(GrpcDialect::default().refuse(&fault), wanted);
}
