//! Graphs, nodes and attributes: the operators that a model uses, and their nesting.
//!
//! Every piece is visited once; only counts and a few names are stored.

use super::functions::Body;
use super::refusal::{At, Finding, ScanError};
use super::values::{self, NodeTensors, Values};
use super::wire::{Piece, Value, set_once};
use super::{DEPTH_ADVICE, Scan, over};

/// The domains of ONNX Runtime's CPU provider. A model's own functions may have any domain.
const DOMAINS: [&str; 4] = ["", "ai.onnx.ml", "com.microsoft", "com.microsoft.nchwc"];
/// Operators of those domains that pass a part of the file to another compiler or library.
const FORBIDDEN: [&str; 2] = ["EPContext", "Snpe"];
const EXTENSIONS: &str = "it needs the library of onnxruntime-extensions, and no library is loaded for a model; do this step before \
                          the model, or export without it";
const CUSTOM: &str =
    "custom operators need a library, and none is loaded for a model; export with operators of ONNX";
const COMPILED: &str = "give the ONNX file that was compiled";
const ATTRIBUTES_MAX: u64 = 1024;
const TYPES_DEPTH_MAX: u64 = 16;

/// The canonical name of a domain: ONNX's own has two.
pub(super) fn domain(written: &str) -> &str {
    if written == "ai.onnx" { "" } else { written }
}

/// The position of the scan.
#[derive(Default)]
pub(super) struct GraphContext<'a> {
    pub(super) body: Body,
    values: Values<'a>,
    depth: u64,
}

impl<'a> Scan<'a> {
    pub(super) fn graph(&mut self, piece: Piece<'a>, inside: &mut GraphContext<'a>) -> Result<(), ScanError> {
        name_values(piece, &mut inside.values)?;
        let (mut nodes, mut values) = (0u64, 0u64);
        for field in piece.fields() {
            match field? {
                (1, value) => {
                    self.node(value.piece()?, nodes, inside)?;
                    nodes += 1;
                }
                (5, value) => {
                    self.initialiser()?;
                    self.tensor(value.piece()?)?;
                }
                (15, value) => {
                    self.initialiser()?;
                    self.sparse_tensor(value.piece()?)?;
                }
                (11..=13, value) => {
                    self.value_info(value.piece()?).at(|| format!("value {values} of a graph"))?;
                    values += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn initialiser(&mut self) -> Result<(), ScanError> {
        self.facts.initialisers += 1;
        let most = self.limits.initialisers_max;
        over("initialisers", self.facts.initialisers, most, "join the weights of the model")
    }

    pub(super) fn node(
        &mut self,
        piece: Piece<'a>,
        number: u64,
        inside: &mut GraphContext<'a>,
    ) -> Result<(), ScanError> {
        self.facts.nodes += 1;
        over("nodes", self.facts.nodes, self.limits.nodes_max, "export a smaller model")?;
        let looked = self.look(piece, inside);
        looked.at(|| {
            let shown = |wanted| piece_of(piece, wanted).map(Piece::shown).unwrap_or_default();
            format!("node {number} '{}' ({})", shown(3), shown(4))
        })
    }

    fn look(&mut self, piece: Piece<'a>, inside: &mut GraphContext<'a>) -> Result<(), ScanError> {
        let (mut op, mut of, mut overload) = (None, None, None);
        let (mut attributes, mut ends) = (0u64, NodeTensors::default());
        let mut has_graphs = false;
        for field in piece.fields() {
            match field? {
                (1, value) => ends.inputs.push(value.piece()?.bytes),
                (2, value) => ends.outputs.push(value.piece()?.bytes),
                (4, value) => set_once(&mut op, value.piece()?.text()?, "the operator")?,
                (7, value) => set_once(&mut of, domain(value.piece()?.text()?), "the domain")?,
                (8, value) => set_once(&mut overload, value.piece()?.text()?, "the overload")?,
                (5, value) => {
                    attributes += 1;
                    over("attributes of a node", attributes, ATTRIBUTES_MAX, "export the model again")?;
                    let attribute = value.piece()?;
                    has_graphs |= piece_of(attribute, 6).or(piece_of(attribute, 11)).is_some();
                    self.attribute(attribute, inside)?;
                }
                _ => {}
            }
        }
        let [op, of, overload] = [op, of, overload].map(Option::unwrap_or_default);
        if let Some(&called) = self.functions.get(&(of, op, overload)) {
            inside.body.calls.push((called, inside.depth));
            inside.values.pass_unknown(&ends);
            return Ok(());
        }
        inside.body.nodes += 1;
        self.facts.value_dependent |= values::loops(op) || inside.values.size_depends(&ends, op);
        if has_graphs {
            inside.values.pass_unknown(&ends)
        } else {
            inside.values.pass(&ends, op)
        }
        self.operator(op, of)
    }

    fn operator(&mut self, op: &str, of: &str) -> Result<(), ScanError> {
        if !DOMAINS.contains(&of) {
            let advice = if of == "ai.onnx.contrib" { EXTENSIONS } else { CUSTOM };
            let allowed = format!("ai.onnx, {}", DOMAINS[1..].join(", "));
            let (op, domain) = (super::tensor::shortened(op), super::tensor::shortened(of));
            return Err(Finding::ForeignOperator { op, domain, allowed, advice }.into());
        }
        if FORBIDDEN.contains(&op) && of == "com.microsoft" {
            return Err(Finding::ForbiddenOperator { op: op.to_owned(), advice: COMPILED }.into());
        }
        let name = if of.is_empty() { "ai.onnx" } else { of };
        if !self.facts.domains.contains(name) {
            self.facts.domains.insert(name.to_owned());
        }
        Ok(())
    }

    pub(super) fn attribute(
        &mut self,
        piece: Piece<'a>,
        inside: &mut GraphContext<'a>,
    ) -> Result<(), ScanError> {
        let looked = self.look_at_attribute(piece, inside);
        looked.at(|| format!("attribute '{}'", piece_of(piece, 1).map(Piece::shown).unwrap_or_default()))
    }

    fn look_at_attribute(
        &mut self,
        piece: Piece<'a>,
        inside: &mut GraphContext<'a>,
    ) -> Result<(), ScanError> {
        let mut once = [None; 4];
        let mut plain_bytes = 0u64;
        for field in piece.fields() {
            let (number, value) = field?;
            match number {
                5 => set_once(&mut once[0], (), "the tensor")?,
                6 => set_once(&mut once[1], (), "the graph")?,
                22 => set_once(&mut once[2], (), "the sparse tensor")?,
                14 => set_once(&mut once[3], (), "the type")?,
                _ => {}
            }
            match number {
                5 | 10 => self.tensor(value.piece()?)?,
                6 | 11 => self.subgraph(value.piece()?, inside)?,
                22 | 23 => self.sparse_tensor(value.piece()?)?,
                14 | 15 => types(value.piece()?, 1)?,
                _ => plain_bytes += value.length(),
            }
        }
        let most = self.limits.attribute_bytes_max;
        over("bytes of an attribute", plain_bytes, most, "put large constants into initialisers")
    }

    fn subgraph(&mut self, piece: Piece<'a>, inside: &mut GraphContext<'a>) -> Result<(), ScanError> {
        inside.depth += 1;
        over("graphs inside one another", inside.depth, self.limits.depth_max, DEPTH_ADVICE)?;
        inside.body.depth = inside.body.depth.max(inside.depth);
        self.graph(piece, inside)?;
        inside.depth -= 1;
        Ok(())
    }

    pub(super) fn function(&mut self, piece: Piece<'a>) -> Result<Body, ScanError> {
        let (mut inside, mut nodes) = (GraphContext::default(), 0);
        for field in piece.fields() {
            match field? {
                (7, value) => {
                    self.node(value.piece()?, nodes, &mut inside)?;
                    nodes += 1;
                }
                (11, value) => self.attribute(value.piece()?, &mut inside)?,
                (12, value) => self.value_info(value.piece()?)?,
                _ => {}
            }
        }
        Ok(inside.body)
    }

    fn value_info(&mut self, piece: Piece<'a>) -> Result<(), ScanError> {
        for field in piece.fields() {
            if let (2, value) = field? {
                types(value.piece()?, 1)?;
            }
        }
        Ok(())
    }
}

/// Nested sequences, maps and so on: readers recurse into them.
fn types(piece: Piece<'_>, depth: u64) -> Result<(), ScanError> {
    over("types inside one another", depth, TYPES_DEPTH_MAX, "export the model with plain tensors")?;
    for field in piece.fields() {
        let (number, value) = field?;
        // Sequence, map, optional.
        let Value::Piece(of) = value else { continue };
        if !matches!(number, 4 | 5 | 9) {
            continue;
        }
        let inner = if number == 5 { 2 } else { 1 };
        for field in of.fields() {
            match field? {
                (number, Value::Piece(element)) if number == inner => types(element, depth + 1)?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// The tensors that a graph starts with. Constants follow the nodes in a file, so this precedes the walk.
fn name_values<'a>(graph: Piece<'a>, values: &mut Values<'a>) -> Result<(), ScanError> {
    for field in graph.fields() {
        match field? {
            (5, value) => piece_of(value.piece()?, 8).into_iter().for_each(|name| values.constant(name)),
            (15, value) => {
                let name = piece_of(value.piece()?, 1).and_then(|tensor| piece_of(tensor, 8));
                name.into_iter().for_each(|name| values.constant(name));
            }
            _ => {}
        }
    }
    for field in graph.fields() {
        if let (11, value) = field? {
            piece_of(value.piece()?, 1).into_iter().for_each(|name| values.input(name));
        }
    }
    Ok(())
}

/// A text or submessage; the last of several, as readers choose it.
pub(super) fn piece_of(piece: Piece<'_>, wanted: u32) -> Option<Piece<'_>> {
    piece.fields().map_while(Result::ok).filter(|(number, _)| *number == wanted).last()?.1.piece().ok()
}
