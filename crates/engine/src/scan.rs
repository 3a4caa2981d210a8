//! Scans a model's file before ONNX Runtime sees it.
//!
//! Checks format, size, operators and the location of weights. Rejects whatever exceeds the limits or would
//! make a runtime read anything but the model's own files.
//!
//! Walks protobuf's wire format in place (`scan/wire.rs`): weights are skipped, never copied, and memory is
//! bounded by the limits. Must not know how a model is loaded or run.

mod functions;
mod graph;
mod magic;
mod refusal;
mod tensor;
mod texts;
mod tree_model;
mod values;
mod wire;

use crate::Refusal;
use crate::declared::{self, DeclaredTensor, ValueInfoProto};
use flyball_core::DataType;
use functions::{Expansion, FunctionId};
use graph::GraphContext;
use prost::Message;
use refusal::{At, ScanError};
pub use refusal::{Finding, ScanRefusal};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
pub(crate) use tree_model::{TreeModel, TreeOutput};
use wire::{Piece, set_once};

/// Limits of a model. The defaults are far above what decisions need, and far below what harms a server.
#[derive(Clone, Copy, Debug)]
pub struct ScanLimits {
    /// The file itself; more weights go into external files.
    pub file_bytes_max: u64,
    /// In all graphs, and again with the model's functions expanded.
    pub nodes_max: u64,
    /// Nested graphs. Protobuf's readers stop at 100 messages, which are 32 graphs.
    pub depth_max: u64,
    pub initialisers_max: u64,
    /// In the file and external. `MemoryBudget` limits what fits into memory.
    pub weight_bytes_max: u64,
    pub attribute_bytes_max: u64,
    pub functions_max: u64,
    pub external_files_max: u64,
}

impl Default for ScanLimits {
    fn default() -> ScanLimits {
        ScanLimits {
            file_bytes_max: i32::MAX as u64,
            nodes_max: 200_000,
            depth_max: 32,
            initialisers_max: 200_000,
            weight_bytes_max: 64 << 30,
            attribute_bytes_max: 512 << 20,
            functions_max: 10_000,
            external_files_max: 1000,
        }
    }
}

impl ScanLimits {
    /// Call it before reading a file.
    pub fn file(&self, bytes: u64) -> Result<(), Refusal> {
        let advice = "save large weights beside the model: onnx.save_model(…, save_as_external_data=True)";
        Ok(over("bytes of the model's file", bytes, self.file_bytes_max, advice)
            .map_err(|trouble| *trouble)?)
    }
}

const DEPTH_ADVICE: &str = "export a flatter model";
const DECLARED_MAX: u64 = 10_000;
const DECLARED_ADVICE: &str = "join them into fewer tensors";
const DECLARED_BYTES_MAX: u64 = 64 << 10;
const ENTRIES_MAX: u64 = 1000;
/// Maximum inputs that may be left out.
const OPTIONAL_MAX: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Opset {
    pub domain: String,
    pub version: i64,
}

/// Facts about a model from its file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ScanFacts {
    pub opset: Vec<Opset>,
    pub producer: String,
    pub nodes: u64,
    /// With the model's functions expanded where they are called.
    pub nodes_expanded: u64,
    /// Nested graphs; 0: none.
    pub depth: u64,
    pub functions: u64,
    pub initialisers: u64,
    pub weight_bytes: u64,
    /// Domains of the operators that it uses.
    pub domains: BTreeSet<String>,
    pub inputs: Vec<DeclaredTensor>,
    pub outputs: Vec<DeclaredTensor>,
    /// Constants that are declared as inputs too, so that a client could send another value. Empty if there are more
    /// than `OPTIONAL_MAX`: then the file lists its weights among the inputs, as old ones do.
    pub optional_inputs: Vec<DeclaredTensor>,
    /// The run time depends on input values, so measurements do not predict it.
    ///
    /// The model has loops, or makes tensors whose sizes are computed from these values.
    pub value_dependent: bool,
    /// No operator reads the elements of BYTES inputs, so they may be any bytes. True without such inputs.
    pub moves_texts: bool,
    /// The external files with weights: plain file names with the required sizes.
    pub external_data: BTreeMap<String, u64>,
}

impl ScanFacts {
    pub fn of(model: &[u8], limits: &ScanLimits) -> Result<ScanFacts, Refusal> {
        limits.file(model.len() as u64)?;
        Ok(scan(model, limits).map_err(|trouble| *trouble)?)
    }
}

/// The state of one scan.
struct Scan<'a> {
    limits: &'a ScanLimits,
    functions: HashMap<FunctionId<'a>, usize>,
    facts: ScanFacts,
}

fn scan(bytes: &[u8], limits: &ScanLimits) -> Result<ScanFacts, ScanError> {
    if bytes.is_empty() {
        return Err(Finding::malformed("the file is empty"));
    }
    if let Some(foreign) = magic::foreign(bytes) {
        return Err(foreign.into());
    }
    let model = Model::read(Piece { bytes, at: 0 }, limits)?;
    let graph = model.graph.ok_or_else(|| Finding::malformed("it has no graph"))?;
    let mut scan = Scan { limits, functions: functions::named(&model.functions)?, facts: model.facts };
    let mut inside = GraphContext::default();
    scan.graph(graph, &mut inside)?;
    let bodies = model.functions.iter().enumerate();
    let bodies =
        bodies.map(|(number, function)| scan.function(*function).at(|| format!("function {number}")));
    let bodies: Vec<_> = bodies.collect::<Result<_, _>>()?;
    let mut expansion = Expansion::new(&bodies, limits.nodes_max, limits.depth_max);
    let (nodes, depth) = expansion.of(&inside.body, 0)?;
    let mut facts = scan.facts;
    (facts.nodes_expanded, facts.depth) = (nodes, depth);
    declare(graph, &mut facts)?;
    let texts = facts.inputs.iter().filter(|input| input.datatype == Some(DataType::Bytes));
    let texts: Vec<_> = texts.map(|input| &*input.name).collect();
    // A function of the model may have the name of an operator.
    facts.moves_texts = texts.is_empty() || (facts.functions == 0 && texts::only_moved(graph, &texts));
    Ok(facts)
}

/// The outermost message.
struct Model<'a> {
    graph: Option<Piece<'a>>,
    functions: Vec<Piece<'a>>,
    facts: ScanFacts,
}

impl<'a> Model<'a> {
    fn read(piece: Piece<'a>, limits: &ScanLimits) -> Result<Model<'a>, ScanError> {
        let mut model = Model { graph: None, functions: Vec::new(), facts: ScanFacts::default() };
        let mut entries = 0;
        let (mut producer, mut version) = (String::new(), String::new());
        for field in piece.fields() {
            match field? {
                (2, value) => producer = value.piece()?.shown(),
                (3, value) => version = value.piece()?.shown(),
                (7, value) => set_once(&mut model.graph, value.piece()?, "the graph")?,
                (8, value) => {
                    model.facts.opset.push(opset(value.piece()?)?);
                    let opsets = model.facts.opset.len() as u64;
                    over("imports of operator sets", opsets, ENTRIES_MAX, "export the model again")?;
                }
                (14, value) => {
                    entries += 1;
                    over("entries of metadata", entries, ENTRIES_MAX, "keep such facts beside the model")?;
                    metadata(value.piece()?)?;
                }
                (20, _) => return Err(Finding::Training.into()),
                (25, value) => {
                    model.functions.push(value.piece()?);
                    let functions = model.functions.len() as u64;
                    over("functions", functions, limits.functions_max, "export the model without functions")?;
                }
                _ => {}
            }
        }
        model.facts.producer = format!("{producer} {version}").trim().to_owned();
        model.facts.functions = model.functions.len() as u64;
        Ok(model)
    }
}

fn opset(piece: Piece<'_>) -> Result<Opset, ScanError> {
    let (mut domain, mut version) = (String::new(), 0);
    for field in piece.fields() {
        match field? {
            (1, value) => domain = value.piece()?.shown(),
            (2, value) => version = value.number()? as i64,
            _ => {}
        }
    }
    Ok(Opset { domain: if domain.is_empty() { "ai.onnx".to_owned() } else { domain }, version })
}

/// `ort_config` contains session options, including libraries of custom operators, for servers that obey it.
fn metadata(piece: Piece<'_>) -> Result<(), ScanError> {
    let (key, value) = tensor::entry(piece)?;
    let lower = key.to_ascii_lowercase();
    let library =
        [".so", ".dll", ".dylib"].iter().any(|end| value.trim_end().to_ascii_lowercase().ends_with(end));
    if lower == "ort_config" || lower.contains("custom_op") || lower.contains("session_options") || library {
        return Err(Finding::Settings(tensor::shortened(key)).into());
    }
    Ok(())
}

/// Inputs and outputs, without the weights that older files list among the inputs.
fn declare(graph: Piece<'_>, facts: &mut ScanFacts) -> Result<(), ScanError> {
    let (mut inputs, mut outputs, mut weights) = (Vec::new(), Vec::new(), HashSet::new());
    let inputs_max = facts.initialisers + DECLARED_MAX;
    for field in graph.fields() {
        let (number, value) = field?;
        match number {
            5 => weights.extend(name(value.piece()?, 8)?),
            11 => {
                inputs.push(value.piece()?);
                over("inputs, weights among them", inputs.len() as u64, inputs_max, DECLARED_ADVICE)?;
            }
            12 => {
                outputs.push(value.piece()?);
                over("outputs", outputs.len() as u64, DECLARED_MAX, DECLARED_ADVICE)?;
            }
            _ => {}
        }
    }
    let constants =
        inputs.iter().filter(|&&input| matches!(name(input, 1), Ok(Some(name)) if weights.contains(name)));
    if constants.clone().count() <= OPTIONAL_MAX {
        facts.optional_inputs = constants.map(|&input| declared(input)).collect::<Result<_, _>>()?;
    }
    for input in inputs {
        if !name(input, 1)?.is_some_and(|name| weights.contains(name)) {
            facts.inputs.push(declared(input)?);
            over("inputs", facts.inputs.len() as u64, DECLARED_MAX, DECLARED_ADVICE)?;
        }
    }
    facts.outputs = outputs.into_iter().map(declared).collect::<Result<_, _>>()?;
    Ok(())
}

fn declared(piece: Piece<'_>) -> Result<DeclaredTensor, ScanError> {
    let length = piece.bytes.len() as u64;
    over("bytes of an input's declaration", length, DECLARED_BYTES_MAX, "export the model again")?;
    let value = ValueInfoProto::decode(piece.bytes).map_err(|error| Finding::malformed(error.to_string()))?;
    Ok(declared::tensor(&value))
}

fn name(piece: Piece<'_>, wanted: u32) -> Result<Option<&str>, ScanError> {
    let mut found = None;
    for field in piece.fields() {
        let (number, value) = field?;
        if number == wanted {
            found = Some(value.piece()?.text()?);
        }
    }
    Ok(found)
}

fn over(what: &'static str, is: u64, most: u64, advice: &'static str) -> Result<(), ScanError> {
    if is <= most { Ok(()) } else { Err(Finding::OverLimit { what, is, most, advice }.into()) }
}

#[cfg(test)]
mod tests;
