//! Evaluation, faults and descriptions of a policy.

mod evaluation;
mod refusals;

use super::*;
use crate::names::Name;
use crate::value::{Kind, Value};
use serde_json::{Value as Json, json};

/// Three flags, a number and a category.
fn names() -> Names {
    let mut names = Names::default();
    let fields = [
        ("a", Kind::Bool),
        ("b", Kind::Bool),
        ("c", Kind::Bool),
        ("amount", Kind::Float),
        ("country", Kind::Category),
    ];
    for (slot, (name, kind)) in fields.into_iter().enumerate() {
        let values = if kind == Kind::Category { vec!["DE".to_owned(), "FR".to_owned()] } else { Vec::new() };
        names.add(name, Name { slot, kind, values: values.into(), hidden: false });
    }
    names
}

fn rows(flags: [Option<bool>; 3], amount: Option<f64>, country: Option<u32>) -> Rows {
    let mut rows = Rows::default();
    rows.begin(5, 0);
    let row = rows.push(None);
    for (slot, flag) in flags.into_iter().enumerate() {
        rows.set(row, slot, flag.map_or(Value::Missing, Value::Bool));
    }
    rows.set(row, 3, amount.map_or(Value::Missing, Value::Float));
    rows.set(row, 4, country.map_or(Value::Missing, Value::Category));
    rows
}

/// Three bands from 0 to 1, plus `more`.
fn document(more: Json) -> PolicyDocument {
    let mut document = json!({
        "guards": [{"of": "score", "min": 0.0, "max": 1.0}],
        "outcomes": ["pass", "review", "reject"],
        "adverse": ["reject"],
        "bands": [{"name": "pass", "to": 0.3}, {"name": "review", "from": 0.3, "to": 0.8}, {"name": "reject", "from": 0.8}],
    });
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(document).unwrap()
}

fn policy(more: Json) -> Policy {
    let mut faults = Faults::default();
    Policy::compile(&document(more), &names(), &mut faults).unwrap_or_else(|| panic!("{:?}", faults.0))
}

/// Path and text of each fault.
fn refused(more: Json) -> Vec<(String, String)> {
    let mut faults = Faults::default();
    assert!(Policy::compile(&document(more), &names(), &mut faults).is_none());
    faults.0.into_iter().map(|fault| (fault.path, fault.allowed)).collect()
}

#[test]
fn a_risk_officer_can_read_the_policy() {
    let policy = policy(json!({
        "rules": [
            {"when": "amount > 5000", "then": "review", "reason": "R07"},
            {"when": "a", "then": "pass", "final": true, "priority": 10},
            {"when": "b", "reason": "R08", "missing": true},
        ],
        "segments": [{"when": "country == 'FR'", "bands": [{"name": "low", "outcome": "pass", "to": 0.5}, {"name": "reject", "from": 0.5}]}],
        "kill_switch": {"outcome": "review", "reason": "K1"},
        "reasons": {"texts": {"R07": "a large amount"}},
        "shadow": {"outcomes": ["pass"], "bands": [{"name": "pass"}]},
    }));
    assert_eq!(
        policy.describe(),
        [
            "kill switch is set: everything is review, because K1",
            "outcomes, from mild to severe: pass, review, reject (adverse)",
            "guard: score must be 0 to 1",
            "rule 2 (priority 10): when a → pass, whatever else is said",
            "rule 1: when amount > 5000 → at least review, because R07 (a large amount)",
            "rule 3: when b, because R08; also where something in it is missing",
            "where country == 'FR', score below 0.5: low → pass",
            "where country == 'FR', score from 0.5 on: reject",
            "everywhere else, score below 0.3: pass",
            "everywhere else, score 0.3..0.8: review",
            "everywhere else, score from 0.8 on: reject",
            "shadow: outcomes, from mild to severe: pass",
            "shadow: any score: pass",
        ]
    );
}
