//! Type-checks CEL's syntax tree against the decision's names.
//!
//! Rejects everything outside the language, naming the alternatives.

use super::ExprFault;
use super::node::{
    ArithmeticOp, BoolExpr, Conditional, FloatExpr, IntExpr, Relation, TextExpr, TimeExpr, Typed,
};
use crate::names::{Name, Names};
use crate::nearest::did_you_mean;
use crate::policy::NO_SCORE;
use crate::value::Kind;
use cel::common::ast::{CallExpr, Expr as Tree, IdedExpr, LiteralValue, SourceInfo, operators};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Of operators, names and literals.
const NODES_MAX: u32 = 1000;
/// Evaluation recurses on the caller's stack.
const DEPTH_MAX: u32 = 100;
/// Longer lists of values would hide the fault.
const VALUES_LISTED_MAX: usize = 8;

pub(super) const ALLOWED: &str = "allowed are + - * / %, comparisons, && || !, a ? b : c, x in […], has(x), size(x), int(x), \
    double(x), timestamp('…'), x.startsWith('…'), x.endsWith('…'), x.contains('…'), x.matches('…') and parts of times as \
    x.getHours()";

pub(super) type Checked<T> = Result<T, ExprFault>;

/// The typed expression and the slots that it reads.
pub(super) fn typed(
    tree: &IdedExpr,
    places: &SourceInfo,
    names: &Names,
    score: bool,
) -> Checked<(Typed, Vec<usize>)> {
    let (nodes, depth, reads) = Default::default();
    let checker = Checker { places, names, score, nodes, depth, reads };
    Ok((checker.typed(tree)?, checker.reads.into_inner()))
}

pub(super) struct Checker<'a> {
    places: &'a SourceInfo,
    pub(super) names: &'a Names,
    pub(super) score: bool,
    nodes: Cell<u32>,
    depth: Cell<u32>,
    reads: RefCell<Vec<usize>>,
}

impl Checker<'_> {
    pub(super) fn fault<T>(&self, at: &IdedExpr, text: impl Into<String>) -> Checked<T> {
        let at = self.places.offset_for(at.id).map(|(start, _)| start as usize);
        Err(ExprFault { at, text: text.into() })
    }

    pub(super) fn typed(&self, tree: &IdedExpr) -> Checked<Typed> {
        self.nodes.set(self.nodes.get() + 1);
        if self.nodes.get() > NODES_MAX {
            return self
                .fault(tree, format!("it has more than {NODES_MAX} parts; split it into several rules"));
        }
        if self.depth.get() >= DEPTH_MAX {
            return self.fault(tree, "the chain is too long; use parentheses or split it into several rules");
        }
        self.depth.set(self.depth.get() + 1);
        let typed = match &tree.expr {
            Tree::Literal(literal) => self.literal(tree, literal),
            Tree::Ident(name) => self.name(tree, name),
            Tree::Call(call) => self.call(tree, call),
            Tree::List(_) => self.fault(tree, "a list is only allowed after in: x in ['a', 'b']"),
            Tree::Select(_) => self.fault(tree, "fields have no parts; write only the field's name"),
            _ => self.fault(tree, format!("this is not part of the language; {ALLOWED}")),
        };
        self.depth.set(self.depth.get() - 1);
        typed
    }

    fn literal(&self, tree: &IdedExpr, literal: &LiteralValue) -> Checked<Typed> {
        Ok(match literal {
            LiteralValue::Boolean(value) => Typed::Bool(BoolExpr::Const(**value)),
            LiteralValue::Int(value) => Typed::Int(IntExpr::Const(**value)),
            LiteralValue::Double(value) => Typed::Float(FloatExpr::Const(**value)),
            LiteralValue::String(text) => Typed::Text(TextExpr::Const(text.inner().into())),
            LiteralValue::Null => return self.fault(tree, "null is not a value; use has(x) or !has(x)"),
            LiteralValue::UInt(_) => return self.fault(tree, "write the number without u"),
            LiteralValue::Bytes(_) => return self.fault(tree, "write the text without b"),
        })
    }

    fn name(&self, tree: &IdedExpr, name: &str) -> Checked<Typed> {
        if self.score && name == "score" {
            return Ok(Typed::Float(FloatExpr::Score));
        }
        let Name { slot, kind, values, .. } = self.known(tree, name)?;
        let slot = *slot;
        Ok(match kind {
            Kind::Bool => Typed::Bool(BoolExpr::Slot(slot)),
            Kind::Int => Typed::Int(IntExpr::Slot(slot)),
            Kind::Float => Typed::Float(FloatExpr::Slot(slot)),
            Kind::Text => Typed::Text(TextExpr::Slot(slot)),
            Kind::Category => Typed::Text(TextExpr::Category(slot, Arc::clone(values))),
            Kind::Time => Typed::Time(TimeExpr::Slot(slot)),
        })
    }

    pub(super) fn known(&self, tree: &IdedExpr, name: &str) -> Checked<&Name> {
        match self.names.get(name) {
            Some(known) => {
                self.reads.borrow_mut().push(known.slot);
                Ok(known)
            }
            None if name == "score" && self.names.unscored => self.fault(tree, NO_SCORE),
            None if name == "score" => {
                self.fault(tree, "score is not available in segments and features; use it in rules")
            }
            None => {
                let near = did_you_mean(name, self.names.all());
                self.fault(tree, format!("'{name}' is not a field or feature{near}"))
            }
        }
    }

    fn call(&self, tree: &IdedExpr, call: &CallExpr) -> Checked<Typed> {
        if let Some(target) = &call.target {
            return self.method(tree, &call.func_name, target, &call.args);
        }
        match (call.func_name.as_str(), call.args.as_slice()) {
            (operators::LOGICAL_AND, [a, b]) => {
                Ok(Typed::Bool(BoolExpr::Both(Box::new((self.truth(a)?, self.truth(b)?)))))
            }
            (operators::LOGICAL_OR, [a, b]) => {
                Ok(Typed::Bool(BoolExpr::Either(Box::new((self.truth(a)?, self.truth(b)?)))))
            }
            (operators::LOGICAL_NOT, [of]) => Ok(Typed::Bool(BoolExpr::Not(Box::new(self.truth(of)?)))),
            (operators::CONDITIONAL, [when, yes, no]) => self.pick(tree, when, yes, no),
            (operators::NEGATE, [of]) => self.negated(tree, of),
            (operators::IN, [of, list]) => self.within(tree, of, list),
            (operator, [a, b]) if relation(operator).is_some() || calculation(operator).is_some() => {
                let (left, right) = (self.typed(a)?, self.typed(b)?);
                match (relation(operator), calculation(operator)) {
                    (Some(relation), _) => self.compared(tree, relation, left, right),
                    (_, Some(sign)) => self.calculated(tree, sign, left, right),
                    _ => self.fault(tree, ALLOWED),
                }
            }
            (name, arguments) => self.function(tree, name, arguments),
        }
    }

    pub(super) fn truth(&self, tree: &IdedExpr) -> Checked<BoolExpr> {
        match self.typed(tree)? {
            Typed::Bool(truth) => Ok(truth),
            other => self.fault(tree, format!("expected a condition, found {}; compare it", a(&other))),
        }
    }

    fn pick(&self, tree: &IdedExpr, when: &IdedExpr, yes: &IdedExpr, no: &IdedExpr) -> Checked<Typed> {
        let when = self.truth(when)?;
        Ok(match alike(self.typed(yes)?, self.typed(no)?) {
            (Typed::Bool(yes), Typed::Bool(no)) => {
                Typed::Bool(BoolExpr::Conditional(Box::new(Conditional { when, yes, no })))
            }
            (Typed::Int(yes), Typed::Int(no)) => {
                Typed::Int(IntExpr::Conditional(Box::new(Conditional { when, yes, no })))
            }
            (Typed::Float(yes), Typed::Float(no)) => {
                Typed::Float(FloatExpr::Conditional(Box::new(Conditional { when, yes, no })))
            }
            (Typed::Text(yes), Typed::Text(no)) => {
                Typed::Text(TextExpr::Conditional(Box::new(Conditional { when, yes, no })))
            }
            (Typed::Time(yes), Typed::Time(no)) => {
                Typed::Time(TimeExpr::Conditional(Box::new(Conditional { when, yes, no })))
            }
            (yes, no) => {
                let text =
                    format!("both sides of : must have the same type; these are {} and {}", a(&yes), a(&no));
                return self.fault(tree, text);
            }
        })
    }

    fn negated(&self, tree: &IdedExpr, of: &IdedExpr) -> Checked<Typed> {
        Ok(match self.typed(of)? {
            Typed::Int(IntExpr::Const(value)) if value != i64::MIN => Typed::Int(IntExpr::Const(-value)),
            Typed::Int(of) => Typed::Int(IntExpr::Negate(Box::new(of))),
            Typed::Float(FloatExpr::Const(value)) => Typed::Float(FloatExpr::Const(-value)),
            Typed::Float(of) => Typed::Float(FloatExpr::Negate(Box::new(of))),
            other => return self.fault(tree, format!("{} cannot be negated", a(&other))),
        })
    }

    fn calculated(&self, tree: &IdedExpr, sign: Sign, left: Typed, right: Typed) -> Checked<Typed> {
        Ok(match (alike(left, right), sign) {
            ((Typed::Int(left), Typed::Int(right)), Sign::ArithmeticOp(calc)) => {
                Typed::Int(IntExpr::ArithmeticOp(calc, Box::new((left, right))))
            }
            ((Typed::Int(left), Typed::Int(right)), Sign::Modulo) => {
                Typed::Int(IntExpr::Modulo(Box::new((left, right))))
            }
            ((Typed::Float(left), Typed::Float(right)), Sign::ArithmeticOp(calc)) => {
                Typed::Float(FloatExpr::ArithmeticOp(calc, Box::new((left, right))))
            }
            ((Typed::Int(_), Typed::Float(_)) | (Typed::Float(_), Typed::Int(_)), _) => {
                return self
                    .fault(tree, "an int and a float do not mix in arithmetic; write double(x) or int(x)");
            }
            (_, Sign::Modulo) => return self.fault(tree, "% is for two ints; write int(x)"),
            ((left, right), _) => {
                return self.fault(
                    tree,
                    format!("arithmetic is for numbers; these are {} and {}", a(&left), a(&right)),
                );
            }
        })
    }

    fn compared(&self, tree: &IdedExpr, relation: Relation, left: Typed, right: Typed) -> Checked<Typed> {
        Ok(Typed::Bool(match alike(left, right) {
            (Typed::Int(left), Typed::Int(right)) => BoolExpr::Ints(relation, Box::new((left, right))),
            (Typed::Float(left), Typed::Float(right)) => BoolExpr::Floats(relation, Box::new((left, right))),
            (Typed::Int(left), Typed::Float(right)) => BoolExpr::Mixed(relation, Box::new((left, right))),
            (Typed::Float(left), Typed::Int(right)) => {
                BoolExpr::Mixed(relation.flipped(), Box::new((right, left)))
            }
            (Typed::Time(left), Typed::Time(right)) => BoolExpr::Times(relation, Box::new((left, right))),
            (Typed::Text(left), Typed::Text(right)) => self.texts(tree, relation, left, right)?,
            (Typed::Bool(left), Typed::Bool(right)) if !relation.is_order() => {
                BoolExpr::Bools(relation, Box::new((left, right)))
            }
            (Typed::Bool(_), Typed::Bool(_)) => return self.fault(tree, "bools have no order; use == or !="),
            (left, right) => {
                let hint = match (&left, &right) {
                    (Typed::Time(_), _) | (_, Typed::Time(_)) => {
                        "; for a time write timestamp('2026-01-31T00:00:00Z')"
                    }
                    _ => "",
                };
                return self.fault(tree, format!("{} cannot be compared with {}{hint}", a(&left), a(&right)));
            }
        }))
    }

    fn texts(
        &self,
        tree: &IdedExpr,
        relation: Relation,
        left: TextExpr,
        right: TextExpr,
    ) -> Checked<BoolExpr> {
        let category = matches!(left, TextExpr::Category(..)) || matches!(right, TextExpr::Category(..));
        if relation.is_order() && category {
            return self.fault(tree, "categories have no order; use ==, != or in");
        }
        let same = match (&left, &right) {
            (TextExpr::Category(slot, values), TextExpr::Const(text))
            | (TextExpr::Const(text), TextExpr::Category(slot, values)) => {
                BoolExpr::CategoryIs(*slot, self.place(tree, values, text)? as u32)
            }
            (TextExpr::Category(a, of_a), TextExpr::Category(b, of_b)) if of_a == of_b => {
                BoolExpr::SameCategory(*a, *b)
            }
            _ => return Ok(BoolExpr::Texts(relation, Box::new((left, right)))),
        };
        Ok(if relation == Relation::Equal { same } else { BoolExpr::Not(Box::new(same)) })
    }

    /// The index of a text in the category's values; a fault if it is not one of them.
    pub(super) fn place(&self, tree: &IdedExpr, values: &[String], text: &str) -> Checked<usize> {
        match values.iter().position(|value| value == text) {
            Some(place) => Ok(place),
            None => {
                let mut near = did_you_mean(text, values.iter().map(String::as_str));
                if near.is_empty() && values.len() <= VALUES_LISTED_MAX {
                    near = format!("; they are {}", values.join(", "));
                }
                self.fault(tree, format!("'{text}' is not among the values of the category{near}"))
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Sign {
    ArithmeticOp(ArithmeticOp),
    Modulo,
}

fn calculation(operator: &str) -> Option<Sign> {
    Some(match operator {
        operators::ADD => Sign::ArithmeticOp(ArithmeticOp::Add),
        operators::SUBSTRACT => Sign::ArithmeticOp(ArithmeticOp::Subtract),
        operators::MULTIPLY => Sign::ArithmeticOp(ArithmeticOp::Multiply),
        operators::DIVIDE => Sign::ArithmeticOp(ArithmeticOp::Divide),
        operators::MODULO => Sign::Modulo,
        _ => return None,
    })
}

fn relation(operator: &str) -> Option<Relation> {
    Some(match operator {
        operators::EQUALS => Relation::Equal,
        operators::NOT_EQUALS => Relation::NotEqual,
        operators::LESS => Relation::Less,
        operators::LESS_EQUALS => Relation::AtMost,
        operators::GREATER => Relation::More,
        operators::GREATER_EQUALS => Relation::AtLeast,
        _ => return None,
    })
}

/// Converts an int literal next to a float if that is exact, so that `amount > 5000` works.
fn alike(left: Typed, right: Typed) -> (Typed, Typed) {
    let exact = |whole: i64| whole.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS;
    let float = |whole: i64| Typed::Float(FloatExpr::Const(whole as f64));
    match (left, right) {
        (Typed::Int(IntExpr::Const(whole)), right @ Typed::Float(_)) if exact(whole) => (float(whole), right),
        (left @ Typed::Float(_), Typed::Int(IntExpr::Const(whole))) if exact(whole) => (left, float(whole)),
        unchanged => unchanged,
    }
}

/// The type's name with its article.
pub(super) fn a(typed: &Typed) -> &'static str {
    match typed {
        Typed::Bool(_) => "a bool",
        Typed::Int(_) => "an int",
        Typed::Float(_) => "a float",
        Typed::Text(TextExpr::Category(..)) => "a category",
        Typed::Text(_) => "a string",
        Typed::Time(_) => "a time",
    }
}
