//! V2 server and model metadata, in JSON and protobuf, from the same facts.

use crate::proto::inference::model_metadata_response::TensorMetadata as TensorMetadataMessage;
use crate::proto::inference::{ModelMetadataResponse, ServerMetadataResponse};
pub use crate::v2::error_body as error_json;
use bytes::Bytes;
use flyball_core::TensorSpec;
use serde::{Deserialize, Serialize};
use serde_json::json as object;

/// The platform string that V2 clients know for ONNX models on ONNX Runtime.
pub const PLATFORM: &str = "onnxruntime_onnx";

/// Extensions that are always served.
const EXTENSIONS: [&str; 7] = [
    "binary_tensor_data",
    "classification",
    "parameters",
    "schedule_policy",
    "statistics",
    "model_configuration",
    "model_repository",
];

/// Which optional extensions are enabled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    pub model_control: bool,
    pub shared_memory: bool,
}

/// The response of `/v2`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerMetadata {
    pub name: String,
    pub version: String,
    pub extensions: Vec<String>,
}

impl ServerMetadata {
    /// Lists only what is served: clients enable features by these names.
    pub fn new(name: &str, version: &str, allowed: Allowed) -> ServerMetadata {
        let control = allowed.model_control.then_some("model_repository(unload_dependents)");
        let memory = allowed.shared_memory.then_some("system_shared_memory");
        ServerMetadata {
            name: name.to_owned(),
            version: version.to_owned(),
            extensions: EXTENSIONS.into_iter().chain(control).chain(memory).map(str::to_owned).collect(),
        }
    }

    pub fn to_message(&self) -> ServerMetadataResponse {
        ServerMetadataResponse {
            name: self.name.clone(),
            version: self.version.clone(),
            extensions: self.extensions.clone(),
        }
    }
}

/// The response of `/v2/models/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelMetadata {
    pub name: String,
    pub versions: Vec<String>,
    pub platform: String,
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
}

impl ModelMetadata {
    pub fn new(
        name: &str,
        versions: Vec<String>,
        inputs: &[TensorSpec],
        outputs: &[TensorSpec],
    ) -> ModelMetadata {
        ModelMetadata {
            name: name.to_owned(),
            versions,
            platform: PLATFORM.to_owned(),
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
        }
    }

    pub fn to_message(&self) -> ModelMetadataResponse {
        ModelMetadataResponse {
            name: self.name.clone(),
            versions: self.versions.clone(),
            platform: self.platform.clone(),
            inputs: self.inputs.iter().map(tensor_message).collect(),
            outputs: self.outputs.iter().map(tensor_message).collect(),
            ..ModelMetadataResponse::default()
        }
    }
}

/// The body of `/v2/health/live`.
pub fn live_json(live: bool) -> Bytes {
    json(&object!({ "live": live }))
}

/// The body of `/v2/health/ready`.
pub fn ready_json(ready: bool) -> Bytes {
    json(&object!({ "ready": ready }))
}

/// The body of `/v2/models`, as in KServe.
pub fn models_json(names: &[&str]) -> Bytes {
    json(&object!({ "models": names }))
}

/// The body of `/v2/models/{name}/ready`.
pub fn model_ready_json(name: &str, ready: bool) -> Bytes {
    json(&object!({ "name": name, "ready": ready }))
}

fn tensor_message(spec: &TensorSpec) -> TensorMetadataMessage {
    TensorMetadataMessage {
        name: spec.name.clone(),
        datatype: spec.datatype.name().to_owned(),
        shape: spec.shape.clone(),
    }
}

/// A response body in JSON.
pub fn json(value: &impl Serialize) -> Bytes {
    serde_json::to_vec(value).expect("strings, numbers and lists of them are always JSON").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_core::DataType;

    #[test]
    fn bodies_are_those_that_v2_clients_read() {
        let spec = TensorSpec { name: "x".into(), datatype: DataType::Fp32, shape: vec![-1, 30] };
        let model = ModelMetadata::new("fraud", vec!["1".into()], &[spec], &[]);
        let cases = [
            (live_json(true), r#"{"live":true}"#),
            (ready_json(false), r#"{"ready":false}"#),
            (model_ready_json("fraud", true), r#"{"name":"fraud","ready":true}"#),
            (error_json("no \"x\""), r#"{"error":"no \"x\""}"#),
            (
                json(&ServerMetadata::new("flyball", "0.1.0", Allowed::default())),
                concat!(
                    r#"{"name":"flyball","version":"0.1.0","extensions":["binary_tensor_data","classification","#,
                    r#""parameters","schedule_policy","statistics","model_configuration","model_repository"]}"#
                ),
            ),
            (
                json(&model),
                concat!(
                    r#"{"name":"fraud","versions":["1"],"platform":"onnxruntime_onnx","#,
                    r#""inputs":[{"name":"x","datatype":"FP32","shape":[-1,30]}],"outputs":[]}"#
                ),
            ),
        ];
        for (is, wanted) in cases {
            assert_eq!(is, wanted.as_bytes());
        }
    }

    #[test]
    fn what_needs_leave_is_listed_only_where_it_has_it() {
        let all = Allowed { model_control: true, shared_memory: true };
        let listed = ServerMetadata::new("flyball", "0", all).extensions;
        assert_eq!(listed[7..], ["model_repository(unload_dependents)", "system_shared_memory"]);
    }

    #[test]
    fn the_message_says_what_the_json_says() {
        let spec = TensorSpec { name: "y".into(), datatype: DataType::Bytes, shape: vec![-1] };
        let message = ModelMetadata::new("m", vec!["2".into(), "3".into()], &[], &[spec]).to_message();
        assert_eq!((message.name.as_str(), message.platform.as_str()), ("m", PLATFORM));
        assert_eq!(message.versions, ["2", "3"]);
        assert_eq!((message.outputs[0].datatype.as_str(), &message.outputs[0].shape), ("BYTES", &vec![-1]));
    }
}
