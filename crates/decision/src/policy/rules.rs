//! Rules: conditions with an outcome, a reason or both, in evaluation order.

use super::expr::{Expr, ExprFault};
use super::outcomes::Outcomes;
use crate::document::{ReasonsDocument, RuleDocument};
use crate::faults::Faults;
use crate::names::Names;
use crate::rows::Rows;
use crate::value::Kind;
use flyball_core::Reason;
use smallvec::SmallVec;

const RULES_MAX: usize = 1000;

/// Fired rules by document index, in evaluation order. More than eight cost an allocation.
pub type Fired = SmallVec<[u16; 8]>;

#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// By priority, then by index.
    rules: Vec<Rule>,
    /// By index.
    reasons: Vec<Option<Reason>>,
    lines: Vec<String>,
}

#[derive(Clone, Debug)]
struct Rule {
    place: u16,
    when: Expr,
    then: Option<usize>,
    is_final: bool,
    missing: bool,
}

/// The combined result of the rules.
pub(super) struct RulesResult {
    pub(super) fired: Fired,
    /// The most severe outcome of the fired rules.
    pub(super) outcome: Option<usize>,
    /// Whether it overrides the bands.
    pub(super) is_final: bool,
}

impl Rules {
    pub(super) fn compile(
        documents: &[RuleDocument],
        path: &str,
        names: &Names,
        outcomes: &Outcomes,
        reasons: &ReasonsDocument,
        faults: &mut Faults,
    ) -> Rules {
        if documents.len() > RULES_MAX {
            faults.add(format!("{path}.rules"), documents.len(), format!("at most {RULES_MAX} rules"));
        }
        let mut order = documents.iter().enumerate().take(RULES_MAX).collect::<Vec<_>>();
        // Stable: rules of equal priority keep their order.
        order.sort_by_key(|(_, document)| std::cmp::Reverse(document.priority));
        let mut rules =
            Rules { rules: Vec::with_capacity(order.len()), reasons: Vec::new(), lines: Vec::new() };
        for (place, document) in &order {
            let own = format!("{path}.rules[{place}]");
            let then = document.then.as_ref();
            if then.is_none() && (document.is_final || document.reason.is_none()) {
                let text = if document.is_final {
                    "a final rule needs then"
                } else {
                    "a rule needs then, reason or both"
                };
                faults.tell(&own, text);
            }
            let then = then.and_then(|then| outcomes.find(then, &format!("{own}.then"), faults));
            let when = Expr::compile_with_score(&document.when, names);
            let Some(when) = condition(when, &format!("{own}.when"), faults) else { continue };
            let (is_final, missing) = (document.is_final, document.missing);
            rules.rules.push(Rule { place: *place as u16, when, then, is_final, missing });
            rules.lines.push(line(*place, document, reasons));
        }
        rules.reasons = documents.iter().map(|rule| Some(reason(rule.reason.as_ref()?, reasons))).collect();
        rules
    }

    /// Evaluates them in order until a final one fires.
    pub(super) fn evaluate(&self, rows: &Rows, row: usize, score: Option<f64>) -> RulesResult {
        let mut ruled = RulesResult { fired: Fired::new(), outcome: None, is_final: false };
        for rule in &self.rules {
            if !rule.when.holds(rows, row, score).unwrap_or(rule.missing) {
                continue;
            }
            ruled.fired.push(rule.place);
            if rule.is_final {
                return RulesResult { outcome: rule.then, is_final: true, ..ruled };
            }
            ruled.outcome = ruled.outcome.max(rule.then);
        }
        ruled
    }

    pub(super) fn reason(&self, place: u16) -> Option<&Reason> {
        self.reasons[usize::from(place)].as_ref()
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }
}

/// An expression of type bool.
pub(super) fn condition(expr: Result<Expr, ExprFault>, path: &str, faults: &mut Faults) -> Option<Expr> {
    match expr {
        Ok(expr) if expr.kind() == Kind::Bool => return Some(expr),
        Ok(_) => faults.tell(path, "it is not a condition; compare it with something"),
        Err(fault) => faults.tell(path, fault.text),
    }
    None
}

/// A code with its text, if there is one.
pub(super) fn reason(code: &str, reasons: &ReasonsDocument) -> Reason {
    let text = reasons.texts.get(code).map(|text| text.as_str().into());
    Reason { code: code.into(), text, contribution: None }
}

/// `rule 1: when amount > 5000 → review, because R07 (far from home)`.
fn line(place: usize, document: &RuleDocument, reasons: &ReasonsDocument) -> String {
    let RuleDocument { when, then, reason: code, priority, is_final, missing } = document;
    let priority = if *priority == 0 { String::new() } else { format!(" (priority {priority})") };
    let then = match (then, is_final) {
        (Some(then), true) => format!(" → {then}, whatever else is said"),
        (Some(then), false) => format!(" → at least {then}"),
        (None, _) => String::new(),
    };
    let because = code.as_ref().map_or(String::new(), |code| match reasons.texts.get(code) {
        Some(text) => format!(", because {code} ({text})"),
        None => format!(", because {code}"),
    });
    let missing = if *missing { "; also where something in it is missing" } else { "" };
    format!("rule {}{priority}: when {}{then}{because}{missing}", place + 1, when.trim())
}
