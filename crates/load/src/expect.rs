//! What a row's answer must be, and the check of it. A text that was found right once is compared byte for byte from
//! then on; only another text is parsed, because parsing would cost the generator its speed.

use crate::tensor::encode;
use flyball_wire::proto::inference::ModelInferResponse;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::RefCell;

#[derive(Debug)]
pub(crate) struct ExpectedOutput {
    pub(crate) name: String,
    pub(crate) datatype: String,
    pub(crate) shape: Vec<i64>,
    pub(crate) raw: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Expected {
    /// `None`: whatever comes is right, as long as it is the answer to this request.
    outputs: Option<Vec<ExpectedOutput>>,
    /// The last text of `outputs` that was found right.
    verified: RefCell<Box<str>>,
}

#[derive(Deserialize)]
struct Answer<'t> {
    #[serde(borrow, default)]
    id: Option<&'t RawValue>,
    #[serde(borrow, default)]
    outputs: Option<&'t RawValue>,
}

#[derive(Deserialize)]
struct Output<'t> {
    #[serde(borrow)]
    name: Cow<'t, str>,
    #[serde(borrow)]
    datatype: Cow<'t, str>,
    shape: Vec<i64>,
    data: Value,
}

impl Expected {
    pub(crate) fn new(outputs: Option<Vec<ExpectedOutput>>) -> Expected {
        Expected { outputs, verified: RefCell::default() }
    }

    /// Checks an answer in JSON; the error says what differs. `foreign` answers may lack the id where nothing else is
    /// expected of them.
    pub(crate) fn check_json(&self, id: &str, body: &[u8], foreign: bool) -> Result<(), String> {
        let lenient = foreign && self.outputs.is_none();
        let answer: Answer<'_> = match serde_json::from_slice(body) {
            Ok(answer) => answer,
            Err(_) if lenient => return Ok(()),
            Err(error) => return Err(format!("the answer is no JSON object: {error}")),
        };
        match answer.id.map(RawValue::get) {
            None if lenient => return Ok(()),
            None => return Err(format!("the answer to id {id} has no id")),
            Some(echo) if echo.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) == Some(id) => {}
            Some(echo) => return Err(format!("the answer to id {id} has id {echo}")),
        }
        let Some(expected) = &self.outputs else { return Ok(()) };
        let text = answer.outputs.map_or("", RawValue::get);
        if !text.is_empty() && **self.verified.borrow() == *text {
            return Ok(());
        }
        compare_json(expected, text)?;
        *self.verified.borrow_mut() = text.into();
        Ok(())
    }

    /// Checks an answer over gRPC, whose outputs are raw.
    pub(crate) fn check_message(&self, id: &str, message: &ModelInferResponse) -> Result<(), String> {
        if message.id != id {
            return Err(format!("the answer to id {id} has id {:?}", message.id));
        }
        let Some(expected) = &self.outputs else { return Ok(()) };
        for wanted in expected {
            let place = message.outputs.iter().position(|output| output.name == wanted.name);
            let Some(place) = place else { return Err(missing(wanted)) };
            let output = &message.outputs[place];
            let raw = message.raw_output_contents.get(place).map_or(&[][..], |raw| raw);
            compare(wanted, &output.datatype, &output.shape, raw)?;
        }
        Ok(())
    }
}

fn compare_json(expected: &[ExpectedOutput], text: &str) -> Result<(), String> {
    let outputs: Vec<Output<'_>> =
        serde_json::from_str(text).map_err(|error| format!("the answer's outputs do not parse: {error}"))?;
    for wanted in expected {
        let output =
            outputs.iter().find(|output| output.name == wanted.name).ok_or_else(|| missing(wanted))?;
        let raw = encode(&output.datatype, &output.data)?;
        compare(wanted, &output.datatype, &output.shape, &raw)?;
    }
    Ok(())
}

fn compare(wanted: &ExpectedOutput, datatype: &str, shape: &[i64], raw: &[u8]) -> Result<(), String> {
    let name = &wanted.name;
    if datatype != wanted.datatype || shape != wanted.shape {
        return Err(format!(
            "output '{name}' is {datatype} {shape:?}, expected {} {:?}",
            wanted.datatype, wanted.shape
        ));
    }
    if raw == wanted.raw {
        return Ok(());
    }
    let differs = raw.iter().zip(&wanted.raw).position(|(is, wanted)| is != wanted);
    let at = differs.unwrap_or_else(|| raw.len().min(wanted.raw.len()));
    Err(format!("output '{name}' differs from the expected one at byte {at} of its raw form"))
}

fn missing(wanted: &ExpectedOutput) -> String {
    format!("output '{}' is missing", wanted.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected() -> Expected {
        let raw = 0.1_f32.to_le_bytes().to_vec();
        Expected::new(Some(vec![ExpectedOutput {
            name: "y".into(),
            datatype: "FP32".into(),
            shape: vec![1],
            raw,
        }]))
    }

    fn body(id: &str, data: &str) -> Vec<u8> {
        format!(r#"{{"id":{id},"outputs":[{{"name":"y","datatype":"FP32","shape":[1],"data":{data}}}]}}"#)
            .into()
    }

    #[test]
    fn an_answer_is_right_however_its_floats_are_written_and_stays_checked_after() {
        let expected = expected();
        for data in ["[0.1]", "[0.10000000149011612]", "[1e-1]", "[0.1]"] {
            assert_eq!(expected.check_json("7", &body("\"7\"", data), false), Ok(()));
        }
        let wrong = expected.check_json("8", &body("\"8\"", "[0.2]"), false);
        assert!(wrong.is_err_and(|text| text.contains("output 'y' differs")));
    }

    #[test]
    fn another_id_no_id_and_other_outputs_are_found() {
        let cases = [
            (body("\"6\"", "[0.1]"), "has id \"6\""),
            (br#"{"outputs":[]}"#.to_vec(), "has no id"),
            (br#"{"id":"7","outputs":[]}"#.to_vec(), "output 'y' is missing"),
            (br#"{"id":"7"}"#.to_vec(), "do not parse"),
            (b"fine".to_vec(), "is no JSON object"),
            (
                br#"{"id":"7","outputs":[{"name":"y","datatype":"FP64","shape":[1],"data":[0.1]}]}"#.to_vec(),
                "is FP64 [1], expected FP32 [1]",
            ),
        ];
        for (body, wanted) in cases {
            let problem = expected().check_json("7", &body, true).expect_err(wanted);
            assert!(problem.contains(wanted), "{problem}");
        }
    }

    #[test]
    fn only_a_foreign_answer_of_which_nothing_is_expected_may_lack_the_id() {
        let any = Expected::new(None);
        assert!(any.check_json("7", b"fine", true).is_ok());
        assert!(any.check_json("7", b"{}", true).is_ok());
        assert!(any.check_json("7", b"{}", false).is_err());
        assert!(any.check_json("7", br#"{"id":"8"}"#, true).is_err());
    }
}
