//! The model repository extension: the index in JSON and messages, and load or unload requests.
//!
//! Knows nothing of loading itself.

use crate::body;
use crate::metadata::json;
use crate::proto::inference as proto;
use crate::proto::inference::repository_index_response::ModelIndex;
use bytes::Bytes;
use flyball_core::Fault;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The state of a version, in Triton's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    Ready,
    Unavailable,
    Loading,
    Unloading,
}

impl State {
    pub const fn name(self) -> &'static str {
        match self {
            State::Ready => "READY",
            State::Unavailable => "UNAVAILABLE",
            State::Loading => "LOADING",
            State::Unloading => "UNLOADING",
        }
    }
}

/// One line of the index. Unknown values are empty and omitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// None for a model that nobody has loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// The response of `/v2/repository/index`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index(pub Vec<Listed>);

impl Index {
    pub fn to_json(&self) -> Bytes {
        json(&self.0)
    }

    pub fn to_message(&self) -> proto::RepositoryIndexResponse {
        let line = |line: &Listed| ModelIndex {
            name: line.name.clone(),
            version: line.version.clone(),
            state: line.state.map_or("", State::name).to_owned(),
            reason: line.reason.clone(),
        };
        proto::RepositoryIndexResponse { models: self.0.iter().map(line).collect() }
    }
}

/// A request for the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IndexRequest {
    /// Only models that are ready.
    pub ready: bool,
}

impl IndexRequest {
    pub fn from_json(body: &[u8]) -> Result<IndexRequest, Fault> {
        body::read(body, "an index request")
    }

    pub fn from_message(message: &proto::RepositoryIndexRequest) -> IndexRequest {
        IndexRequest { ready: message.ready }
    }
}

/// The parameters of a load or unload request that matter here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControlRequest {
    /// The configuration to use instead of the model's own, in JSON.
    pub config: Option<String>,
    /// The name of the first parameter that contains a file.
    pub file: Option<String>,
}

const NOT_TEXT: &str = "parameter 'config' is not a text; send the configuration as JSON text";

#[derive(Default, Deserialize)]
#[serde(default)]
struct ControlBody {
    parameters: Map<String, Value>,
}

impl ControlRequest {
    pub fn from_json(body: &[u8]) -> Result<ControlRequest, Fault> {
        let mut request: ControlBody = body::read(body, "a load or unload request")?;
        let config = match request.parameters.remove("config") {
            None | Some(Value::Null) => None,
            Some(Value::String(config)) => Some(config),
            Some(_) => return Err(Fault::malformed(NOT_TEXT)),
        };
        Ok(ControlRequest { config, file: first_file(request.parameters.keys()) })
    }

    pub fn from_message(message: proto::RepositoryModelLoadRequest) -> Result<ControlRequest, Fault> {
        use proto::model_repository_parameter::ParameterChoice;
        let mut parameters = message.parameters;
        let config = match parameters.remove("config").map(|parameter| parameter.parameter_choice) {
            None => None,
            Some(Some(ParameterChoice::StringParam(config))) => Some(config),
            Some(_) => return Err(Fault::malformed(NOT_TEXT)),
        };
        Ok(ControlRequest { config, file: first_file(parameters.keys()) })
    }
}

/// The first in alphabetical order: maps of messages have none.
fn first_file<'n>(names: impl Iterator<Item = &'n String>) -> Option<String> {
    names.filter(|name| name.starts_with("file:")).min().cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(name: &str, version: &str, state: State, reason: &str) -> Listed {
        Listed { name: name.into(), version: version.into(), state: Some(state), reason: reason.into() }
    }

    #[test]
    fn the_index_leaves_out_what_is_not_known() {
        let index = Index(vec![
            listed("a", "1", State::Ready, ""),
            listed("b", "2", State::Unavailable, "unloaded"),
            listed("c", "", State::Loading, ""),
        ]);
        let wanted = concat!(
            r#"[{"name":"a","version":"1","state":"READY"},"#,
            r#"{"name":"b","version":"2","state":"UNAVAILABLE","reason":"unloaded"},"#,
            r#"{"name":"c","state":"LOADING"}]"#
        );
        assert_eq!(index.to_json(), wanted);
        let message = index.to_message();
        assert_eq!(
            (message.models[1].state.as_str(), message.models[1].reason.as_str()),
            ("UNAVAILABLE", "unloaded")
        );
    }

    #[test]
    fn each_state_has_the_name_that_its_json_has() {
        for state in [State::Ready, State::Unavailable, State::Loading, State::Unloading] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
    }

    #[test]
    fn a_request_may_be_empty_and_may_not_be_nonsense() {
        assert_eq!(IndexRequest::from_json(b""), Ok(IndexRequest { ready: false }));
        assert_eq!(IndexRequest::from_json(b"{}"), Ok(IndexRequest { ready: false }));
        assert_eq!(
            IndexRequest::from_json(br#"{"ready": true, "more": 1}"#),
            Ok(IndexRequest { ready: true })
        );
        for body in [br#"{"ready": 1}"#.as_slice(), b"[]", b"{", b"null"] {
            let fault = IndexRequest::from_json(body).unwrap_err();
            assert!(fault.text.starts_with("the body is not an index request: "), "{fault}");
        }
    }

    #[test]
    fn a_control_request_has_a_configuration_and_names_files_and_ignores_other_parameters() {
        let body =
            br#"{"parameters": {"unload_dependents": true, "config": "{}", "file:b": "", "file:a": ""}}"#;
        let wanted = ControlRequest { config: Some("{}".into()), file: Some("file:a".into()) };
        assert_eq!(ControlRequest::from_json(body).unwrap(), wanted);
        assert_eq!(ControlRequest::from_json(b"").unwrap(), ControlRequest::default());
        for body in [br#"{"parameters": []}"#.as_slice(), br#"{"parameters": {"config": {}}}"#] {
            assert!(ControlRequest::from_json(body).is_err());
        }
    }
}
