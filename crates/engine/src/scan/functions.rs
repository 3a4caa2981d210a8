//! The size of a model with its functions expanded, as runtimes do.
//!
//! A few hundred bytes of functions that call each other twice would be millions of nodes.

use super::over;
use super::refusal::{Finding, ScanError};
use super::wire::Piece;
use std::collections::HashMap;

/// (domain, name, overload)
pub(super) type FunctionId<'a> = (&'a str, &'a str, &'a str);

const CHAIN_MAX: u64 = 64;
const NODES: &str = "nodes, with all functions written out";
const NODES_ADVICE: &str = "export the model without functions, or a smaller one";

/// A graph or a function, with all nested graphs.
#[derive(Default)]
pub(super) struct Body {
    pub(super) nodes: u64,
    /// The nesting depth of its graphs.
    pub(super) depth: u64,
    /// The called functions and their depth.
    pub(super) calls: Vec<(usize, u64)>,
}

/// The function names, so that calls are recognised.
pub(super) fn named<'a>(functions: &[Piece<'a>]) -> Result<HashMap<FunctionId<'a>, usize>, ScanError> {
    let mut named = HashMap::with_capacity(functions.len());
    for (place, function) in functions.iter().enumerate() {
        let id = id(*function)?;
        if named.insert(id, place).is_some() {
            return Err(Finding::malformed(format!("function '{}' is defined twice", id.1)));
        }
    }
    Ok(named)
}

fn id<'a>(function: Piece<'a>) -> Result<FunctionId<'a>, ScanError> {
    let (mut domain, mut name, mut overload) = ("", "", "");
    for field in function.fields() {
        match field? {
            (1, value) => name = value.piece()?.text()?,
            (10, value) => domain = value.piece()?.text()?,
            (13, value) => overload = value.piece()?.text()?,
            _ => {}
        }
    }
    Ok((super::graph::domain(domain), name, overload))
}

#[derive(Clone, Copy)]
enum Written {
    Not,
    /// Its calls are being expanded.
    Opened,
    As {
        nodes: u64,
        depth: u64,
    },
}

/// The nodes and depth of `main` with every call expanded.
pub(super) struct Expansion<'b> {
    bodies: &'b [Body],
    written: Vec<Written>,
    nodes_max: u64,
    depth_max: u64,
}

impl<'b> Expansion<'b> {
    pub(super) fn new(bodies: &'b [Body], nodes_max: u64, depth_max: u64) -> Expansion<'b> {
        Expansion { bodies, written: vec![Written::Not; bodies.len()], nodes_max, depth_max }
    }

    pub(super) fn of(&mut self, body: &Body, chain: u64) -> Result<(u64, u64), ScanError> {
        let advice = "export the model without functions";
        over("functions that call one another in a row", chain, CHAIN_MAX, advice)?;
        let (mut nodes, mut depth) = (body.nodes, body.depth);
        for &(called, at) in &body.calls {
            let (more, deeper) = match self.written[called] {
                Written::As { nodes, depth } => (nodes, depth),
                Written::Opened => return Err(Finding::RecursiveFunction(called).into()),
                Written::Not => {
                    self.written[called] = Written::Opened;
                    let bodies = self.bodies;
                    let (nodes, depth) = self.of(&bodies[called], chain + 1)?;
                    self.written[called] = Written::As { nodes, depth };
                    (nodes, depth)
                }
            };
            nodes = nodes.saturating_add(more);
            depth = depth.max(at + deeper);
        }
        over(NODES, nodes, self.nodes_max, NODES_ADVICE)?;
        over("graphs inside one another", depth, self.depth_max, super::DEPTH_ADVICE)?;
        Ok((nodes, depth))
    }
}
