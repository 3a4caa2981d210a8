//! Expressions: what `when` and `compute` hold. The language is a part of CEL; it is checked against the names and kinds
//! of the decision once, at load, and then evaluated without allocating.
//!
//! Three-valued: what cannot be told because something is missing is neither true nor false. Everything about an
//! expression is bounded, as its length is, and none of it loops.

mod calls;
mod check;
mod eval;
mod node;
mod syntax;
#[cfg(test)]
mod tests;

use crate::names::Names;
use crate::rows::Rows;
use crate::value::{Kind, TextRef};
use eval::{At, Said};
use node::{Typed, Words};
use std::thread;

pub const EXPRESSION_BYTES_MAX: usize = 4096;

/// The parser goes down the syntax tree by recursion, which may be as deep as the text is long. Its stack is its own,
/// so that a caller's small one is never the limit: 8 MiB are enough for the worst text, in an unoptimised build.
const PARSER_STACK_BYTES: usize = 32 << 20;

/// An expression that was checked.
#[derive(Clone, Debug)]
pub struct Expr {
    typed: Typed,
    reads: Vec<usize>,
}

/// Why a text is no expression over the names of its decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprFault {
    /// The byte where it begins, as far as that is known.
    pub at: Option<usize>,
    pub text: String,
}

/// What an expression comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Computed<'e> {
    /// It cannot be told.
    Missing,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A text of the row that it was computed from.
    Text(TextRef),
    /// A text of the expression itself, or the text of a category.
    Literal(&'e str),
    /// Nanoseconds since 1970, UTC.
    Time(i64),
}

impl Expr {
    /// For features, which are there before there is a score.
    pub fn compile(source: &str, names: &Names) -> Result<Expr, ExprFault> {
        Expr::compiled(source, names, false)
    }

    /// For rules: `score` is the score, and missing where there is none.
    pub fn compile_with_score(source: &str, names: &Names) -> Result<Expr, ExprFault> {
        Expr::compiled(source, names, !names.unscored)
    }

    fn compiled(source: &str, names: &Names, score: bool) -> Result<Expr, ExprFault> {
        if source.len() > EXPRESSION_BYTES_MAX {
            let text = format!("it has {} bytes, allowed are {EXPRESSION_BYTES_MAX}", source.len());
            return Err(ExprFault { at: None, text });
        }
        thread::scope(|scope| {
            let work = thread::Builder::new().name("expression".to_owned()).stack_size(PARSER_STACK_BYTES);
            let work = work.spawn_scoped(scope, || {
                let (tree, places) = syntax::parse(source)?;
                check::typed(&tree, &places, names, score)
            });
            let failed = |what: &str| ExprFault { at: None, text: format!("it could not be read: {what}") };
            let work = work.map_err(|error| failed(&format!("no thread for it: {error}")))?;
            let checked =
                work.join().map_err(|_| failed("the parser failed on it; write it in another way"))?;
            checked.map(|(typed, reads)| Expr { typed, reads })
        })
    }

    /// The slots that it is made of, some of them maybe more than once.
    pub(crate) fn reads(&self) -> &[usize] {
        &self.reads
    }

    pub fn kind(&self) -> Kind {
        match &self.typed {
            Typed::Bool(_) => Kind::Bool,
            Typed::Int(_) => Kind::Int,
            Typed::Float(_) => Kind::Float,
            Typed::Text(Words::Category(..)) => Kind::Category,
            Typed::Text(_) => Kind::Text,
            Typed::Time(_) => Kind::Time,
        }
    }

    pub fn value(&self, rows: &Rows, row: usize) -> Computed<'_> {
        let at = At { rows, row, score: None };
        let computed = match &self.typed {
            Typed::Bool(of) => of.told(&at).map(Computed::Bool),
            Typed::Int(of) => of.told(&at).map(Computed::Int),
            Typed::Float(of) => of.told(&at).map(Computed::Float),
            Typed::Text(of) => of.told(&at).map(|said| match said {
                Said::Kept(text) => Computed::Text(text),
                Said::Literal(text) => Computed::Literal(text),
            }),
            Typed::Time(of) => of.told(&at).map(Computed::Time),
        };
        computed.unwrap_or(Computed::Missing)
    }

    /// Whether a condition holds; none: it cannot be told.
    pub fn holds(&self, rows: &Rows, row: usize, score: Option<f64>) -> Option<bool> {
        match &self.typed {
            Typed::Bool(of) => of.told(&At { rows, row, score }),
            _ => None,
        }
    }
}
