//! The model configuration extension: what Triton's clients query before they call a model.
//!
//! In JSON (as Triton prints its own message) and as that message.

use crate::metadata::{PLATFORM, json};
use crate::proto::inference as proto;
use crate::proto::inference::model_input::Format;
use crate::proto::inference::model_instance_group::Kind;
use crate::proto::inference::model_version_policy::{All, PolicyChoice, Specific};
use bytes::Bytes;
use flyball_core::snapshot::Layout;
use flyball_core::{DataType, TensorSpec};
use serde::Serialize;
use serde_json::{Map, Value, json as object};
use std::collections::HashMap;
use std::time::Duration;

const BACKEND: &str = "onnxruntime";

/// A wait for a fuller batch: until this many rows, or this long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchWait {
    pub rows: usize,
    pub window: Duration,
}

/// The response of `…/config`.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub name: String,
    pub versions: Vec<String>,
    /// Maximum rows in one run; none if requests are not batched.
    pub rows_max: Option<usize>,
    pub batch_wait: Option<BatchWait>,
    pub sessions: usize,
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
    /// The names of the inputs that clients may leave out.
    pub optional: Vec<String>,
    /// The model's own shapes of tensors that clients see in another one, by name.
    pub reshaped: HashMap<String, Vec<i64>>,
    /// The layouts of image inputs, by name.
    pub layouts: HashMap<String, Layout>,
}

#[derive(Serialize)]
struct Page<'c> {
    name: &'c str,
    platform: &'static str,
    backend: &'static str,
    version_policy: Value,
    max_batch_size: i32,
    input: Vec<Tensor<'c>>,
    output: Vec<Tensor<'c>>,
    instance_group: [Value; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    dynamic_batching: Option<Value>,
    model_transaction_policy: Value,
    parameters: Map<String, Value>,
}

#[derive(Serialize)]
struct Tensor<'c> {
    name: &'c str,
    data_type: &'static str,
    /// Of inputs alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
    dims: &'c [i64],
    #[serde(skip_serializing_if = "Option::is_none")]
    reshape: Option<Reshape<'c>>,
    #[serde(skip_serializing_if = "is_false")]
    optional: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

#[derive(Serialize)]
struct Reshape<'c> {
    shape: &'c [i64],
}

impl Configuration {
    pub fn to_json(&self) -> Bytes {
        let policy = match self.numbered() {
            Some(versions) => object!({"specific": {"versions": versions}}),
            None => object!({"all": {}}),
        };
        let (kind, batching) = (Kind::Cpu.as_str_name(), self.dynamic_batching());
        json(&Page {
            name: &self.name,
            platform: PLATFORM,
            backend: BACKEND,
            version_policy: policy,
            max_batch_size: self.max_batch_size(),
            input: self.inputs.iter().map(|spec| self.tensor(spec, Some(self.format(spec)))).collect(),
            output: self.outputs.iter().map(|spec| self.tensor(spec, None)).collect(),
            instance_group: [object!({"name": self.group(), "kind": kind, "count": self.sessions})],
            dynamic_batching: batching.map(|batching| {
                object!({
                    "preferred_batch_size": batching.preferred_batch_size,
                    "max_queue_delay_microseconds": batching.max_queue_delay_microseconds,
                })
            }),
            model_transaction_policy: object!({"decoupled": false}),
            parameters: Map::new(),
        })
    }

    pub fn to_message(&self) -> proto::ModelConfigResponse {
        let policy = match self.numbered() {
            Some(versions) => PolicyChoice::Specific(Specific { versions }),
            None => PolicyChoice::All(All {}),
        };
        let reshape = |spec: &TensorSpec| {
            self.reshape(spec).map(|shape| proto::ModelTensorReshape { shape: shape.to_vec() })
        };
        let input = |spec: &TensorSpec| proto::ModelInput {
            name: spec.name.clone(),
            data_type: data_type(spec.datatype).into(),
            format: self.format(spec).into(),
            dims: self.dims(spec).to_vec(),
            reshape: reshape(spec),
            optional: self.optional.contains(&spec.name),
        };
        let output = |spec: &TensorSpec| proto::ModelOutput {
            name: spec.name.clone(),
            data_type: data_type(spec.datatype).into(),
            dims: self.dims(spec).to_vec(),
            reshape: reshape(spec),
        };
        let sessions = proto::ModelInstanceGroup {
            name: self.group(),
            count: i32::try_from(self.sessions).unwrap_or(i32::MAX),
            kind: Kind::Cpu.into(),
        };
        let config = proto::ModelConfig {
            name: self.name.clone(),
            platform: PLATFORM.to_owned(),
            backend: BACKEND.to_owned(),
            version_policy: Some(proto::ModelVersionPolicy { policy_choice: Some(policy) }),
            max_batch_size: self.max_batch_size(),
            input: self.inputs.iter().map(input).collect(),
            output: self.outputs.iter().map(output).collect(),
            instance_group: vec![sessions],
            dynamic_batching: self.dynamic_batching(),
            model_transaction_policy: Some(proto::ModelTransactionPolicy { decoupled: false }),
        };
        proto::ModelConfigResponse { config: Some(config) }
    }

    /// The versions as Triton numbers them, if all are numbers.
    fn numbered(&self) -> Option<Vec<i64>> {
        self.versions.iter().map(|version| version.parse().ok()).collect()
    }

    fn group(&self) -> String {
        format!("{}_0", self.name)
    }

    fn max_batch_size(&self) -> i32 {
        self.rows_max.map_or(0, |rows| i32::try_from(rows).unwrap_or(i32::MAX))
    }

    fn dynamic_batching(&self) -> Option<proto::ModelDynamicBatching> {
        self.rows_max.map(|_| proto::ModelDynamicBatching {
            preferred_batch_size: self
                .batch_wait
                .iter()
                .filter_map(|wait| i32::try_from(wait.rows).ok())
                .collect(),
            max_queue_delay_microseconds: self
                .batch_wait
                .and_then(|wait| u64::try_from(wait.window.as_micros()).ok())
                .unwrap_or(0),
        })
    }

    fn format(&self, spec: &TensorSpec) -> Format {
        match self.layouts.get(&spec.name) {
            None => Format::None,
            Some(Layout::Nchw) => Format::Nchw,
            Some(Layout::Nhwc) => Format::Nhwc,
        }
    }

    fn tensor<'c>(&'c self, spec: &'c TensorSpec, format: Option<Format>) -> Tensor<'c> {
        let data_type = data_type(spec.datatype).as_str_name();
        let format = format.map(|format| format.as_str_name());
        let reshape = self.reshape(spec).map(|shape| Reshape { shape });
        let optional = self.optional.contains(&spec.name);
        Tensor { name: &spec.name, data_type, format, dims: self.dims(spec), reshape, optional }
    }

    fn dims<'c>(&self, spec: &'c TensorSpec) -> &'c [i64] {
        self.without_rows(&spec.shape)
    }

    fn reshape(&self, spec: &TensorSpec) -> Option<&[i64]> {
        self.reshaped.get(&spec.name).map(|shape| self.without_rows(shape))
    }

    /// A batched model has its rows along the first axis, which `max_batch_size` replaces.
    fn without_rows<'c>(&self, shape: &'c [i64]) -> &'c [i64] {
        let skipped = usize::from(self.rows_max.is_some());
        shape.get(skipped..).unwrap_or_default()
    }
}

/// The type in Triton's configuration: `TYPE_` and the V2 name, except for strings.
fn data_type(datatype: DataType) -> proto::DataType {
    let named = || proto::DataType::from_str_name(&format!("TYPE_{}", datatype.name()));
    if datatype == DataType::Bytes { proto::DataType::TypeString } else { named().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_datatype_has_a_type_in_the_configuration() {
        for datatype in DataType::ALL {
            assert_ne!(data_type(datatype), proto::DataType::TypeInvalid, "{datatype:?}");
        }
    }

    fn spec(name: &str, datatype: DataType, shape: &[i64]) -> TensorSpec {
        TensorSpec { name: name.into(), datatype, shape: shape.to_vec() }
    }

    fn configuration(rows_max: Option<usize>) -> Configuration {
        Configuration {
            name: "fraud".into(),
            versions: vec!["1".into(), "3".into()],
            rows_max,
            batch_wait: Some(BatchWait { rows: 8, window: Duration::from_millis(2) }),
            sessions: 2,
            inputs: vec![spec("x", DataType::Fp32, &[-1, 30])],
            outputs: vec![spec("label", DataType::Bytes, &[-1])],
            optional: Vec::new(),
            reshaped: HashMap::new(),
            layouts: HashMap::new(),
        }
    }

    #[test]
    fn a_model_that_is_batched_has_dims_without_the_first_axis() {
        let page: Value = serde_json::from_slice(&configuration(Some(64)).to_json()).unwrap();
        let wanted = object!({
            "name": "fraud",
            "platform": "onnxruntime_onnx",
            "backend": "onnxruntime",
            "version_policy": {"specific": {"versions": [1, 3]}},
            "max_batch_size": 64,
            "input": [{"name": "x", "data_type": "TYPE_FP32", "format": "FORMAT_NONE", "dims": [30]}],
            "output": [{"name": "label", "data_type": "TYPE_STRING", "dims": []}],
            "instance_group": [{"name": "fraud_0", "kind": "KIND_CPU", "count": 2}],
            "dynamic_batching": {"preferred_batch_size": [8], "max_queue_delay_microseconds": 2000},
            "model_transaction_policy": {"decoupled": false},
            "parameters": {},
        });
        assert_eq!(page, wanted);
    }

    #[test]
    fn a_model_that_is_not_batched_has_whole_dims_and_no_batching() {
        let page: Value = serde_json::from_slice(&configuration(None).to_json()).unwrap();
        assert_eq!((&page["max_batch_size"], &page["input"][0]["dims"]), (&0.into(), &object!([-1, 30])));
        assert_eq!(page.get("dynamic_batching"), None);
        let message = configuration(None).to_message().config.unwrap();
        assert_eq!((message.max_batch_size, message.dynamic_batching), (0, None));
    }

    #[test]
    fn a_tensor_in_another_shape_has_the_model_s_own_in_both_forms() {
        let reshaped = HashMap::from([("x".to_owned(), vec![-1, 5, 6])]);
        let reshaped = Configuration { reshaped, ..configuration(Some(64)) };
        let page: Value = serde_json::from_slice(&reshaped.to_json()).unwrap();
        assert_eq!(page["input"][0]["reshape"], object!({"shape": [5, 6]}));
        assert_eq!(page["output"][0].get("reshape"), None);
        let message = reshaped.to_message().config.unwrap();
        assert_eq!(message.input[0].reshape.as_ref().unwrap().shape, [5, 6]);
        assert_eq!(message.output[0].reshape, None);
    }

    #[test]
    fn an_image_s_layout_is_the_format_of_its_input_in_both_forms() {
        for (layout, name, number) in
            [(Layout::Nhwc, "FORMAT_NHWC", Format::Nhwc), (Layout::Nchw, "FORMAT_NCHW", Format::Nchw)]
        {
            let layouts = HashMap::from([("x".to_owned(), layout)]);
            let image = Configuration { layouts, ..configuration(Some(64)) };
            let page: Value = serde_json::from_slice(&image.to_json()).unwrap();
            assert_eq!((&page["input"][0]["format"], page["output"][0].get("format")), (&name.into(), None));
            assert_eq!(image.to_message().config.unwrap().input[0].format(), number);
        }
    }

    #[test]
    fn the_message_says_what_the_json_says() {
        let message = configuration(Some(64)).to_message().config.unwrap();
        assert_eq!((message.max_batch_size, message.platform.as_str()), (64, PLATFORM));
        assert_eq!(
            (message.input[0].data_type(), &message.input[0].dims),
            (proto::DataType::TypeFp32, &vec![30])
        );
        assert_eq!(message.output[0].data_type(), proto::DataType::TypeString);
        let batching = message.dynamic_batching.unwrap();
        assert_eq!((batching.preferred_batch_size, batching.max_queue_delay_microseconds), (vec![8], 2000));
        assert_eq!(message.instance_group[0].kind(), Kind::Cpu);
        assert_eq!(
            message.model_transaction_policy.unwrap(),
            proto::ModelTransactionPolicy { decoupled: false }
        );
    }

    #[test]
    fn versions_that_are_not_numbers_are_all_served() {
        let named = Configuration { versions: vec!["blue".into()], ..configuration(None) };
        let page: Value = serde_json::from_slice(&named.to_json()).unwrap();
        assert_eq!(page["version_policy"], object!({"all": {}}));
    }
}
