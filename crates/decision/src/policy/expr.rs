//! Expressions of `when` and `compute`: a subset of CEL.
//!
//! An expression is checked against the decision's names and kinds once at load, and then evaluated without
//! allocating. Logic is three-valued: with a missing value, a result is neither true nor false. Size and cost
//! are bounded, and nothing loops.

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
use eval::{EvalContext, TextValue};
use node::{TextExpr, Typed};
use std::thread;

pub const EXPRESSION_BYTES_MAX: usize = 4096;

/// Stack of the parser thread.
///
/// The parser recurses as deep as the text is long, so it has its own stack and a caller's small one is never
/// the limit. 8 MiB suffice for the worst text in an unoptimised build.
const PARSER_STACK_BYTES: usize = 32 << 20;

/// A checked expression.
#[derive(Clone, Debug)]
pub struct Expr {
    typed: Typed,
    reads: Vec<usize>,
}

/// Why a text is not a valid expression for its decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprFault {
    /// The byte where the fault starts, if known.
    pub at: Option<usize>,
    pub text: String,
}

/// The value of an expression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Computed<'e> {
    /// Undefined: a value is missing.
    Missing,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// A text of the evaluated row.
    Text(TextRef),
    /// A text of the expression itself, or of a category.
    Literal(&'e str),
    /// Nanoseconds since 1970, UTC.
    Time(i64),
}

impl Expr {
    /// For features, which are computed before the score.
    pub fn compile(source: &str, names: &Names) -> Result<Expr, ExprFault> {
        Expr::compiled(source, names, false)
    }

    /// For rules: `score` is the score, or missing without one.
    pub fn compile_with_score(source: &str, names: &Names) -> Result<Expr, ExprFault> {
        Expr::compiled(source, names, !names.unscored)
    }

    fn compiled(source: &str, names: &Names, score: bool) -> Result<Expr, ExprFault> {
        if source.len() > EXPRESSION_BYTES_MAX {
            let text = format!("it has {} bytes; at most {EXPRESSION_BYTES_MAX} are allowed", source.len());
            return Err(ExprFault { at: None, text });
        }
        thread::scope(|scope| {
            let work = thread::Builder::new().name("expression".to_owned()).stack_size(PARSER_STACK_BYTES);
            let work = work.spawn_scoped(scope, || {
                let (tree, places) = syntax::parse(source)?;
                check::typed(&tree, &places, names, score)
            });
            let failed = |what: &str| ExprFault { at: None, text: format!("cannot parse it: {what}") };
            let work =
                work.map_err(|error| failed(&format!("cannot start a thread for the parser: {error}")))?;
            let checked =
                work.join().map_err(|_| failed("the parser failed on it; rewrite the expression"))?;
            checked.map(|(typed, reads)| Expr { typed, reads })
        })
    }

    /// The slots that it reads, with possible duplicates.
    pub(crate) fn reads(&self) -> &[usize] {
        &self.reads
    }

    pub fn kind(&self) -> Kind {
        match &self.typed {
            Typed::Bool(_) => Kind::Bool,
            Typed::Int(_) => Kind::Int,
            Typed::Float(_) => Kind::Float,
            Typed::Text(TextExpr::Category(..)) => Kind::Category,
            Typed::Text(_) => Kind::Text,
            Typed::Time(_) => Kind::Time,
        }
    }

    pub fn value(&self, rows: &Rows, row: usize) -> Computed<'_> {
        let at = EvalContext { rows, row, score: None };
        let computed = match &self.typed {
            Typed::Bool(of) => of.eval(&at).map(Computed::Bool),
            Typed::Int(of) => of.eval(&at).map(Computed::Int),
            Typed::Float(of) => of.eval(&at).map(Computed::Float),
            Typed::Text(of) => of.eval(&at).map(|said| match said {
                TextValue::Kept(text) => Computed::Text(text),
                TextValue::Literal(text) => Computed::Literal(text),
            }),
            Typed::Time(of) => of.eval(&at).map(Computed::Time),
        };
        computed.unwrap_or(Computed::Missing)
    }

    /// Whether a condition is true; none: undefined.
    pub fn holds(&self, rows: &Rows, row: usize, score: Option<f64>) -> Option<bool> {
        match &self.typed {
            Typed::Bool(of) => of.eval(&EvalContext { rows, row, score }),
            _ => None,
        }
    }
}
