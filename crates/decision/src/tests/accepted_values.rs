//! The values that each field type accepts, and the messages for others.

use super::good::{compile, good, row, with};
use crate::{FeatureFact, Origin, Program, Rows, Value};
use flyball_core::{RowSink, Scalar};
use proptest::prelude::*;
use serde_json::json;

use Scalar::{Bool, Float, Int, Null, Text};

/// A program with the single field `f`.
fn only(field: &serde_json::Value) -> Program {
    let mut field = field.clone();
    field["name"] = json!("f");
    super::good::columns_program(
        &json!([field, {"name": "x", "type": "float", "required": false}]),
        &json!([]),
        &["x"],
    )
    .expect("compiles")
}

fn taken(program: &Program, value: Scalar<'_>) -> Option<Value> {
    let mut rows = Rows::default();
    row(program, &mut rows, &[("f", value)]);
    rows.sound(0).then(|| rows.value(0, 0))
}

#[test]
fn numbers_are_taken_as_their_field_holds_them() {
    let int = only(&json!({"type": "int", "min": -5.0, "max": 10.0}));
    assert_eq!(taken(&int, Int(3)), Some(Value::Int(3)));
    assert_eq!(taken(&int, Float(3.0)), Some(Value::Int(3)));
    for refused in [Float(3.5), Int(11), Int(-6), Float(f64::NAN), Bool(true), Text("3")] {
        assert_eq!(taken(&int, refused), None, "{refused:?}");
    }
    let wide = only(&json!({"type": "int"}));
    assert_eq!(taken(&wide, Int(i64::MAX)), Some(Value::Int(i64::MAX)));
    assert_eq!(taken(&wide, Float(9_223_372_036_854_775_808.0)), None);
    assert_eq!(taken(&wide, Float(-9_223_372_036_854_775_808.0)), Some(Value::Int(i64::MIN)));
    let float = only(&json!({"type": "float", "max": 2.5}));
    assert_eq!(taken(&float, Int(2)), Some(Value::Float(2.0)));
    assert_eq!(taken(&float, Float(2.5)), Some(Value::Float(2.5)));
    for refused in [Float(2.51), Float(f64::INFINITY), Float(f64::NEG_INFINITY), Float(f64::NAN), Text("2")] {
        assert_eq!(taken(&float, refused), None, "{refused:?}");
    }
}

#[test]
fn a_bool_takes_bools_alone() {
    let program = only(&json!({"type": "bool"}));
    assert_eq!(taken(&program, Bool(false)), Some(Value::Bool(false)));
    for refused in [Int(1), Float(0.0), Text("true"), Scalar::Other("a list")] {
        assert_eq!(taken(&program, refused), None, "{refused:?}");
    }
}

#[test]
fn a_time_is_rfc_3339_or_seconds_since_1970() {
    let program = only(&json!({"type": "time"}));
    let nanos = 1_700_000_000_500_000_000;
    assert_eq!(taken(&program, Text("2023-11-14T22:13:20.5Z")), Some(Value::Time(nanos)));
    assert_eq!(taken(&program, Text("2023-11-14T23:13:20.5+01:00")), Some(Value::Time(nanos)));
    assert_eq!(taken(&program, Int(1_700_000_000)), Some(Value::Time(nanos - 500_000_000)));
    assert_eq!(taken(&program, Float(1_700_000_000.5)), Some(Value::Time(nanos)));
    assert_eq!(taken(&program, Float(-0.5)), Some(Value::Time(-500_000_000)));
    let refused =
        [Text("2023-11-14T22:13:20"), Text("yesterday"), Int(i64::MAX), Float(1e300), Float(f64::NAN)];
    for refused in refused {
        assert_eq!(taken(&program, refused), None, "{refused:?}");
    }
    let bounded = only(&json!({"type": "time", "min": 0.0}));
    assert_eq!(taken(&bounded, Int(-1)), None);
}

#[test]
fn texts_have_a_length_and_categories_their_values() {
    let text = only(&json!({"type": "string", "length_max": 4}));
    assert!(taken(&text, Text("né€")).is_none(), "bytes are counted, not characters");
    assert!(taken(&text, Text("né")).is_some());
    let closed = only(&json!({"type": "category", "values": ["a", "b"]}));
    assert_eq!(taken(&closed, Text("b")), Some(Value::Category(1)));
    assert_eq!((taken(&closed, Text("c")), taken(&closed, Int(0))), (None, None));
    let open = only(&json!({"type": "category", "values": ["a", "b"], "unknown": "rest"}));
    assert_eq!(taken(&open, Text("c")), Some(Value::Category(2)));
    assert_eq!(taken(&open, Text("rest")), Some(Value::Category(2)));
    let within = only(&json!({"type": "category", "values": ["a", "b"], "unknown": "a"}));
    assert_eq!(taken(&within, Text("c")), Some(Value::Category(0)));
}

#[test]
fn what_was_not_sent_is_its_default_or_missing_or_a_fault() {
    let program = good();
    let mut rows = Rows::default();
    row(
        &program,
        &mut rows,
        &[("card", Text("1")), ("amount", Float(2.0)), ("country", Text("CH")), ("items", Null)],
    );
    assert!(rows.sound(0));
    assert_eq!((rows.value(0, 2), rows.value(0, 4)), (Value::Int(1), Value::Missing));
    row(&program, &mut rows, &[("country", Text("CH")), ("amount", Null)]);
    let faults: Vec<_> = rows.faults(0).map(|fault| (&*fault.field, fault.is.as_deref())).collect();
    assert_eq!(faults, [("card", None), ("amount", None)]);
    let allowed: Vec<_> = rows.faults(0).map(|fault| fault.allowed.as_str()).collect();
    assert_eq!(allowed[1], "a finite number from 0 to 10000; it is required");
}

#[test]
fn each_row_has_its_own_faults_and_the_others_go_on() {
    let program = good();
    let mut rows = Rows::default();
    program.begin(&mut rows);
    let mut reader = program.reader(&mut rows);
    for (id, amount) in [("a", Float(1.0)), ("b", Float(-1.0)), ("c", Float(3.0))] {
        reader.row(Some(id));
        reader.field("country", Text("DE"));
        reader.field("amount", amount);
        reader.field("card", Text(id));
    }
    reader.finish();
    assert_eq!([0, 1, 2].map(|row| rows.sound(row)), [true, false, true]);
    assert_eq!([0, 1, 2].map(|row| rows.id(row)), [Some("a"), Some("b"), Some("c")]);
    assert_eq!(rows.value(2, 1), Value::Float(3.0));
    let fault = rows.faults(1).next().expect("a fault");
    assert_eq!((&*fault.field, fault.is.as_deref()), ("amount", Some("-1")));
}

#[test]
fn a_field_that_is_not_there_is_a_fault_that_asks_for_the_one_that_was_meant() {
    let program = good();
    let mut rows = Rows::default();
    row(
        &program,
        &mut rows,
        &[("amuont", Text("secret")), ("country", Text("CH")), ("card", Text("1")), ("amount", Int(1))],
    );
    let faults: Vec<_> = rows.faults(0).collect();
    assert_eq!(faults.len(), 1);
    assert_eq!((&*faults[0].field, faults[0].is.as_deref()), ("amuont", Some("a text")));
    assert_eq!(faults[0].allowed, "a field of the input; did you mean 'amount'?");
    row(&program, &mut rows, &[("spent", Float(1.0))]);
    assert_eq!(
        &*rows.faults(0).next().expect("a fault").field,
        "spent",
        "features come from stores, not callers"
    );
}

#[test]
fn a_file_that_is_scored_may_bring_features_along() {
    let program = good();
    let mut rows = Rows::default();
    program.begin(&mut rows);
    let mut reader = program.reader_of_features(&mut rows);
    reader.row(None);
    for (name, value) in [
        ("spent", Int(7)),
        ("tier", Text("tin")),
        ("card", Text("1")),
        ("amount", Int(1)),
        ("country", Text("CH")),
    ] {
        reader.field(name, value);
    }
    reader.finish();
    assert!(rows.sound(0));
    assert_eq!((rows.value(0, 7), rows.value(0, 8)), (Value::Float(7.0), Value::Category(1)));
    let origins = [0, 1, 2].map(|feature| rows.fact(0, feature).origin);
    assert_eq!(origins, [Origin::Given, Origin::Given, Origin::None]);
    let mut reader = program.reader_of_features(&mut rows);
    reader.row(None);
    for (name, value) in
        [("spent", Null), ("items", Null), ("card", Text("1")), ("amount", Int(1)), ("country", Text("CH"))]
    {
        reader.field(name, value);
    }
    reader.finish();
    assert!(rows.sound(1));
    assert_eq!((rows.value(1, 2), rows.value(1, 7)), (Value::Int(1), Value::Missing), "a default; as it was");
    assert_eq!([0, 1].map(|feature| rows.fact(1, feature).origin), [Origin::Given, Origin::None]);
}

#[test]
fn a_field_that_is_sent_twice_is_a_fault() {
    let program = good();
    let mut rows = Rows::default();
    row(
        &program,
        &mut rows,
        &[("country", Text("CH")), ("country", Text("FR")), ("card", Text("1")), ("amount", Int(1))],
    );
    assert_eq!(
        rows.faults(0).map(|fault| fault.allowed.as_str()).collect::<Vec<_>>(),
        ["each field once in a row"]
    );
}

#[test]
fn a_row_tells_sixteen_faults_and_personal_data_in_none_of_them() {
    let program = good();
    let mut rows = Rows::default();
    let names: Vec<_> = (0..40).map(|place| format!("nothing{place}")).collect();
    let fields: Vec<_> = names.iter().map(|name| (name.as_str(), Int(1))).collect();
    row(&program, &mut rows, &fields);
    assert_eq!(rows.faults(0).count(), 16);
    row(&program, &mut rows, &[("card", Text("4111")), ("card", Text("4112"))]);
    assert_eq!(rows.faults(0).next().and_then(|fault| fault.is.as_deref()), Some("hidden"));
    let secret = "4111 1111 1111 1111 4111 1111 1111 1111";
    row(&program, &mut rows, &[("card", Text(secret))]);
    assert!(rows.faults(0).all(|fault| fault.is.as_deref() != Some(secret)));
    assert_eq!(rows.faults(0).next().and_then(|fault| fault.is.as_deref()), Some("hidden"));
}

#[test]
fn a_guard_tells_the_value_of_a_field_that_is_not_personal_and_no_other() {
    let mut document = with(
        "/policy/guards",
        json!([{"of": "score", "min": 0.0, "max": 1.0}, {"of": "amount", "max": 5.0}]),
    );
    let told = |document: &serde_json::Value| {
        let program = compile(document).expect("compiles");
        let mut rows = Rows::default();
        row(&program, &mut rows, &[("card", Text("77")), ("amount", Float(7.25)), ("country", Text("CH"))]);
        let fact = FeatureFact { origin: Origin::Window, age_ms: None };
        assert!(program.put(&mut rows, 0, 0, Float(8.5), fact));
        program.policy.inputs_guarded(&rows, 0).expect_err("beyond its guard").to_string()
    };
    assert_eq!(told(&document), "amount is 7.25; allowed: at most 5");
    document["input"][1]["pii"] = json!(true);
    assert_eq!(told(&document), "amount is hidden; allowed: at most 5");
    // `spent` is derived from the amounts.
    document["policy"]["guards"][1]["of"] = json!("spent");
    assert_eq!(told(&document), "spent is hidden; allowed: at most 5");
}

#[test]
fn long_values_are_cut_where_they_are_told() {
    let program = compile(&with("/input/0/pii", json!(false))).expect("compiles");
    let mut rows = Rows::default();
    row(&program, &mut rows, &[("card", Text(&"é".repeat(1000)))]);
    let is = rows.faults(0).next().and_then(|fault| fault.is.clone()).expect("a fault");
    assert_eq!(is, format!("\"{}…\"", "é".repeat(60)));
}

proptest! {
    #[test]
    fn the_order_in_which_fields_are_sent_changes_nothing(order in Just([0, 1, 2, 3, 4, 5]).prop_shuffle(), amount in 0.0..10_000.0) {
        let fields = [
            ("card", Text("77")), ("amount", Float(amount)), ("items", Int(2)),
            ("country", Text("XX")), ("channel", Text("shop")), ("online", Bool(true)),
        ];
        let program = good();
        let (mut one, mut other) = (Rows::default(), Rows::default());
        row(&program, &mut one, &fields);
        row(&program, &mut other, &order.map(|place| fields[place]));
        prop_assert!(one.sound(0) && other.sound(0));
        for slot in 1..7 {
            prop_assert_eq!(one.value(0, slot), other.value(0, slot));
        }
    }

    #[test]
    fn no_value_makes_the_reader_panic(name in "\\PC{0,80}", text in "\\PC{0,80}", int: i64, float: f64) {
        let program = good();
        let mut rows = Rows::default();
        for value in [Text(&text), Int(int), Float(float), Null, Scalar::Other("a list")] {
            let names = ["card", "amount", "items", "country", "at", name.as_str()];
            row(&program, &mut rows, &names.map(|name| (name, value)));
        }
    }
}
