//! From text to CEL's syntax tree, by the `cel` crate's parser, and from its faults to ones that its author can act on.
//! Knows no names and no types.

use super::ExprFault;
use cel::Env;
use cel::common::ast::{IdedExpr, SourceInfo};
use cel::parser::ParseErrors;

/// Of parentheses, lists and arguments within each other.
const NESTING_MAX: u16 = 32;

/// Without macros: `has(x)` stays the call that it is written as, and what would loop (`all`, `map`) is a call like any
/// other that is not allowed.
pub(super) fn parse(source: &str) -> Result<(IdedExpr, SourceInfo), ExprFault> {
    let parser = Env::default().parser().max_recursion_depth(NESTING_MAX).error_recovery_limit(1);
    parser.parse_with_source_info(source).map_err(|errors| fault(source, &errors))
}

fn fault(source: &str, errors: &ParseErrors) -> ExprFault {
    let Some(error) = errors.errors.first() else {
        return ExprFault { at: None, text: "it cannot be read as an expression".to_owned() };
    };
    let at = place(source, error.pos);
    let message = error.msg.trim_start_matches("Syntax error: ");
    // The rest is a list of everything that the grammar would take there.
    let message = message.split(" expecting ").next().unwrap_or(message).replace('\n', " ");
    let text = match advice(source, at, &message) {
        Some(advice) => advice.to_owned(),
        None if message.contains("<EOF>") => "it ends too early; complete it".to_owned(),
        None => format!("it cannot be read: {message}"),
    };
    ExprFault { at, text }
}

/// `pos` is line and column, each from 1 and in characters.
fn place(source: &str, pos: (isize, isize)) -> Option<usize> {
    let (line, column) = (usize::try_from(pos.0 - 1).ok()?, usize::try_from(pos.1 - 1).ok()?);
    let start: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = source.get(start..)?;
    Some(start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at))
}

/// What people write who know another language.
fn advice(source: &str, at: Option<usize>, message: &str) -> Option<&'static str> {
    let rest = source.get(at?..)?;
    let word = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    match word.to_ascii_lowercase().as_str() {
        "and" => return Some("write && for and"),
        "or" => return Some("write || for or"),
        "not" => return Some("write !(…) for not, and !(x in […]) for not in"),
        "between" => return Some("write x >= 1 && x <= 2 for between"),
        "is" => return Some("write has(x) or !has(x) for is null"),
        _ => {}
    }
    if message.contains("limit") {
        return Some("parentheses, lists and calls lie too deep within each other; make two rules of it");
    }
    (rest.starts_with('=') && !rest.starts_with("==")).then_some("write == to compare")
}
