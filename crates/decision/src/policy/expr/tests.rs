//! Values of expressions, rejected expressions, and their messages.

mod agreement;

use super::*;
use crate::names::Name;
use crate::value::Value;

const FIELDS: [(&str, Kind, &[&str]); 8] = [
    ("amount", Kind::Float, &[]),
    ("count", Kind::Int, &[]),
    ("new", Kind::Bool, &[]),
    ("note", Kind::Text, &[]),
    ("country", Kind::Category, &["DE", "FR", "other"]),
    ("home", Kind::Category, &["DE", "FR", "other"]),
    ("currency", Kind::Category, &["EUR", "USD", "DE"]),
    ("at", Kind::Time, &[]),
];

fn names() -> Names {
    let mut names = Names::default();
    for (slot, (name, kind, values)) in FIELDS.into_iter().enumerate() {
        names.add(
            name,
            Name {
                slot,
                kind,
                values: values.iter().map(|value| (*value).to_owned()).collect(),
                hidden: false,
            },
        );
    }
    names
}

/// 2026-11-15 (a Sunday) 21:08:26.5 UTC.
const AT: i64 = 1_794_776_906_500_000_000;

/// A row with all fields except those in `without`.
fn row(without: &[&str]) -> Rows {
    let mut rows = Rows::default();
    rows.begin(FIELDS.len(), 0);
    let row = rows.push(None);
    let note = Value::Text(rows.keep("naïve café"));
    let category = Value::Category;
    let values = [
        Value::Float(250.5),
        Value::Int(7),
        Value::Bool(true),
        note,
        category(0),
        category(1),
        category(2),
        Value::Time(AT),
    ];
    for (slot, value) in values.into_iter().enumerate() {
        if !without.contains(&FIELDS[slot].0) {
            rows.set(row, slot, value);
        }
    }
    rows
}

fn holds(source: &str, without: &[&str]) -> Option<bool> {
    let expr =
        Expr::compile_with_score(source, &names()).unwrap_or_else(|fault| panic!("{source}: {}", fault.text));
    assert_eq!(expr.kind(), Kind::Bool, "{source}");
    expr.holds(&row(without), 0, None)
}

fn refused(source: &str) -> String {
    Expr::compile(source, &names()).expect_err(source).text
}

#[test]
fn conditions_over_every_kind_hold_as_cel_says() {
    for source in [
        "amount > 250 && amount <= 250.5",
        "amount * 2 == 501",
        "count / 2 == 3 && count % 4 == 3 && -count == -7",
        "-7 / 2 == -3 && -7 % 4 == -3",
        "count < 7.5 && 6.5 < count && count == 7.0 && count != 7.25",
        "new && new == true && !(new != true)",
        "country == 'DE' && 'FR' != country && country != home",
        "country == currency",
        "country in ['FR', 'DE'] && !(country in ['other'])",
        "count in [1, 7.0] && amount in [250.5, 3] && note in ['x', 'naïve café']",
        "note.startsWith('na') && note.endsWith('fé') && note.contains('ve c') && size(note) == 10",
        "note.size() > 9 && country.startsWith('D') && note > 'a'",
        "note.matches('^na.*é$') && !note.matches('^$')",
        "at.getFullYear() == 2026 && at.getMonth() == 10 && at.getDate() == 15 && at.getDayOfMonth() == 14",
        "at.getDayOfWeek() == 0 && at.getDayOfYear() == 318 && at.getHours() == 21 && at.getMinutes() == 8",
        "at.getSeconds() == 26 && at.getMilliseconds() == 500",
        "at >= timestamp('2026-11-15T22:08:26+01:00') && at < timestamp('2027-01-01T00:00:00Z')",
        "(new ? 1 : 2.5) == 1.0 && (new ? country : 'none') == 'DE'",
        "int(amount) == 250 && int(-2.9) == -2 && double(count) * 1.5 == 10.5",
        "has(amount) && has(at) && !has(score)",
        "9007199254740993 != double(9007199254740992) && 9007199254740993 > double(9007199254740992)",
    ] {
        assert_eq!(holds(source, &[]), Some(true), "{source}");
    }
}

#[test]
fn what_is_missing_is_neither_true_nor_false() {
    let without = ["amount", "country", "note", "at", "count", "new"];
    for (source, told) in [
        ("amount > 5", None),
        ("!(amount > 5)", None),
        ("amount > 5 && false", Some(false)),
        ("false && amount > 5", Some(false)),
        ("amount > 5 && true", None),
        ("amount > 5 || true", Some(true)),
        ("true || amount > 5", Some(true)),
        ("false || amount > 5", None),
        ("has(amount)", Some(false)),
        ("has(amount) && amount > 5", Some(false)),
        ("!has(amount) || amount > 5", Some(true)),
        ("country == 'DE'", None),
        ("country != 'DE'", None),
        ("country == home", None),
        ("country in ['DE']", None),
        ("note.contains('x')", None),
        ("at.getHours() > 5", None),
        ("new", None),
        ("(new ? 1 : 1) == 1", None),
        ("(true ? 1.0 : amount) == 1", Some(true)),
        ("score > 0.5", None),
    ] {
        assert_eq!(holds(source, &without), told, "{source}");
    }
}

#[test]
fn arithmetic_without_a_finite_answer_cannot_be_told() {
    for source in [
        "count / (count - 7) == 1",
        "count % (count - 7) == 1",
        "count + 9223372036854775807 > 0",
        "-(-9223372036854775807 - count + 6) > 0",
        "amount / 0 > 1",
        "amount * 1e308 > 1",
        "int(amount * 1e300) > 1",
    ] {
        assert_eq!(holds(source, &[]), None, "{source}");
    }
}

#[test]
fn a_nan_is_missing_and_a_score_is_seen() {
    let mut rows = row(&[]);
    rows.set(0, 0, Value::Float(f64::NAN));
    let told = |source: &str, score| {
        Expr::compile_with_score(source, &names()).expect(source).holds(&rows, 0, score)
    };
    assert_eq!(told("has(amount)", None), Some(false));
    assert_eq!(told("amount != 5.0", None), None);
    assert_eq!(told("score > 0.5 && has(score)", Some(0.6)), Some(true));
    assert_eq!(told("has(score)", Some(f64::NAN)), Some(false));
}

#[test]
fn an_expression_has_a_kind_and_a_value() {
    let rows = row(&[]);
    for (source, kind, value) in [
        ("amount * 2", Kind::Float, Computed::Float(501.0)),
        ("count + 1", Kind::Int, Computed::Int(8)),
        ("new ? 'a' : note", Kind::Text, Computed::Literal("a")),
        ("country", Kind::Category, Computed::Literal("DE")),
        ("at", Kind::Time, Computed::Time(AT)),
        ("amount > 3", Kind::Bool, Computed::Bool(true)),
        ("count / 0", Kind::Int, Computed::Missing),
    ] {
        let expr = Expr::compile(source, &names()).expect(source);
        assert_eq!((expr.kind(), expr.value(&rows, 0)), (kind, value), "{source}");
    }
    let note = Expr::compile("note", &names()).unwrap();
    let Computed::Text(text) = note.value(&rows, 0) else { panic!("not a text of the row") };
    assert_eq!(rows.text(text), "naïve café");
}

#[test]
fn each_refusal_says_what_to_do() {
    for (source, words) in [
        ("contry == 'DE'", "'contry' is not a field or feature; did you mean 'country'?"),
        ("country == 'DEE'", "'DEE' is not among the values of the category; did you mean 'DE'?"),
        ("country in ['DE', 'GB']", "'GB' is not among the values of the category"),
        ("country < 'DE'", "categories have no order; use ==, != or in"),
        ("amount", ""),
        ("amount == 'x'", "a float cannot be compared with a string"),
        (
            "at > 5",
            "a time cannot be compared with an int; for a time write timestamp('2026-01-31T00:00:00Z')",
        ),
        ("amount + count > 1", "an int and a float do not mix in arithmetic; write double(x) or int(x)"),
        ("note + 'x' == 'y'", "arithmetic is for numbers; these are a string and a string"),
        ("amount % 2 == 0", "% is for two ints; write int(x)"),
        ("amount && new", "expected a condition, found a float; compare it"),
        ("new < true", "bools have no order; use == or !="),
        ("amount == null", "null is not a value; use has(x) or !has(x)"),
        ("count == 7u", "write the number without u"),
        ("count in [1.5]", "each item of this list must be an int literal"),
        ("count in [count]", "each item of this list must be an int literal"),
        ("count in []", "in needs a list that is not empty: x in ['a', 'b']"),
        ("has(amount + 1.0)", "has() takes the name of a field or feature"),
        ("has(amuont)", "'amuont' is not a field or feature; did you mean 'amount'?"),
        (
            "note.startswith('a')",
            "startswith is not part of the language; did you mean 'startsWith'?; allowed are",
        ),
        ("note.matches(note)", "matches() takes a pattern in quotes"),
        ("note.matches('(')", "'(' is not a valid pattern: unclosed group"),
        ("note.matches('(\\\\w{1000}){1000}')", "is not a valid pattern: Compiled regex exceeds size limit"),
        ("[1, 2].exists(x, x == 1)", "exists is not part of the language; allowed are"),
        ("note[0] == 'a'", "_[_] is not part of the language; allowed are"),
        ("a.b == 1", "fields have no parts; write only the field's name"),
        ("score > 0.5", "score is not available in segments and features; use it in rules"),
        ("at.getHours('Europe/Paris') > 1", "getHours() takes no argument: times are in UTC"),
        ("count.getHours() > 1", "getHours() is for times; this is an int"),
        ("at > timestamp('yesterday')", "timestamp() takes a time in quotes"),
        ("amount = 5", "write == to compare"),
        ("amount > 5 and new", "write && for and"),
        ("amount > 5 OR new", "write || for or"),
        ("amount >", "it ends too early; complete it"),
        ("", "it ends too early; complete it"),
        ("amount > 5)", "cannot parse it: extraneous input ')'"),
    ] {
        if words.is_empty() {
            assert_eq!(Expr::compile(source, &names()).expect(source).holds(&row(&[]), 0, None), None);
            continue;
        }
        let told = refused(source);
        assert!(told.contains(words), "{source}: {told}");
    }
}

/// Nested as deep as the length limit allows: parser and checker both recurse.
#[test]
fn long_and_deep_texts_are_refused_and_never_bring_the_process_down() {
    let deep = "parentheses, lists and calls are nested too deep; split it into two rules";
    let chain = "the chain is too long; use parentheses or split it into several rules";
    for (before, piece, after, words) in [
        ("", "1+", "1", chain),
        ("", "count<", "1", chain),
        ("", "(", "1", deep),
        ("", "[", "", deep),
        ("", "{", "", deep),
        ("", "a(", "", deep),
        ("", "a?1:", "2", deep),
        ("", "{a:", "", deep),
        ("", "a.", "b", "fields have no parts; write only the field's name"),
        ("note", ".a()", "", "a is not part of the language"),
        ("note", "[0]", "", "_[_] is not part of the language"),
        ("", "'", "", "cannot parse it"),
        ("", "\u{0}", "", "cannot parse it"),
        ("", "é", "", "cannot parse it"),
        ("", "new||", "new", "it has more than 1000 parts; split it into several rules"),
        ("count in [", "1,", "1]", "it has more than 1000 parts; split it into several rules"),
        ("", "//", "", "it ends too early; complete it"),
    ] {
        let count = (EXPRESSION_BYTES_MAX - before.len() - after.len()) / piece.len();
        let told = refused(&format!("{before}{}{after}", piece.repeat(count)));
        assert!(told.starts_with(words), "{piece}: {told}");
    }
    assert_eq!(refused(&"1".repeat(EXPRESSION_BYTES_MAX + 1)), "it has 4097 bytes; at most 4096 are allowed");
}

#[test]
fn a_fault_says_at_which_byte_it_begins() {
    for (source, at) in [
        ("note == 'é' && contry == 'DE'", 16),
        ("note == 'é'\n && amount > > 5", 26),
        ("country == 'GB'", 8),
        ("amount > 5 && country in ['DE', 'GB']", 32),
    ] {
        assert_eq!(Expr::compile(source, &names()).expect_err(source).at, Some(at), "{source}");
    }
}
