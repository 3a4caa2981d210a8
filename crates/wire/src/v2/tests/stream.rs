//! The messages of a stream: the unary response inside, and errors with their request's id.

use super::{LIMITS, answer, parse};
use crate::frame;
use crate::proto::inference::infer_parameter::ParameterChoice;
use crate::proto::inference::{ModelInferRequest, ModelInferResponse, ModelStreamInferResponse};
use crate::v2::{GrpcDialect, GrpcReply, StreamDialect, StreamReply};
use bytes::Bytes;
use flyball_core::{DataType, Dialect, Fault, GrpcCode, Shape, Tensor, TensorData};
use prost::Message;

fn read(framed: &Bytes) -> ModelStreamInferResponse {
    ModelStreamInferResponse::decode(frame::decode(framed).expect("a frame")).expect("a message")
}

fn is_final(response: &ModelInferResponse) -> bool {
    let flag = response.parameters.get("triton_final_response");
    flag.is_some_and(|flag| flag.parameter_choice == Some(ParameterChoice::BoolParam(true)))
}

#[test]
fn an_answer_is_the_unary_one_with_the_flag_that_it_is_the_last() {
    let output = || Tensor {
        name: "y".into(),
        datatype: DataType::Fp32,
        shape: Shape::from_slice(&[2]),
        data: TensorData::Fixed(Bytes::from_static(&[1, 2, 3, 4, 5, 6, 7, 8])),
    };
    let unary = answer(&GrpcDialect::default(), Some("a"), vec![(output(), true)]).expect("answers");
    let GrpcReply::Frame(unary) = unary else { panic!("{unary:?}") };
    let mut wanted = ModelInferResponse::decode(frame::decode(&unary).expect("a frame")).expect("a message");
    let streamed = answer(&StreamDialect::default(), Some("a"), vec![(output(), true)]).expect("answers");
    let StreamReply::Answer(streamed) = streamed else { panic!("{streamed:?}") };
    let streamed = read(&streamed);
    assert_eq!(streamed.error_message, "");
    let got = streamed.infer_response.expect("an answer");
    assert!(is_final(&got));
    wanted.parameters.clone_from(&got.parameters);
    assert_eq!(got, wanted);
}

fn refused(dialect: &StreamDialect, fault: &Fault) -> (String, ModelInferResponse) {
    let StreamReply::Fault { message, status } = dialect.refuse(fault) else { panic!("an answer") };
    assert!(matches!(status, GrpcReply::Status { code: GrpcCode::InvalidArgument, .. }), "{status:?}");
    let message = read(&message);
    (message.error_message, message.infer_response.expect("the names"))
}

#[test]
fn an_error_says_whose_it_is_also_where_the_request_could_not_be_read() {
    let request = ModelInferRequest {
        model_name: "fraud".into(),
        model_version: "3".into(),
        id: "call-7".into(),
        ..ModelInferRequest::default()
    };
    let mut broken = request.encode_to_vec();
    broken.extend_from_slice(&[0x2a, 0xff]);
    for body in [request.encode_to_vec(), broken] {
        let dialect = StreamDialect::default();
        let _ = parse(&dialect, &body.into());
        let (text, named) = refused(&dialect, &Fault::malformed("no good"));
        assert_eq!(text, "no good");
        assert_eq!((&*named.model_name, &*named.model_version, &*named.id), ("fraud", "3", "call-7"));
        assert!(is_final(&named));
    }
}

#[test]
fn an_id_that_is_too_long_is_not_sent_back() {
    let id = "i".repeat(LIMITS.name_bytes_max + 1);
    let request = ModelInferRequest { model_name: "fraud".into(), id, ..ModelInferRequest::default() };
    let dialect = StreamDialect::default();
    let fault = parse(&dialect, &request.encode_to_vec().into()).expect_err("must be refused");
    let (_, named) = refused(&dialect, &fault);
    assert_eq!((&*named.model_name, &*named.id), ("fraud", ""));
}

#[test]
fn a_request_that_was_never_read_has_no_name() {
    let (_, named) = refused(&StreamDialect::default(), &Fault::malformed("cut short"));
    assert_eq!((&*named.model_name, &*named.id), ("", ""));
}
