//! Tensors in system shared memory over HTTP and gRPC: read, written and rejected.

use super::{GrpcDialect, HttpDialect, fixed, http, parse};
use crate::proto::inference::infer_parameter::ParameterChoice;
use crate::proto::inference::model_infer_request::{InferInputTensor, InferRequestedOutputTensor};
use crate::proto::inference::{InferParameter, InferTensorContents, ModelInferRequest, ModelInferResponse};
use crate::regions::Regions;
use crate::testing::SharedMemory;
use crate::{GrpcReply, frame};
use bytes::{Bytes, BytesMut};
use flyball_core::FaultKind::{BodyTooLarge, InvalidInput, MalformedRequest};
use flyball_core::{
    Answer, DataType, Dialect, Fault, InferRequest, OutputSlot, RequestLimits, Tensor, TensorData,
};
use prost::Message;
use std::sync::Arc;

/// A region 'r' of eight bytes, 1 to 8, in shared memory that has two more.
struct World {
    memory: SharedMemory,
    regions: Arc<Regions>,
}

impl World {
    fn new() -> World {
        let memory = SharedMemory::holding(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let regions = Arc::new(Regions::default());
        regions.register("r", memory.key(), 1, 8).expect("registers");
        World { memory, regions }
    }

    fn http(&self) -> HttpDialect {
        HttpDialect { regions: Some(Arc::clone(&self.regions)), ..http(None) }
    }

    fn grpc(&self) -> GrpcDialect {
        GrpcDialect { regions: Some(Arc::clone(&self.regions)) }
    }

    fn parse_json(&self, body: &str) -> Result<InferRequest, Fault> {
        parse(&self.http(), &Bytes::copy_from_slice(body.as_bytes()))
    }

    fn parse_message(&self, message: &ModelInferRequest) -> Result<InferRequest, Fault> {
        parse(&self.grpc(), &message.encode_to_vec().into())
    }

    fn place(&self, output: usize, offset: u64, bytes: u64) -> OutputSlot {
        let span = self.regions.find("r").and_then(|region| region.span(offset, bytes)).expect("fits");
        OutputSlot { output, raw: false, region: Some(span) }
    }
}

fn in_region(parameters: &str) -> String {
    format!(
        r#"{{"inputs":[{{"name":"x","datatype":"UINT8","shape":[3],"parameters":{{"shared_memory_region":{parameters}}}}}]}}"#
    )
}

fn parameters(region: &str, offset: i64, bytes: i64) -> [(String, InferParameter); 3] {
    let parameter = |key: &str, choice| (key.to_owned(), InferParameter { parameter_choice: Some(choice) });
    [
        parameter("shared_memory_region", ParameterChoice::StringParam(region.into())),
        parameter("shared_memory_offset", ParameterChoice::Int64Param(offset)),
        parameter("shared_memory_byte_size", ParameterChoice::Int64Param(bytes)),
    ]
}

fn input(name: &str) -> InferInputTensor {
    InferInputTensor { name: name.into(), datatype: "UINT8".into(), shape: vec![3], ..Default::default() }
}

fn bytes_of(request: &InferRequest) -> Vec<&[u8]> {
    request.inputs.iter().map(fixed).collect()
}

#[test]
fn an_input_is_read_from_its_part_of_the_region_over_http() {
    let world = World::new();
    let body = in_region(r#""r","shared_memory_offset":2,"shared_memory_byte_size":3"#);
    assert_eq!(bytes_of(&world.parse_json(&body).expect("parses")), [[3, 4, 5]]);
    let body = in_region(r#""r","shared_memory_byte_size":3"#);
    assert_eq!(bytes_of(&world.parse_json(&body).expect("parses")), [[1, 2, 3]]);
}

#[test]
fn an_input_in_shared_memory_has_no_raw_entry_over_grpc() {
    let world = World::new();
    let shared = InferInputTensor { parameters: parameters("r", 2, 3).into(), ..input("b") };
    let mut message = ModelInferRequest {
        inputs: vec![input("a"), shared, input("c")],
        raw_input_contents: vec![vec![10, 11, 12].into(), vec![20, 21, 22].into()],
        ..Default::default()
    };
    let request = world.parse_message(&message).expect("parses");
    assert_eq!(bytes_of(&request), [[10, 11, 12], [3, 4, 5], [20, 21, 22]]);
    for entries in [1, 3] {
        message.raw_input_contents.resize(entries, vec![0; 3].into());
        let fault = world.parse_message(&message).expect_err("entries do not match");
        assert_eq!(fault.kind, MalformedRequest);
        assert!(fault.text.contains(&format!("{entries} entries for 3 inputs")), "{fault}");
    }
}

#[test]
fn what_cannot_be_read_from_shared_memory_is_refused_with_its_reason() {
    let world = World::new();
    for (parameters, kind, text) in [
        (
            r#""nobody","shared_memory_byte_size":3"#,
            InvalidInput,
            "Unable to find system shared memory region: 'nobody'",
        ),
        (
            r#""r","shared_memory_byte_size":9"#,
            InvalidInput,
            "Invalid offset + byte size for shared memory region: 'r'; it has 8",
        ),
        (
            r#""r","shared_memory_offset":18446744073709551615,"shared_memory_byte_size":3"#,
            InvalidInput,
            "Invalid offset for shared memory region: 'r'; it has 8 bytes, and 3 from byte 18446744073709551615 on",
        ),
        (
            r#""r","shared_memory_byte_size":4"#,
            MalformedRequest,
            "for model 'fraud'. Expected 3, got 4 bytes",
        ),
        (r#""r""#, MalformedRequest, "shared_memory_byte_size must be a whole number"),
        (
            r#""r","shared_memory_byte_size":-3"#,
            MalformedRequest,
            "shared_memory_byte_size must be a whole number",
        ),
        (
            r#""r","shared_memory_offset":"0","shared_memory_byte_size":3"#,
            MalformedRequest,
            "shared_memory_offset must",
        ),
        (r#"7,"shared_memory_byte_size":3"#, MalformedRequest, "shared_memory_region must be a text"),
        (r#""r","shared_memory_byte_size":3,"binary_data_size":3"#, MalformedRequest, "give one of them"),
    ] {
        let fault = world.parse_json(&in_region(parameters)).expect_err(text);
        assert_eq!(fault.kind, kind, "{fault}");
        assert!(fault.text.contains("input 'x'") && fault.text.contains(text), "says: {fault}; want: {text}");
    }
    let contents = Some(InferTensorContents { uint_contents: vec![1, 2, 3], ..Default::default() });
    let both = InferInputTensor { parameters: parameters("r", 0, 3).into(), contents, ..input("x") };
    let message = ModelInferRequest { inputs: vec![both], ..Default::default() };
    let fault = world.parse_message(&message).expect_err("has both");
    assert_eq!(fault.text, "input 'x': has both contents and shared_memory_region; give one of them");
}

#[test]
fn a_region_counts_against_the_limit_on_a_request_s_tensors() {
    let world = World::new();
    let limits = RequestLimits { tensor_bytes_max: 7, ..super::LIMITS };
    for (datatype, shape) in [("UINT8", "8"), ("BYTES", "1")] {
        let body = format!(
            r#"{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":[{shape}],
                "parameters":{{"shared_memory_region":"r","shared_memory_byte_size":8}}}}]}}"#
        );
        let fault = world.http().parse(&body.into(), &limits, Vec::new()).expect_err("too large");
        assert_eq!(fault.kind, BodyTooLarge, "{fault}");
    }
}

#[test]
fn inputs_of_a_request_may_not_lie_in_more_shared_memory_than_a_body_may_have() {
    let world = World::new();
    let shared = |name: &str| InferInputTensor { parameters: parameters("r", 0, 3).into(), ..input(name) };
    let message = ModelInferRequest { inputs: vec![shared("a"), shared("b")], ..Default::default() };
    let body = message.encode_to_vec().into();
    let parsed = |bytes_max| world.grpc().parse(&body, &RequestLimits::for_body(bytes_max), Vec::new());
    assert!(parsed(6).is_ok());
    let fault = parsed(5).expect_err("together they take six bytes");
    assert_eq!(fault.kind, BodyTooLarge, "{fault}");
    assert!(fault.text.starts_with("input 'b': ") && fault.text.contains("more than 5 bytes"), "{fault}");
}

#[test]
fn an_output_may_not_go_into_a_region_and_back_in_the_answer_as_well() {
    let world = World::new();
    for (parameter, text) in
        [("\"classification\":2", "and classification"), ("\"binary_data\":true", "and binary_data")]
    {
        let body = format!(
            r#"{{"inputs":[],"outputs":[{{"name":"y","parameters":
                {{"shared_memory_region":"r","shared_memory_byte_size":8,{parameter}}}}}]}}"#
        );
        let fault = world.parse_json(&body).expect_err(text);
        assert!(fault.kind == MalformedRequest && fault.text.contains(text), "{fault}");
    }
    let classification = InferParameter { parameter_choice: Some(ParameterChoice::Int64Param(2)) };
    let given = parameters("r", 0, 8).into_iter().chain([("classification".to_owned(), classification)]);
    let output = InferRequestedOutputTensor { name: "y".into(), parameters: given.collect() };
    let message = ModelInferRequest { outputs: vec![output], ..Default::default() };
    assert!(world.parse_message(&message).is_err_and(|fault| fault.text.contains("and classification")));
}

#[test]
fn a_region_is_held_by_the_request_that_names_it() {
    let world = World::new();
    let output = InferRequestedOutputTensor { name: "y".into(), parameters: parameters("r", 4, 2).into() };
    let message = ModelInferRequest { outputs: vec![output], ..Default::default() };
    let request = world.parse_message(&message).expect("parses");
    world.regions.unregister(None);
    request.outputs[0].region.as_ref().expect("a region").write(&[50, 60]).expect("is still there");
    assert_eq!(world.memory.bytes(), [0, 1, 2, 3, 4, 50, 60, 7, 8, 9]);
}

fn outputs() -> [Tensor; 2] {
    let tensor = |name: &str, datatype, shape: &[i64], data| Tensor {
        name: name.into(),
        datatype,
        shape: shape.into(),
        data,
    };
    [
        tensor("y", DataType::Uint8, &[1, 2], TensorData::Fixed(vec![70, 80].into())),
        tensor("z", DataType::Bytes, &[1], TensorData::Strings(vec!["a".into()])),
    ]
}

fn answer<D: Dialect>(dialect: &D, places: &[OutputSlot]) -> Result<D::Reply, Fault> {
    let outputs = outputs();
    let answer = Answer { model: "m", version: "1", id: None, outputs: &outputs, places };
    dialect.answer(&answer, &mut BytesMut::new())
}

#[test]
fn an_output_is_written_into_its_region_and_comes_back_without_data() {
    let world = World::new();
    let beside = OutputSlot { output: 0, raw: false, region: None };
    let reply = answer(&world.http(), &[world.place(1, 3, 5), beside.clone()]).expect("answers");
    assert_eq!(world.memory.bytes(), [0, 1, 2, 3, 1, 0, 0, 0, b'a', 9]);
    assert_eq!(
        reply.body,
        concat!(
            r#"{"model_name":"m","model_version":"1","outputs":[{"name":"z","datatype":"BYTES","shape":[1]},"#,
            r#"{"name":"y","datatype":"UINT8","shape":[1,2],"data":[70,80]}]}"#
        )
    );
    let Ok(GrpcReply::Frame(reply)) = answer(&world.grpc(), &[world.place(0, 0, 8), beside]) else {
        panic!("no frame")
    };
    assert_eq!(world.memory.bytes()[..3], [0, 70, 80]);
    let reply = ModelInferResponse::decode(frame::decode(&reply).expect("a frame")).expect("a message");
    assert_eq!(reply.raw_output_contents, [Bytes::new(), vec![70, 80].into()], "an entry for each output");
    assert_eq!(reply.outputs[0].parameters, parameters("r", 0, 2).into());
    assert!(reply.outputs[1].parameters.is_empty());
}

#[test]
fn nothing_is_written_when_one_of_the_outputs_does_not_fit() {
    let world = World::new();
    let before = world.memory.bytes();
    let places = [world.place(0, 0, 8), world.place(1, 4, 4)];
    for fault in [answer(&world.http(), &places).err(), answer(&world.grpc(), &places).err()] {
        let fault = fault.expect("does not fit");
        assert_eq!(fault.kind, InvalidInput);
        let text =
            "output 'z' takes 5 bytes, but the request gives it 4 of shared memory region 'r'; give it more";
        assert_eq!(fault.text, text);
    }
    assert_eq!(world.memory.bytes(), before);
}
