//! The pool of request rows, as JSON Lines, with prepared bodies.
//!
//! A line is `{"inputs": […], "outputs": […] | null}`, or for other protocols than V2 `{"body": {…}, "holds":
//! "…"}`: sent unchanged, and correct if the response contains the text. Bodies are prepared once; a request
//! only adds its id. Shared by all threads of a run.

use crate::expect::{Expected, ExpectedOutput};
use crate::plan::{Plan, Protocol};
use crate::tensor::encode;
use flyball_wire::proto::inference::ModelInferRequest;
use flyball_wire::proto::inference::model_infer_request::InferInputTensor;
use prost::Message;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// The rows of a run, sent cyclically.
#[derive(Debug)]
pub struct Payloads {
    rows: Vec<Row>,
}

#[derive(Debug)]
pub(crate) struct Row {
    /// The given text, until the bodies are made of it.
    given: Given,
    pub(crate) expected: Expected,
    pub(crate) body: Body,
}

#[derive(Debug)]
enum Given {
    Inputs(Box<str>),
    Body(Box<str>),
}

/// A request's body without its id, in the form of the plan's protocol.
#[derive(Debug, Default)]
pub(crate) struct Body {
    /// HTTP: the JSON after the id. gRPC: the message, to which the id may be appended as one more field.
    pub(crate) text: Vec<u8>,
    /// Raw tensors after the JSON.
    pub(crate) raw: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("payloads: line {line}: {text}")]
pub struct PayloadError {
    pub line: usize,
    pub text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'t> {
    #[serde(borrow)]
    inputs: Option<&'t RawValue>,
    outputs: Option<Vec<Tensor<Value>>>,
    #[serde(borrow)]
    body: Option<&'t RawValue>,
    #[serde(default)]
    holds: String,
}

/// A V2 tensor in JSON without parameters. Data that is not needed yet is `IgnoredAny`: the values of an
/// image take twenty times its size.
#[derive(Debug, Deserialize)]
struct Tensor<D> {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    data: D,
}

impl Payloads {
    pub fn from_jsonl(bytes: &[u8]) -> Result<Payloads, PayloadError> {
        let fault = |line, text: String| PayloadError { line, text };
        let text = std::str::from_utf8(bytes).map_err(|error| fault(0, error.to_string()))?;
        let mut rows = Vec::new();
        for (place, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            rows.push(Row::read(line).map_err(|text| fault(place + 1, text))?);
        }
        if rows.is_empty() { Err(fault(0, "there is no row".into())) } else { Ok(Payloads { rows }) }
    }

    pub(crate) fn row(&self, sequence: u64) -> &Row {
        &self.rows[self.place(sequence)]
    }

    /// The row of a request: cyclic.
    pub(crate) fn place(&self, sequence: u64) -> usize {
        usize::try_from(sequence % self.rows.len() as u64).unwrap_or(0)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Builds the bodies for the plan's protocol.
    pub(crate) fn prepare(&mut self, plan: &Plan) -> Result<(), PayloadError> {
        for (place, row) in self.rows.iter_mut().enumerate() {
            let body = match (plan.protocol, &row.given) {
                (Protocol::Http, Given::Inputs(inputs)) => Ok(as_json(inputs, plan.deadline_ms)),
                (Protocol::HttpBinary, Given::Inputs(inputs)) => as_binary(inputs, plan.deadline_ms),
                (Protocol::Grpc, Given::Inputs(inputs)) => as_message(inputs, &plan.model),
                (Protocol::Json, Given::Body(body)) => {
                    Ok(Body { text: body.as_bytes().to_vec(), raw: Vec::new() })
                }
                (Protocol::Json, Given::Inputs(_)) => Err("the protocol json needs `body`".to_owned()),
                (_, Given::Body(_)) => Err("`body` needs the protocol json".to_owned()),
            };
            row.body = body.map_err(|text| PayloadError { line: place + 1, text })?;
            row.given = Given::Body(Box::default());
        }
        Ok(())
    }
}

impl Row {
    fn read(line: &str) -> Result<Row, String> {
        let line: Line<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let (given, expected) = match (line.inputs, line.body) {
            (Some(inputs), None) => {
                tensors::<IgnoredAny>(inputs.get())?;
                let outputs = match line.outputs {
                    None => None,
                    Some(outputs) => {
                        Some(outputs.into_iter().map(expected_output).collect::<Result<_, _>>()?)
                    }
                };
                (Given::Inputs(inputs.get().into()), Expected::new(outputs))
            }
            (None, Some(body)) => (Given::Body(body.get().into()), Expected::text(line.holds)),
            _ => return Err("it needs exactly one of `inputs` and `body`".to_owned()),
        };
        Ok(Row { given, expected, body: Body::default() })
    }
}

/// V2 JSON, with the inputs unchanged.
fn as_json(inputs: &str, deadline_ms: Option<u64>) -> Body {
    let parameters = deadline_ms.map(|ms| format!(r#""parameters":{},"#, json!({ "timeout": ms * 1000 })));
    let text = format!(r#"{}"inputs":{inputs}}}"#, parameters.unwrap_or_default());
    Body { text: text.into_bytes(), raw: Vec::new() }
}

/// V2 with the binary tensor extension, in both directions.
fn as_binary(inputs: &str, deadline_ms: Option<u64>) -> Result<Body, String> {
    let mut parameters = json!({"binary_data_output": true});
    if let Some(ms) = deadline_ms {
        parameters["timeout"] = json!(ms * 1000);
    }
    let (mut heads, mut raw) = (Vec::new(), Vec::new());
    for input in tensors::<Value>(inputs)? {
        let bytes = input.encode()?;
        heads.push(json!({
            "name": input.name, "datatype": input.datatype, "shape": input.shape,
            "parameters": {"binary_data_size": bytes.len()},
        }));
        raw.extend(bytes);
    }
    let text = format!(r#""parameters":{parameters},"inputs":{}}}"#, Value::Array(heads));
    Ok(Body { text: text.into_bytes(), raw })
}

fn as_message(inputs: &str, model: &str) -> Result<Body, String> {
    let mut message = ModelInferRequest { model_name: model.to_owned(), ..ModelInferRequest::default() };
    for input in tensors::<Value>(inputs)? {
        message.raw_input_contents.push(input.encode()?.into());
        message.inputs.push(InferInputTensor {
            name: input.name,
            datatype: input.datatype,
            shape: input.shape,
            ..InferInputTensor::default()
        });
    }
    Ok(Body { text: message.encode_to_vec(), raw: Vec::new() })
}

fn tensors<'t, D: Deserialize<'t>>(text: &'t str) -> Result<Vec<Tensor<D>>, String> {
    serde_json::from_str(text).map_err(|error| format!("inputs: {error}"))
}

impl Tensor<Value> {
    fn encode(&self) -> Result<Vec<u8>, String> {
        encode(&self.datatype, &self.data).map_err(|text| format!("{}: {text}", self.name))
    }
}

fn expected_output(tensor: Tensor<Value>) -> Result<ExpectedOutput, String> {
    let raw = tensor.encode()?;
    Ok(ExpectedOutput { name: tensor.name, datatype: tensor.datatype, shape: tensor.shape, raw })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_without_rows_or_with_a_broken_one_is_refused_by_line() {
        let good = r#"{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[1]}],"outputs":null}"#;
        let cases = [
            (String::new(), 0, "there is no row"),
            (format!("{good}\n\n{{}}"), 3, "exactly one of `inputs` and `body`"),
            (format!("{good}\n{{\"inputs\":[{{}}]}}"), 2, "missing field `name`"),
            (r#"{"inputs":[],"output":[]}"#.to_owned(), 1, "unknown field `output`"),
        ];
        for (text, line, wanted) in cases {
            let error = Payloads::from_jsonl(text.as_bytes()).expect_err(wanted);
            assert_eq!(error.line, line);
            assert!(error.text.contains(wanted), "{error}");
        }
    }

    #[test]
    fn a_body_is_sent_as_it_is_and_only_by_its_own_protocol() {
        let prepare = |line: &str, protocol: &str| {
            let plan = json!({"url": "http://h:1", "model": "m", "protocol": protocol});
            let mut pool = Payloads::from_jsonl(line.as_bytes()).expect("reads");
            let plan = Plan::from_json(plan.to_string().as_bytes()).expect("a plan");
            pool.prepare(&plan).map(|()| String::from_utf8(pool.rows.remove(0).body.text).expect("text"))
        };
        let line = r#"{"body": {"input": {"amount": 1.50}}, "holds": "\"outcome\":"}"#;
        assert_eq!(prepare(line, "json").as_deref(), Ok(r#"{"input": {"amount": 1.50}}"#));
        assert!(prepare(line, "grpc").is_err_and(|error| error.text.contains("needs the protocol json")));
        assert!(
            prepare(r#"{"inputs":[]}"#, "json").is_err_and(|error| error.text.contains("json needs `body`"))
        );
    }

    #[test]
    fn rows_are_taken_in_turn() {
        let row = |value| {
            format!(r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[1],"data":[{value}]}}]}}"#)
        };
        let pool = Payloads::from_jsonl([row(1), row(2)].join("\n").as_bytes()).expect("reads");
        assert_eq!([0, 1, 2].map(|sequence| pool.place(sequence)), [0, 1, 0]);
    }

    #[test]
    fn bodies_carry_the_deadline_and_the_binary_form_its_sizes() {
        let row = r#"{"inputs":[{"name":"x","datatype":"INT16","shape":[2],"data":[1,2]}]}"#;
        let prepare = |protocol: &str, deadline_ms: Option<u64>| {
            let plan =
                json!({"url": "http://h:1", "model": "m", "protocol": protocol, "deadline_ms": deadline_ms});
            let mut pool = Payloads::from_jsonl(row.as_bytes()).expect("reads");
            pool.prepare(&Plan::from_json(plan.to_string().as_bytes()).expect("a plan")).expect("prepares");
            let Body { text, raw } = pool.rows.remove(0).body;
            (String::from_utf8(text).expect("text"), raw)
        };
        let inputs = r#""inputs":[{"name":"x","datatype":"INT16","shape":[2],"data":[1,2]}]}"#;
        assert_eq!(prepare("http", None), (inputs.to_owned(), vec![]));
        let timed = format!(r#""parameters":{{"timeout":5000}},{inputs}"#);
        assert_eq!(prepare("http", Some(5)), (timed, vec![]));
        let (text, raw) = prepare("http-binary", Some(5));
        let document: Value = serde_json::from_str(&format!("{{{text}")).expect("JSON");
        assert_eq!(document["parameters"], json!({"binary_data_output": true, "timeout": 5000}));
        assert_eq!(document["inputs"][0]["parameters"]["binary_data_size"], 4);
        assert_eq!((document["inputs"][0].get("data"), raw), (None, vec![1, 0, 2, 0]));
    }
}
