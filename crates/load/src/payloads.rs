//! The pool of rows that requests are made of: JSON Lines, each `{"inputs": […], "outputs": […] | null}`. Bodies are
//! prepared here once; a request only adds its id.

use crate::expect::{Expected, ExpectedOutput};
use crate::tensor::encode;
use flyball_wire::proto::inference::ModelInferRequest;
use flyball_wire::proto::inference::model_infer_request::InferInputTensor;
use prost::Message;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// The rows of a run; they are sent in turn, again and again.
#[derive(Debug)]
pub struct Payloads {
    rows: Vec<Row>,
}

#[derive(Debug)]
pub(crate) struct Row {
    /// `"inputs":[…]`, just as it was given.
    pub(crate) inputs_text: String,
    inputs: Vec<Tensor>,
    pub(crate) expected: Expected,
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
    inputs: &'t RawValue,
    outputs: Option<Vec<Tensor>>,
}

/// A V2 tensor in JSON; its parameters do not matter here.
#[derive(Debug, Deserialize)]
struct Tensor {
    name: String,
    datatype: String,
    shape: Vec<i64>,
    data: Value,
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

    /// Which row a request carries: the next one, from the first again after the last.
    pub(crate) fn place(&self, sequence: u64) -> usize {
        usize::try_from(sequence % self.rows.len() as u64).unwrap_or(0)
    }

    /// Each row as an encoded `ModelInferRequest` without its id, which may be appended as one more field.
    pub(crate) fn messages(&self, model: &str) -> Result<Vec<Vec<u8>>, PayloadError> {
        let encode = |(place, row): (usize, &Row)| {
            row.message(model).map_err(|text| PayloadError { line: place + 1, text })
        };
        self.rows.iter().enumerate().map(encode).collect()
    }
}

impl Row {
    fn read(line: &str) -> Result<Row, String> {
        let line: Line<'_> = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let inputs = serde_json::from_str(line.inputs.get()).map_err(|error| format!("inputs: {error}"))?;
        let outputs = match line.outputs {
            None => None,
            Some(outputs) => Some(outputs.into_iter().map(expected_output).collect::<Result<_, _>>()?),
        };
        Ok(Row {
            inputs_text: format!("\"inputs\":{}", line.inputs.get()),
            inputs,
            expected: Expected::new(outputs),
        })
    }

    fn message(&self, model: &str) -> Result<Vec<u8>, String> {
        let mut message = ModelInferRequest { model_name: model.to_owned(), ..ModelInferRequest::default() };
        for input in &self.inputs {
            let raw =
                encode(&input.datatype, &input.data).map_err(|text| format!("{}: {text}", input.name))?;
            message.raw_input_contents.push(raw.into());
            message.inputs.push(InferInputTensor {
                name: input.name.clone(),
                datatype: input.datatype.clone(),
                shape: input.shape.clone(),
                ..InferInputTensor::default()
            });
        }
        Ok(message.encode_to_vec())
    }
}

fn expected_output(tensor: Tensor) -> Result<ExpectedOutput, String> {
    let raw = encode(&tensor.datatype, &tensor.data).map_err(|text| format!("{}: {text}", tensor.name))?;
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
            (format!("{good}\n\n{{}}"), 3, "missing field `inputs`"),
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
    fn rows_are_taken_in_turn() {
        let row = |value| {
            format!(r#"{{"inputs":[{{"name":"x","datatype":"FP32","shape":[1],"data":[{value}]}}]}}"#)
        };
        let pool = Payloads::from_jsonl([row(1), row(2)].join("\n").as_bytes()).expect("reads");
        assert_eq!([0, 1, 2].map(|sequence| pool.place(sequence)), [0, 1, 0]);
    }
}
