//! Each transform against its definition, over numbers and texts of every kind.

use super::good::{columns_of, columns_program};
use flyball_core::Scalar;
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use Scalar::{Bool, Float, Int, Null, Text};

/// A row's columns after these transforms. Fields: numbers x, y; int n; bool b; texts s, t; category c; time
/// at.
fn after(transforms: Json, columns: &[&str], fields: &[(&str, Scalar<'_>)]) -> Vec<f64> {
    columns_of(&columns_program(&input(), &transforms, columns).expect("compiles"), fields)
}

fn input() -> Json {
    let field = |name: &str, kind: &str| json!({"name": name, "type": kind, "required": false});
    json!([
        field("x", "float"), field("y", "float"), field("n", "int"), field("b", "bool"), field("s", "string"),
        field("t", "string"), field("at", "time"),
        {"name": "c", "type": "category", "values": ["red", "green"], "unknown": "other", "required": false},
    ])
}

fn refused(transforms: Json, columns: &[&str]) -> Vec<String> {
    let faults = columns_program(&input(), &transforms, columns).expect_err("refused");
    faults.0.into_iter().map(|fault| fault.path).collect()
}

/// Equal, or both missing.
fn same(left: f64, right: f64) -> bool {
    left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan())
}

fn finite() -> impl Strategy<Value = f64> {
    prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL
}

#[test]
fn what_is_missing_stays_so_until_it_is_imputed() {
    let ops = [
        json!({"op": "scale", "of": ["x"], "factor": [2.0], "offset": [1.0]}),
        json!({"op": "standardize", "of": ["x"], "mean": [2.0], "scale": [1.0]}),
        json!({"op": "log", "of": ["x"]}),
        json!({"op": "log1p", "of": ["x"]}),
        json!({"op": "clip", "of": ["x"], "min": 0.0}),
        json!({"op": "bucket", "of": ["x"], "edges": [1.0]}),
        json!({"op": "cast", "of": ["x"], "to": "int"}),
        json!({"op": "cast", "of": ["x"], "to": "bool"}),
    ];
    for op in ops {
        assert!(after(json!([op.clone()]), &["x"], &[])[0].is_nan(), "{op}");
    }
    let ops = [
        json!({"op": "ordinal", "of": ["s"], "values": [["a"]], "unknown": -1.0}),
        json!({"op": "encode", "of": ["s"], "maps": [{"a": 1.0}], "default": [2.0]}),
        json!({"op": "hash", "of": ["s"], "buckets": 8}),
        json!({"op": "cast", "of": ["s"], "to": "float"}),
    ];
    for op in ops {
        assert!(after(json!([op.clone()]), &["s"], &[])[0].is_nan(), "{op}");
    }
    let one_hot = json!([{"op": "one_hot", "of": ["s"], "values": [["a", "b"]]}]);
    assert_eq!(after(one_hot, &["s=a", "s=b"], &[]), [0.0, 0.0]);
    let cross =
        json!([{"op": "cross", "of": ["s", "t"], "into": "st"}, {"op": "hash", "of": ["st"], "buckets": 8}]);
    assert!(after(cross, &["st"], &[("s", Text("a"))])[0].is_nan());
}

#[test]
fn impute_puts_its_value_in_and_the_indicator_says_where() {
    let impute = json!([
        {"op": "impute", "of": ["x", "s", "at", "b"], "values": [7.5, "a", "1970-01-01T05:00:00Z", true], "indicator": true},
        {"op": "ordinal", "of": ["s"], "values": [["b", "a"]], "unknown": -1.0},
        {"op": "date_parts", "of": ["at"], "parts": ["hour"]},
    ]);
    let columns = ["x", "x=missing", "s", "s=missing", "at.hour", "at=missing", "b", "b=missing"];
    assert_eq!(after(impute.clone(), &columns, &[]), [7.5, 1.0, 1.0, 1.0, 5.0, 1.0, 1.0, 1.0]);
    let sent = [("x", Int(2)), ("s", Text("b")), ("at", Int(0)), ("b", Bool(false))];
    assert_eq!(after(impute, &columns, &sent), [2.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn casts_go_where_they_are_exact_and_nowhere_else() {
    let cast = |of: &str, to: &str| json!([{"op": "cast", "of": [of], "to": to}]);
    assert_eq!(after(cast("x", "int"), &["x"], &[("x", Float(-2.9))]), [-2.0]);
    assert_eq!(after(cast("x", "bool"), &["x"], &[("x", Float(-0.1))]), [1.0]);
    assert_eq!(after(cast("s", "float"), &["s"], &[("s", Text("1e3"))]), [1000.0]);
    assert_eq!(after(cast("s", "int"), &["s"], &[("s", Text("12.9"))]), [12.0]);
    assert!(after(cast("s", "float"), &["s"], &[("s", Text("inf"))])[0].is_nan());
    assert!(after(cast("s", "float"), &["s"], &[("s", Text(" 1"))])[0].is_nan());
    assert_eq!(after(cast("at", "float"), &["at"], &[("at", Float(1.5))]), [1.5]);
    let text = json!([{"op": "cast", "of": ["n"], "to": "text"}, {"op": "one_hot", "of": ["n"], "values": [["-3", "4"]]}]);
    assert_eq!(after(text, &["n=-3", "n=4"], &[("n", Int(-3))]), [1.0, 0.0]);
    assert_eq!(refused(cast("x", "text"), &["y"]), ["transforms[0].of"]);
    assert_eq!(refused(cast("s", "bool"), &["y"]), ["transforms[0].of"]);
    assert_eq!(refused(cast("at", "text"), &["y"]), ["transforms[0].of"]);
}

#[test]
fn date_parts_are_in_utc_and_monday_is_zero() {
    let parts = ["year", "month", "day", "hour", "minute", "weekday", "weekend"];
    let columns: Vec<_> = parts.iter().map(|part| format!("at.{part}")).collect();
    let columns: Vec<_> = columns.iter().map(String::as_str).collect();
    let transforms = json!([{"op": "date_parts", "of": ["at"], "parts": parts}]);
    let saturday = after(transforms.clone(), &columns, &[("at", Text("2024-06-01T01:30:59.9+02:00"))]);
    assert_eq!(saturday, [2024.0, 5.0, 31.0, 23.0, 30.0, 4.0, 0.0], "it is still Friday in UTC");
    let before = after(transforms, &columns, &[("at", Int(-1))]);
    assert_eq!(before, [1969.0, 12.0, 31.0, 23.0, 59.0, 2.0, 0.0]);
    assert_eq!(
        refused(json!([{"op": "date_parts", "of": ["x"], "parts": ["hour"]}]), &["y"]),
        ["transforms[0].of"]
    );
}

#[test]
fn a_hash_is_murmur3_as_others_compute_it() {
    // Test vectors of the reference implementation.
    let vectors: [(&str, u32); 4] =
        [("", 0), ("a", 0x3c25_69b2), ("abc", 0xb3dd_93fa), ("Hello, world!", 0xc036_3e43)];
    let hash = json!([{"op": "hash", "of": ["s"], "buckets": u32::MAX}]);
    for (text, hashed) in vectors {
        assert_eq!(after(hash.clone(), &["s"], &[("s", Text(text))]), [f64::from(hashed)], "{text:?}");
    }
    let few = json!([{"op": "hash", "of": ["s"], "buckets": 10}]);
    assert_eq!(after(few, &["s"], &[("s", Text("abc"))]), [f64::from(0xb3dd_93fa_u32 % 10)]);
}

#[test]
fn categories_and_texts_are_encoded_alike() {
    let encode = |of: &str| json!([{"op": "encode", "of": [of], "maps": [{"red": 0.5, "green": 0.25, "other": 9.0}], "default": [1.0]}]);
    for (text, code) in [("red", 0.5), ("green", 0.25), ("other", 9.0)] {
        assert_eq!(after(encode("c"), &["c"], &[("c", Text(text))]), [code]);
        assert_eq!(after(encode("s"), &["s"], &[("s", Text(text))]), [code]);
    }
    assert_eq!(
        after(encode("c"), &["c"], &[("c", Text("blue"))]),
        [9.0],
        "an unknown value is the category's `unknown`"
    );
    assert_eq!(after(encode("s"), &["s"], &[("s", Text("blue"))]), [1.0]);
    let imputed = json!([{"op": "impute", "of": ["c"], "values": ["none"]},
                         {"op": "ordinal", "of": ["c"], "values": [["none", "red"]], "unknown": -1.0}]);
    assert_eq!(after(imputed.clone(), &["c"], &[]), [0.0]);
    assert_eq!(after(imputed.clone(), &["c"], &[("c", Text("red"))]), [1.0]);
    assert_eq!(after(imputed, &["c"], &[("c", Text("green"))]), [-1.0]);
}

#[test]
fn a_cross_of_texts_joins_them_and_keeps_what_it_was_made_of() {
    let cross = json!([
        {"op": "cast", "of": ["n"], "to": "text"},
        {"op": "cross", "of": ["c", "n", "s"], "into": "joined"},
        {"op": "cross", "of": ["joined", "t"], "into": "again"},
        {"op": "one_hot", "of": ["again"], "values": [["red|12|é|", "red|12|é|x"]]},
        {"op": "one_hot", "of": ["n"], "values": [["12"]]},
    ]);
    let fields = [("c", Text("red")), ("n", Int(12)), ("s", Text("é")), ("t", Text("x"))];
    assert_eq!(after(cross, &["again=red|12|é|", "again=red|12|é|x", "n=12"], &fields), [0.0, 1.0, 1.0]);
}

#[test]
fn transforms_that_make_what_is_there_already_are_refused() {
    let twice = json!([{"op": "one_hot", "of": ["s"], "values": [["a"]]}, {"op": "cross", "of": ["x", "y"], "into": "s=a"}]);
    assert_eq!(refused(twice, &["y"]), ["transforms[1].into"]);
    let gone =
        json!([{"op": "one_hot", "of": ["s"], "values": [["a"]]}, {"op": "hash", "of": ["s"], "buckets": 4}]);
    assert_eq!(refused(gone, &["y"]), ["transforms[1].of"]);
}

#[test]
fn bools_and_ints_are_numbers_from_the_start() {
    assert_eq!(
        after(json!([]), &["b", "n", "x"], &[("b", Bool(true)), ("n", Int(-4)), ("x", Null)])[..2],
        [1.0, -4.0]
    );
}

proptest! {
    #[test]
    fn scale_and_standardize_round_after_each_operation(x in finite(), a in finite(), b in -1e300..1e300_f64) {
        prop_assume!(a != 0.0);
        let scale = json!([{"op": "scale", "of": ["x"], "factor": [a], "offset": [b]}]);
        let product = std::hint::black_box(x * a);
        prop_assert!(same(after(scale, &["x"], &[("x", Float(x))])[0], product + b));
        let standardize = json!([{"op": "standardize", "of": ["x"], "mean": [b], "scale": [a]}]);
        let centred = std::hint::black_box(x - b);
        prop_assert!(same(after(standardize, &["x"], &[("x", Float(x))])[0], centred / a));
    }

    #[test]
    fn logarithms_are_the_c_librarys(x in finite()) {
        let log = after(json!([{"op": "log", "of": ["x"]}]), &["x"], &[("x", Float(x))])[0];
        let log1p = after(json!([{"op": "log1p", "of": ["x"]}]), &["x"], &[("x", Float(x))])[0];
        prop_assert!(same(log, x.ln()) && same(log1p, x.ln_1p()));
    }

    #[test]
    fn clip_stays_within_and_leaves_alone_what_is_within(x in finite(), a in -1e6..1e6_f64, b in -1e6..1e6_f64) {
        let (min, max) = (a.min(b), a.max(b));
        let clipped = after(json!([{"op": "clip", "of": ["x"], "min": min, "max": max}]), &["x"], &[("x", Float(x))])[0];
        prop_assert!((min..=max).contains(&clipped));
        prop_assert_eq!(clipped == x, (min..=max).contains(&x));
    }

    #[test]
    fn a_bucket_counts_the_edges_at_or_below(x in -10.0..10.0_f64, edges in prop::collection::btree_set(-100_i32..100, 1..20)) {
        let edges: Vec<_> = edges.into_iter().map(|edge| f64::from(edge) / 10.0).collect();
        let below = edges.iter().filter(|edge| **edge <= x).count();
        let bucket = json!([{"op": "bucket", "of": ["x"], "edges": edges}]);
        prop_assert_eq!(after(bucket.clone(), &["x"], &[("x", Float(x))]), [below as f64]);
        let at = edges.iter().filter(|edge| **edge <= edges[0]).count();
        prop_assert_eq!(after(bucket, &["x"], &[("x", Float(edges[0]))]), [at as f64]);
    }

    #[test]
    fn one_hot_and_ordinal_find_the_same_place(values in prop::collection::btree_set("\\PC{0,6}", 1..10), pick: prop::sample::Index) {
        let values: Vec<_> = values.into_iter().collect();
        let place = pick.index(values.len());
        let columns: Vec<_> = values.iter().map(|value| format!("s={value}")).collect();
        let columns: Vec<_> = columns.iter().map(String::as_str).collect();
        let sent = [("s", Text(&values[place]))];
        let hot = after(json!([{"op": "one_hot", "of": ["s"], "values": [values]}]), &columns, &sent);
        let ones: Vec<_> = hot.iter().enumerate().filter(|(_, x)| **x == 1.0).map(|(at, _)| at).collect();
        prop_assert_eq!(ones, vec![place]);
        prop_assert_eq!(hot.iter().sum::<f64>(), 1.0);
        let ordinal = json!([{"op": "ordinal", "of": ["s"], "values": [values], "unknown": -1.0}]);
        prop_assert_eq!(after(ordinal, &["s"], &sent), [place as f64]);
    }

    #[test]
    fn a_hash_is_a_whole_number_below_its_buckets(text in "\\PC{0,40}", buckets in 1_u32..1000) {
        let hash = json!([{"op": "hash", "of": ["s"], "buckets": buckets}]);
        let hashed = after(hash, &["s"], &[("s", Text(&text))])[0];
        prop_assert!(hashed.fract() == 0.0 && (0.0..f64::from(buckets)).contains(&hashed));
    }

    #[test]
    fn a_cross_of_numbers_multiplies_from_the_left(x in finite(), y in finite(), n in -1000_i64..1000) {
        let cross = json!([{"op": "cross", "of": ["x", "y", "n"], "into": "all"}]);
        let product = after(cross, &["all", "x"], &[("x", Float(x)), ("y", Float(y)), ("n", Int(n))]);
        prop_assert!(same(product[0], x * y * n as f64));
        prop_assert!(same(product[1], x), "what was crossed stays");
    }

    #[test]
    fn imputing_changes_nothing_that_is_there(x in finite(), value in finite()) {
        let impute = json!([{"op": "impute", "of": ["x", "y"], "values": [value, value]}]);
        let imputed = after(impute, &["x", "y"], &[("x", Float(x))]);
        prop_assert!(same(imputed[0], x) && same(imputed[1], value));
    }
}
