//! A first look at a model's protobuf, before ONNX Runtime sees it: opsets, size of the graph, and where its weights
//! lie. Only the fields that are looked at are declared; prost skips the others without copying.

use crate::Refusal;
use crate::declared::{self, DeclaredTensor, ValueInfoProto};
use prost::Message;
use serde::Serialize;
use std::collections::{BTreeSet, HashSet};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Opset {
    pub domain: String,
    pub version: i64,
}

/// What a model says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScanFacts {
    pub opset: Vec<Opset>,
    pub producer: String,
    pub nodes: usize,
    pub inputs: Vec<DeclaredTensor>,
    pub outputs: Vec<DeclaredTensor>,
    /// Whether it has loops: how long it runs then depends on its input, and no measurement tells.
    #[serde(skip)]
    pub loops: bool,
    /// Names of the files beside the model that hold weights; each a plain file name.
    #[serde(skip)]
    pub external_data: BTreeSet<String>,
}

impl ScanFacts {
    pub(crate) fn of(model: &[u8]) -> Result<ScanFacts, Refusal> {
        let model = ModelProto::decode(model).map_err(|error| Refusal::NotOnnx(error.to_string()))?;
        let graph = model.graph.ok_or_else(|| Refusal::NotOnnx("it has no graph".to_owned()))?;
        let mut seen = Seen::default();
        seen.graph(&graph)?;
        for node in model.functions.iter().flat_map(|function| &function.node) {
            seen.node(node)?;
        }
        let weights = graph.initializer.iter().map(|tensor| tensor.name.as_str()).collect();
        let inputs = declared::tensors(&graph.input, &weights);
        let opset = model.opset_import.into_iter().map(|import| Opset {
            domain: if import.domain.is_empty() { "ai.onnx".to_owned() } else { import.domain },
            version: import.version,
        });
        Ok(ScanFacts {
            opset: opset.collect(),
            producer: format!("{} {}", model.producer_name, model.producer_version).trim().to_owned(),
            nodes: seen.nodes,
            inputs,
            outputs: declared::tensors(&graph.output, &HashSet::new()),
            loops: seen.loops,
            external_data: seen.external_data,
        })
    }
}

#[derive(Default)]
struct Seen {
    nodes: usize,
    loops: bool,
    external_data: BTreeSet<String>,
}

impl Seen {
    fn graph(&mut self, graph: &GraphProto) -> Result<(), Refusal> {
        let sparse = graph.sparse_initializer.iter().flat_map(|sparse| [&sparse.values, &sparse.indices]);
        for tensor in graph.initializer.iter().chain(sparse.flatten()) {
            self.tensor(tensor)?;
        }
        graph.node.iter().try_for_each(|node| self.node(node))
    }

    fn node(&mut self, node: &NodeProto) -> Result<(), Refusal> {
        self.nodes += 1;
        self.loops |= matches!(node.op_type.as_str(), "Loop" | "Scan");
        for attribute in &node.attribute {
            attribute.t.iter().chain(&attribute.tensors).try_for_each(|tensor| self.tensor(tensor))?;
            attribute.g.iter().chain(&attribute.graphs).try_for_each(|graph| self.graph(graph))?;
        }
        Ok(())
    }

    fn tensor(&mut self, tensor: &TensorProto) -> Result<(), Refusal> {
        const EXTERNAL: i32 = 1;
        // Entries without the flag are refused as well: loaders have disagreed on which of the two counts.
        if tensor.data_location != EXTERNAL && tensor.external_data.is_empty() {
            return Ok(());
        }
        let location = tensor.external_data.iter().find(|entry| entry.key == "location");
        let name = location.map(|entry| entry.value.as_str()).unwrap_or_default();
        // `*/_ORT_MEM_ADDR_/*` would let a file name an address in this process's memory; it has slashes, so the
        // rule for plain names catches it too.
        if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\\', '\0']) {
            return Err(Refusal::ExternalDataOutside(name.to_owned()));
        }
        self.external_data.insert(name.to_owned());
        Ok(())
    }
}

#[derive(Clone, PartialEq, Message)]
struct ModelProto {
    #[prost(string, tag = "2")]
    producer_name: String,
    #[prost(string, tag = "3")]
    producer_version: String,
    #[prost(message, optional, tag = "7")]
    graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "25")]
    functions: Vec<FunctionProto>,
}

#[derive(Clone, PartialEq, Message)]
struct OperatorSetIdProto {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(int64, tag = "2")]
    version: i64,
}

#[derive(Clone, PartialEq, Message)]
struct FunctionProto {
    #[prost(message, repeated, tag = "7")]
    node: Vec<NodeProto>,
}

#[derive(Clone, PartialEq, Message)]
struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    node: Vec<NodeProto>,
    #[prost(message, repeated, tag = "5")]
    initializer: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    output: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "15")]
    sparse_initializer: Vec<SparseTensorProto>,
}

#[derive(Clone, PartialEq, Message)]
struct NodeProto {
    #[prost(string, tag = "4")]
    op_type: String,
    #[prost(message, repeated, tag = "5")]
    attribute: Vec<AttributeProto>,
}

#[derive(Clone, PartialEq, Message)]
struct AttributeProto {
    #[prost(message, optional, tag = "5")]
    t: Option<TensorProto>,
    #[prost(message, optional, tag = "6")]
    g: Option<GraphProto>,
    #[prost(message, repeated, tag = "10")]
    tensors: Vec<TensorProto>,
    #[prost(message, repeated, tag = "11")]
    graphs: Vec<GraphProto>,
}

#[derive(Clone, PartialEq, Message)]
struct SparseTensorProto {
    #[prost(message, optional, tag = "1")]
    values: Option<TensorProto>,
    #[prost(message, optional, tag = "2")]
    indices: Option<TensorProto>,
}

#[derive(Clone, PartialEq, Message)]
struct TensorProto {
    #[prost(string, tag = "8")]
    name: String,
    #[prost(message, repeated, tag = "13")]
    external_data: Vec<StringStringEntryProto>,
    #[prost(int32, tag = "14")]
    data_location: i32,
}

#[derive(Clone, PartialEq, Message)]
struct StringStringEntryProto {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model_with_weights_at(location: &str) -> Vec<u8> {
        let entry = |key: &str, value: &str| StringStringEntryProto { key: key.into(), value: value.into() };
        let tensor = TensorProto {
            external_data: vec![entry("location", location), entry("length", "8")],
            data_location: 1,
            ..TensorProto::default()
        };
        let inner = GraphProto { initializer: vec![tensor], ..GraphProto::default() };
        let attribute = vec![AttributeProto { g: Some(inner), ..AttributeProto::default() }];
        let node = NodeProto { op_type: "Loop".into(), attribute };
        let graph = GraphProto { node: vec![node], ..GraphProto::default() };
        ModelProto { graph: Some(graph), ..ModelProto::default() }.encode_to_vec()
    }

    #[test]
    fn external_data_is_found_in_subgraphs_too() {
        let facts = ScanFacts::of(&model_with_weights_at("w.bin")).unwrap();
        assert_eq!(facts.external_data, BTreeSet::from(["w.bin".to_owned()]));
        assert_eq!(facts.nodes, 1);
        assert!(facts.loops);
    }

    #[test]
    fn external_data_anywhere_but_beside_the_model_is_refused() {
        for location in ["../w.bin", "/etc/passwd", "a/b", "*/_ORT_MEM_ADDR_/*", "..", "", "a\\b"] {
            let refusal = ScanFacts::of(&model_with_weights_at(location)).unwrap_err();
            assert!(matches!(refusal, Refusal::ExternalDataOutside(_)), "{location}: {refusal}");
        }
    }

    #[test]
    fn bytes_that_are_no_model_are_refused() {
        for bytes in [&b""[..], b"not a model", b"\xff\xff\xff"] {
            assert!(matches!(ScanFacts::of(bytes).unwrap_err(), Refusal::NotOnnx(_)));
        }
    }
}
