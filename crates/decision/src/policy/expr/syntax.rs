//! Parses text with the `cel` crate, and turns its errors into useful ones. Knows no names or types.

use super::ExprFault;
use cel::Env;
use cel::common::ast::{IdedExpr, SourceInfo};
use cel::parser::ParseErrors;

/// Maximum nesting of parentheses, lists and arguments.
const NESTING_MAX: u16 = 32;

/// Parses without macros: `has(x)` stays a call, and loops (`all`, `map`) are unknown calls.
pub(super) fn parse(source: &str) -> Result<(IdedExpr, SourceInfo), ExprFault> {
    let parser = Env::default().parser().max_recursion_depth(NESTING_MAX).error_recovery_limit(1);
    parser.parse_with_source_info(source).map_err(|errors| fault(source, &errors))
}

fn fault(source: &str, errors: &ParseErrors) -> ExprFault {
    let Some(error) = errors.errors.first() else {
        return ExprFault { at: None, text: "it is not a valid expression".to_owned() };
    };
    let at = place(source, error.pos);
    let message = error.msg.trim_start_matches("Syntax error: ");
    // The rest lists everything that the grammar would accept.
    let message = message.split(" expecting ").next().unwrap_or(message).replace('\n', " ");
    let text = match advice(source, at, &message) {
        Some(advice) => advice.to_owned(),
        None if message.contains("<EOF>") => "it ends too early; complete it".to_owned(),
        None => format!("cannot parse it: {message}"),
    };
    ExprFault { at, text }
}

/// The byte offset. `pos` is line and column, each from 1 and in characters.
fn place(source: &str, pos: (isize, isize)) -> Option<usize> {
    let (line, column) = (usize::try_from(pos.0 - 1).ok()?, usize::try_from(pos.1 - 1).ok()?);
    let start: usize = source.split_inclusive('\n').take(line).map(str::len).sum();
    let rest = source.get(start..)?;
    Some(start + rest.char_indices().nth(column).map_or(rest.len(), |(at, _)| at))
}

/// Advice for the syntax of other languages.
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
        return Some("parentheses, lists and calls are nested too deep; split it into two rules");
    }
    (rest.starts_with('=') && !rest.starts_with("==")).then_some("write == to compare")
}
