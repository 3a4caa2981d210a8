//! Properties: each datatype through JSON and binary against an independent encoder.
//!
//! Nested equals flat, and no bytes make a parser panic.

use super::{GrpcDialect, HttpDialect, answer, fixed, http, input, parse, parse_binary, parse_json};
use crate::proto::inference::ModelInferRequest;
use crate::proto::inference::model_infer_request::InferInputTensor;
use bytes::Bytes;
use flyball_core::{DataType, Shape, Tensor, TensorData};
use proptest::prelude::*;
use prost::Message;
use std::fmt::Write;

/// One element as JSON and as little-endian bytes, made without the code under test.
fn element(datatype: DataType) -> BoxedStrategy<(String, Vec<u8>)> {
    macro_rules! whole {
        ($kind:ty) => {
            any::<$kind>().prop_map(|value| (value.to_string(), value.to_le_bytes().to_vec())).boxed()
        };
    }
    match datatype {
        DataType::Bool => any::<bool>().prop_map(|value| (value.to_string(), vec![u8::from(value)])).boxed(),
        DataType::Uint8 => whole!(u8),
        DataType::Uint16 => whole!(u16),
        DataType::Uint32 => whole!(u32),
        DataType::Uint64 => whole!(u64),
        DataType::Int8 => whole!(i8),
        DataType::Int16 => whole!(i16),
        DataType::Int32 => whole!(i32),
        DataType::Int64 => whole!(i64),
        DataType::Fp32 => prop::num::f32::NORMAL
            .prop_map(|value| (format!("{value:e}"), value.to_le_bytes().to_vec()))
            .boxed(),
        DataType::Fp64 => prop::num::f64::NORMAL
            .prop_map(|value| (format!("{value:?}"), value.to_le_bytes().to_vec()))
            .boxed(),
        DataType::Bytes => any::<String>()
            .prop_map(|text| {
                let json = serde_json::to_string(&text).expect("a string");
                let length = u32::try_from(text.len()).expect("short").to_le_bytes();
                (json, [&length, text.as_bytes()].concat())
            })
            .boxed(),
        DataType::Fp16 | DataType::Bf16 => {
            any::<[u8; 2]>().prop_map(|le| (String::new(), le.to_vec())).boxed()
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) datatype: DataType,
    pub(super) shape: Vec<usize>,
    pub(super) elements: Vec<(String, Vec<u8>)>,
}

pub(super) fn any_case(datatypes: Vec<DataType>) -> impl Strategy<Value = Case> {
    (prop::sample::select(datatypes), prop::collection::vec(0_usize..4, 0..4)).prop_flat_map(
        |(datatype, shape)| {
            let count: usize = shape.iter().product();
            prop::collection::vec(element(datatype), count).prop_map(move |elements| Case {
                datatype,
                shape: shape.clone(),
                elements,
            })
        },
    )
}

pub(super) fn in_json() -> Vec<DataType> {
    DataType::ALL.into_iter().filter(|kind| !matches!(kind, DataType::Fp16 | DataType::Bf16)).collect()
}

impl Case {
    pub(super) fn flat(&self) -> String {
        format!("[{}]", self.elements.iter().map(|(json, _)| json.as_str()).collect::<Vec<_>>().join(" , "))
    }

    pub(super) fn nested(&self) -> String {
        fn nest(shape: &[usize], elements: &mut impl Iterator<Item = String>, out: &mut String) {
            let Some((&axis, inner)) = shape.split_first() else {
                out.push_str(&elements.next().expect("an element for each place"));
                return;
            };
            out.push('[');
            for place in 0..axis {
                let _ = write!(out, "{}", if place > 0 { ",\n" } else { "" });
                nest(inner, elements, out);
            }
            out.push(']');
        }
        let mut out = String::new();
        nest(&self.shape, &mut self.elements.iter().map(|(json, _)| json.clone()), &mut out);
        out
    }

    pub(super) fn raw(&self) -> Vec<u8> {
        self.elements.iter().flat_map(|(_, le)| le.clone()).collect()
    }

    pub(super) fn json_body(&self, data: &str) -> String {
        let (name, shape) = (self.datatype.name(), &self.shape);
        format!(
            r#"{{"id":"1","inputs":[{{"data":{data},"name":"x","shape":{shape:?},"datatype":"{name}"}}]}}"#
        )
    }

    pub(super) fn binary_body(&self) -> String {
        let (name, shape, size) = (self.datatype.name(), &self.shape, self.raw().len());
        format!(
            r#"{{"inputs":[{{"name":"x","shape":{shape:?},"datatype":"{name}","parameters":{{"binary_data_size":{size}}}}}]}}"#
        )
    }

    pub(super) fn message(&self) -> Vec<u8> {
        let input = InferInputTensor {
            name: "x".into(),
            datatype: self.datatype.name().into(),
            shape: self.shape.iter().map(|&axis| axis as i64).collect(),
            ..Default::default()
        };
        let raw_input_contents = vec![self.raw().into()];
        ModelInferRequest { inputs: vec![input], raw_input_contents, ..Default::default() }.encode_to_vec()
    }

    /// The tensor's wire bytes, by this file's own encoder.
    fn is(&self, tensor: &Tensor) -> Result<(), TestCaseError> {
        prop_assert_eq!(tensor.datatype, self.datatype);
        let shape: Vec<i64> = self.shape.iter().map(|&axis| axis as i64).collect();
        prop_assert_eq!(tensor.shape.as_slice(), shape.as_slice());
        match &tensor.data {
            TensorData::Fixed(_) => prop_assert_eq!(fixed(tensor), self.raw()),
            TensorData::Strings(texts) => {
                let wanted: Vec<String> = self
                    .elements
                    .iter()
                    .map(|(json, _)| serde_json::from_str(json).expect("a string"))
                    .collect();
                prop_assert_eq!(texts, &wanted);
            }
        }
        Ok(())
    }
}

/// A body with some bytes changed, cut or doubled.
pub(super) fn mutate(mut body: Vec<u8>, changes: &[(usize, u8, u8)]) -> Bytes {
    for &(at, byte, how) in changes {
        if body.is_empty() {
            break;
        }
        let at = at % body.len();
        match how % 4 {
            0 => body[at] = byte,
            1 => drop(body.remove(at)),
            2 => body.insert(at, byte),
            _ => body.truncate(at),
        }
    }
    body.into()
}

pub(super) fn changes() -> impl Strategy<Value = Vec<(usize, u8, u8)>> {
    prop::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..6)
}

proptest! {
    #[test]
    fn json_data_reads_to_the_same_bytes_flat_and_nested(case in any_case(in_json())) {
        for data in [case.flat(), case.nested()] {
            let request = parse_json(&case.json_body(&data)).expect("parses");
            case.is(&request.inputs[0])?;
        }
    }

    #[test]
    fn raw_data_reads_to_the_same_bytes_over_http_and_grpc(case in any_case(DataType::ALL.to_vec())) {
        let request = parse_binary(&case.binary_body(), &case.raw()).expect("parses");
        case.is(&request.inputs[0])?;
        let request = parse(&GrpcDialect::default(), &case.message().into()).expect("parses");
        case.is(&request.inputs[0])?;
    }

    #[test]
    fn an_answer_in_json_reads_back_to_the_tensor_that_was_written(case in any_case(in_json())) {
        let tensor = parse_json(&case.json_body(&case.flat())).expect("parses").inputs.remove(0);
        let reply = answer(&http(None), None, vec![(tensor, false)]).expect("answers");
        let body = std::str::from_utf8(&reply.body).expect("UTF-8").replacen("\"outputs\"", "\"inputs\"", 1);
        let again = parse_json(&body).expect("an answer reads as a request");
        case.is(&again.inputs[0])?;
    }

    #[test]
    fn data_of_another_count_than_the_shape_asks_for_is_refused(case in any_case(in_json()), more in 1_usize..3) {
        let shape: Shape = case.shape.iter().map(|&axis| axis as i64).collect();
        let count = Tensor::elements(&shape).expect("small") + more;
        let body = Case { shape: vec![count], ..case.clone() }.json_body(&case.flat());
        prop_assert!(parse_json(&body).is_err());
    }

    #[test]
    fn random_bytes_never_panic(body: Vec<u8>, length: Option<u8>) {
        let body = Bytes::from(body);
        let _ = parse(&http(length.map(usize::from)), &body);
        let _ = parse(&GrpcDialect::default(), &body);
    }

    #[test]
    fn changed_bodies_never_panic(case in any_case(DataType::ALL.to_vec()), changes in changes(), longer in 0_usize..9) {
        let _ = parse(&http(None), &mutate(case.json_body(&case.nested()).into_bytes(), &changes));
        let json = case.binary_body();
        let body = mutate([json.as_bytes(), &case.raw()].concat(), &changes);
        let _ = parse(&http(Some(json.len() + longer - 4)), &body);
        let _ = parse(&GrpcDialect::default(), &mutate(case.message(), &changes));
    }
}

#[test]
fn not_a_number_and_infinities_travel_as_the_words_that_python_and_triton_write() {
    let words = r#"[1.5,NaN,Infinity,-Infinity,Inf,-Inf,-NaN]"#;
    let values =
        [1.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let request = parse_json(&input("FP32", "[7]", words)).expect("FP32");
    let read: Vec<f32> =
        fixed(&request.inputs[0]).as_chunks().0.iter().map(|le| f32::from_le_bytes(*le)).collect();
    assert_eq!(format!("{read:?}"), format!("{values:?}"));
    let wide = parse_json(&input("FP64", "[1,1]", "[[-Infinity]]")).expect("FP64");
    assert_eq!(fixed(&wide.inputs[0]), f64::NEG_INFINITY.to_le_bytes());
    let reply = answer(&http(None), None, vec![(request.inputs[0].clone(), false)]).expect("answers");
    let body = std::str::from_utf8(&reply.body).expect("UTF-8");
    assert!(body.contains(r#""data":[1.5,NaN,Infinity,-Infinity,Infinity,-Infinity,NaN]"#), "{body}");
}

#[test]
fn a_masked_body_keeps_its_names_its_strings_and_its_raw_tensors() {
    let json = concat!(
        r#"{"id":"NaN","inputs":[{"name":"a","datatype":"FP32","shape":[2],"parameters":{"binary_data_size":8}},"#,
        r#"{"name":"NaN","datatype":"FP32","shape":[1],"data":[NaN]},"#,
        r#"{"name":"s","datatype":"BYTES","shape":[2],"data":["NaN","Inf\"inity"]}],"parameters":{"own":NaN}}"#,
    );
    let request = parse_binary(json, &[0; 8]).expect("a request");
    assert_eq!(request.id.as_deref(), Some("NaN"));
    let names: Vec<&str> = request.inputs.iter().map(|input| &*input.name).collect();
    assert_eq!(names, ["a", "NaN", "s"]);
    assert_eq!(fixed(&request.inputs[0]), [0; 8]);
    assert_eq!(request.inputs[2].data, TensorData::Strings(vec!["NaN".into(), "Inf\"inity".into()]));
    let strict = HttpDialect { strict_json: true, ..http(Some(json.len())) };
    let body = [json.as_bytes(), &[0; 8]].concat();
    let fault = parse(&strict, &body.into()).expect_err("strict");
    assert!(fault.text.contains("strict JSON (setting strict_json) has no NaN"), "{fault}");
}
