//! Reads a model that is one tree ensemble and what converters put around it, as plain values.
//!
//! Around it may be operators that change no value: Identity, Cast to the type it has, Mul by one. Everything else
//! is unsupported by name, and ONNX Runtime runs the model. The scan has checked the file before; lists are
//! bounded here, because they are larger in memory than in the file.

mod attributes;

use super::graph::{domain, piece_of};
use super::refusal::ScanError;
use super::tensor::shortened;
use super::wire::{Piece, Value};
use attributes::Kind;
use flyball_trees::{Attributes, Labels, Output, Unsupported};
use std::collections::HashMap;

/// More nodes than converters put around an ensemble.
const NODES_MAX: usize = 64;

/// One tree ensemble from the input to the outputs.
#[derive(Debug)]
pub(crate) struct TreeModel {
    pub(crate) attributes: Attributes,
    /// In the order of the graph's outputs.
    pub(crate) outputs: Vec<TreeOutput>,
}

/// What an output of the graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TreeOutput {
    Labels,
    Scores,
}

impl TreeModel {
    /// None: the model has no tree ensemble.
    pub(crate) fn read(model: &[u8]) -> Option<Result<TreeModel, Unsupported>> {
        let graph = piece_of(Piece { bytes: model, at: 0 }, 7)?;
        let nodes = pieces(graph, 1);
        let is_ensemble =
            |node: &Piece<'_>| piece_of(*node, 4).is_some_and(|op| op.bytes.starts_with(b"TreeEnsemble"));
        nodes.iter().any(is_ensemble).then(|| {
            if !pieces(Piece { bytes: model, at: 0 }, 25).is_empty() {
                return Err(unsupported("the model has functions"));
            }
            of_graph(graph, &nodes)
        })
    }
}

/// What a tensor of the graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Input,
    One,
    Output(TreeOutput),
}

struct Node<'a> {
    op: &'a str,
    inputs: Vec<&'a [u8]>,
    outputs: Vec<&'a [u8]>,
    attributes: Vec<Piece<'a>>,
}

fn of_graph<'a>(graph: Piece<'a>, nodes: &[Piece<'a>]) -> Result<TreeModel, Unsupported> {
    if nodes.len() > NODES_MAX {
        return Err(unsupported(format!("the model has {} nodes", nodes.len())));
    }
    let mut roles: HashMap<&[u8], Role> = HashMap::new();
    for constant in pieces(graph, 5) {
        if let Some(name) = piece_of(constant, 8)
            && is_one(constant)?
        {
            roles.insert(name.bytes, Role::One);
        }
    }
    let constants: Vec<_> = pieces(graph, 5).iter().filter_map(|constant| piece_of(*constant, 8)).collect();
    let is_constant = |name: Piece<'_>| constants.iter().any(|constant| constant.bytes == name.bytes);
    let inputs = pieces(graph, 11).into_iter().filter_map(|input| piece_of(input, 1));
    let inputs: Vec<_> = inputs.filter(|name| !is_constant(*name)).collect();
    let [input] = inputs[..] else {
        return Err(unsupported(format!("the model has {} inputs", inputs.len())));
    };
    roles.insert(input.bytes, Role::Input);
    let mut found = None;
    for piece in nodes {
        let node = Node::read(*piece)?;
        let roles_out = match Kind::of(node.op) {
            Some(kind) => {
                if found.is_some()
                    || node.inputs.first().and_then(|name| roles.get(name)) != Some(&Role::Input)
                {
                    return Err(unsupported(
                        "the model computes something before its trees, or has two ensembles",
                    ));
                }
                found = Some(attributes::read(kind, &node.attributes)?);
                match kind {
                    Kind::Classifier => {
                        &[Role::Output(TreeOutput::Labels), Role::Output(TreeOutput::Scores)][..]
                    }
                    Kind::Regressor => &[Role::Output(TreeOutput::Scores)],
                }
            }
            None => &[unchanged(&node, &roles, found.as_ref())?],
        };
        roles.extend(node.outputs.iter().copied().zip(roles_out.iter().copied()));
    }
    let attributes = found.ok_or_else(|| unsupported("the model's trees are in a graph inside it"))?;
    let output = |output: Piece<'a>| match piece_of(output, 1).and_then(|name| roles.get(name.bytes)) {
        Some(&Role::Output(output)) => Ok(output),
        _ => Err(unsupported("an output of the model is neither label nor scores")),
    };
    let outputs = pieces(graph, 12).into_iter().map(output).collect::<Result<_, _>>()?;
    Ok(TreeModel { attributes, outputs })
}

impl<'a> Node<'a> {
    fn read(piece: Piece<'a>) -> Result<Node<'a>, Unsupported> {
        let (mut op, mut of) = ("", "");
        let (mut inputs, mut outputs, mut attributes) = (Vec::new(), Vec::new(), Vec::new());
        for field in piece.fields() {
            match field? {
                (1, value) => inputs.push(value.piece()?.bytes),
                (2, value) => outputs.push(value.piece()?.bytes),
                (4, value) => op = value.piece()?.text()?,
                (5, value) => attributes.push(value.piece()?),
                (7, value) => of = domain(value.piece()?.text()?),
                _ => {}
            }
        }
        let of_ml = op.starts_with("TreeEnsemble");
        if of != if of_ml { "ai.onnx.ml" } else { "" } {
            return Err(unsupported(format!("operator '{}' of domain '{}'", shortened(op), shortened(of))));
        }
        Ok(Node { op, inputs, outputs, attributes })
    }
}

/// The role of a node's output, if it changes no value.
fn unchanged(
    node: &Node<'_>,
    roles: &HashMap<&[u8], Role>,
    ensemble: Option<&Attributes>,
) -> Result<Role, Unsupported> {
    let refuse = || unsupported(format!("operator '{}'", shortened(node.op)));
    let role = |place: usize| node.inputs.get(place).and_then(|name| roles.get(name)).copied();
    match (node.op, role(0), role(1)) {
        ("Identity", Some(role), None) => Ok(role),
        ("Mul", Some(scores @ Role::Output(TreeOutput::Scores)), Some(Role::One))
        | ("Mul", Some(Role::One), Some(scores @ Role::Output(TreeOutput::Scores))) => Ok(scores),
        ("Cast", Some(role), None) => {
            let texts =
                matches!(ensemble, Some(Attributes { output: Output::Classes(Labels::Texts(_)), .. }));
            let has = match role {
                Role::Output(TreeOutput::Labels) if texts => STRING,
                Role::Output(TreeOutput::Labels) => INT64,
                Role::Output(TreeOutput::Scores) | Role::Input | Role::One => FLOAT,
            };
            let to =
                node.attributes.iter().find(|it| piece_of(**it, 1).is_some_and(|name| name.bytes == b"to"));
            let to = to.and_then(|it| it.fields().map_while(Result::ok).find(|(number, _)| *number == 3));
            match to {
                Some((_, Value::Number(to))) if to == has => Ok(role),
                _ => Err(unsupported("a Cast to another type")),
            }
        }
        _ => Err(refuse()),
    }
}

/// `TensorProto.DataType`.
const FLOAT: u64 = 1;
const INT64: u64 = 7;
const STRING: u64 = 8;

/// Whether a constant is the number 1, so that multiplying with it changes neither values nor shapes.
fn is_one(constant: Piece<'_>) -> Result<bool, Unsupported> {
    let (mut axes, mut data_type, mut value) = (Vec::new(), 0, None);
    for field in constant.fields() {
        match field? {
            (1, Value::Number(axis)) => axes.push(axis),
            (1, Value::Piece(packed)) => axes.extend(packed.bytes.iter().map(|&byte| u64::from(byte))),
            (2, number) => data_type = number.number()?,
            (4 | 9, Value::Piece(packed)) => value = Some(packed.bytes),
            (4, Value::Fixed(bytes)) => value = Some(bytes),
            _ => {}
        }
    }
    Ok(data_type == FLOAT && matches!(axes[..], [] | [1]) && value == Some(&1.0_f32.to_le_bytes()))
}

fn pieces(piece: Piece<'_>, wanted: u32) -> Vec<Piece<'_>> {
    let fields = piece.fields().map_while(Result::ok).filter(|(number, _)| *number == wanted);
    fields.filter_map(|(_, value)| value.piece().ok()).collect()
}

fn unsupported(what: impl Into<String>) -> Unsupported {
    Unsupported(what.into())
}

impl From<ScanError> for Unsupported {
    fn from(error: ScanError) -> Unsupported {
        Unsupported(error.to_string())
    }
}
