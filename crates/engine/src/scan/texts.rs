//! Whether a model only moves its texts: then their bytes need not be UTF-8, for no operator reads them.
//!
//! Follows names from the graph's string inputs through its nodes. Where that is not certain, the answer is no.

use super::graph::{domain, piece_of};
use super::wire::Piece;
use std::collections::HashSet;

/// Operators that copy elements without looking at them, or look at shapes alone.
const MOVES: &str = "ArrayFeatureExtractor Compress Concat Expand Flatten Gather GatherElements GatherND Identity Pad Reshape \
                     ReverseSequence ScatterElements ScatterND Shape Size Slice Split Squeeze Tile Transpose Unsqueeze";

/// The names of a node's tensors, and what it does with the elements.
struct Node<'a> {
    inputs: Vec<&'a [u8]>,
    outputs: Vec<&'a [u8]>,
    moves: bool,
    /// It gives their number, not the elements.
    counts: bool,
}

/// Whether no operator of the graph reads the elements of the tensors called `texts`.
pub(super) fn only_moved(graph: Piece<'_>, texts: &[&str]) -> bool {
    let nodes = graph.fields().map_while(Result::ok).filter(|(number, _)| *number == 1);
    let nodes: Option<Vec<_>> = nodes.map(|(_, value)| node(value.piece().ok()?)).collect();
    let Some(nodes) = nodes else { return false };
    let mut reached: HashSet<&[u8]> = texts.iter().map(|name| name.as_bytes()).collect();
    // Nodes are in the order of their data, as ONNX requires; if they are not, another pass finds more.
    loop {
        let before = reached.len();
        for node in &nodes {
            if node.inputs.iter().any(|name| reached.contains(name)) {
                if !node.moves {
                    return false;
                }
                if !node.counts {
                    reached.extend(&node.outputs);
                }
            }
        }
        if reached.len() == before {
            return true;
        }
    }
}

/// None for a node with graphs inside, which may use any tensor.
fn node(piece: Piece<'_>) -> Option<Node<'_>> {
    let mut node = Node { inputs: Vec::new(), outputs: Vec::new(), moves: false, counts: false };
    let (mut op, mut of) = ("", "");
    for field in piece.fields().map_while(Result::ok) {
        match field {
            (1, value) => node.inputs.push(value.piece().ok()?.bytes),
            (2, value) => node.outputs.push(value.piece().ok()?.bytes),
            (4, value) => op = value.piece().ok()?.text().ok()?,
            (7, value) => of = domain(value.piece().ok()?.text().ok()?),
            (5, value) => {
                let attribute = value.piece().ok()?;
                if piece_of(attribute, 6).or(piece_of(attribute, 11)).is_some() {
                    return None;
                }
            }
            _ => {}
        }
    }
    node.moves = matches!(of, "" | "ai.onnx.ml") && MOVES.split(' ').any(|moving| moving == op);
    node.counts = matches!(op, "Shape" | "Size");
    Some(node)
}
