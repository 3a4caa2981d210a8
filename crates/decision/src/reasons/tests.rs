//! Contributions against Shapley's definition, invalid sidecars, and the order of reasons.

use super::*;
use crate::document::{PolicyDocument, ReasonsDocument};
use proptest::prelude::*;
use serde_json::{Value as Json, json};
use std::sync::Arc;

const FEATURES: usize = 4;

/// A naive tree for comparison, without edges, points or integrals.
#[derive(Clone, Debug)]
enum Drawn {
    Leaf { value: f64, cover: f64 },
    Split { feature: usize, threshold: f64, missing: &'static str, left: Box<Drawn>, right: Box<Drawn> },
}

impl Drawn {
    fn cover(&self) -> f64 {
        match self {
            Drawn::Leaf { cover, .. } => *cover,
            Drawn::Split { left, right, .. } => left.cover() + right.cover(),
        }
    }

    /// The row's expected value with only the features in `known`.
    fn expected(&self, row: &[f64], known: u32) -> f64 {
        match self {
            Drawn::Leaf { value, .. } => *value,
            Drawn::Split { feature, threshold, missing, left, right } => {
                if known & (1 << feature) == 0 {
                    let (l, r) = (left.cover(), right.cover());
                    return (l * left.expected(row, known) + r * right.expected(row, known)) / (l + r);
                }
                let value = row[*feature];
                let goes_left = match *missing {
                    "left" if value.is_nan() => true,
                    "right" if value.is_nan() => false,
                    "zero_left" if value.is_nan() || value == 0.0 => true,
                    "zero_right" if value.is_nan() || value == 0.0 => false,
                    "as_zero" if value.is_nan() => 0.0 <= *threshold,
                    _ => value <= *threshold,
                };
                if goes_left { left.expected(row, known) } else { right.expected(row, known) }
            }
        }
    }

    /// Each feature's mean added value over all orders.
    fn shapley(&self, row: &[f64]) -> Vec<f64> {
        let factorial = |n: u32| (1..=n).map(f64::from).product::<f64>();
        let all = FEATURES as u32;
        (0..all)
            .map(|feature| {
                let without = (0..1_u32 << all).filter(|set| set & (1 << feature) == 0);
                without
                    .map(|set| {
                        let size = set.count_ones();
                        let weight = factorial(size) * factorial(all - size - 1) / factorial(all);
                        weight * (self.expected(row, set | (1 << feature)) - self.expected(row, set))
                    })
                    .sum()
            })
            .collect()
    }

    fn write(&self, into: &mut Lists) -> i32 {
        match self {
            Drawn::Leaf { value, cover } => {
                into.value.push(*value);
                into.cover.push(*cover);
                -(into.value.len() as i32)
            }
            Drawn::Split { feature, threshold, missing, left, right } => {
                let here = into.feature.len();
                into.feature.push(*feature);
                into.threshold.push(*threshold);
                into.missing.push(missing);
                into.left.push(0);
                into.right.push(0);
                into.left[here] = left.write(into);
                into.right[here] = right.write(into);
                here as i32
            }
        }
    }

    fn json(&self) -> Json {
        let mut lists = Lists::default();
        self.write(&mut lists);
        json!({"feature": lists.feature, "threshold": lists.threshold, "missing": lists.missing, "left": lists.left,
               "right": lists.right, "value": lists.value, "cover": lists.cover})
    }
}

#[derive(Default)]
struct Lists {
    feature: Vec<usize>,
    threshold: Vec<f64>,
    missing: Vec<&'static str>,
    left: Vec<i32>,
    right: Vec<i32>,
    value: Vec<f64>,
    cover: Vec<f64>,
}

fn sidecar(columns: usize, trees: &[Json]) -> Json {
    json!({"format": "flyball.trees/1", "columns": columns, "margin": "log-odds", "base": 0.25, "below": "<=",
           "trees": trees})
}

fn explained(trees: &Trees, row: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; row.len()];
    trees.contributions(row, &mut Workspace::default(), &mut out);
    out
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let leaf = (-3.0..3.0_f64, 1.0..200.0_f64)
        .prop_map(|(value, cover)| Drawn::Leaf { value, cover: cover.round() });
    let missing = prop::sample::select(vec!["left", "right", "zero_left", "zero_right", "as_zero"]);
    leaf.prop_recursive(6, 60, 2, move |inner| {
        (0..FEATURES, -2..3_i32, missing.clone(), inner.clone(), inner).prop_map(
            |(feature, threshold, missing, left, right)| Drawn::Split {
                feature,
                threshold: f64::from(threshold) / 2.0,
                missing,
                left: Box::new(left),
                right: Box::new(right),
            },
        )
    })
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![4 => -2.0..2.0_f64, 2 => Just(0.5), 1 => Just(0.0), 1 => Just(f64::NAN)]
}

proptest! {
    #[test]
    fn contributions_are_shapleys_and_add_up_to_the_margin(
        trees in prop::collection::vec(drawn(), 1..4),
        row in prop::collection::vec(value(), FEATURES),
    ) {
        let text = sidecar(FEATURES, &trees.iter().map(Drawn::json).collect::<Vec<_>>());
        let read = Trees::read(text.to_string().as_bytes()).unwrap();
        let got = explained(&read, &row);
        for (feature, got) in got.iter().enumerate() {
            let want: f64 = trees.iter().map(|tree| tree.shapley(&row)[feature]).sum();
            prop_assert!((got - want).abs() < 1e-10, "feature {feature}: {got} for {want}");
        }
        let margin = 0.25 + trees.iter().map(|tree| tree.expected(&row, u32::MAX)).sum::<f64>();
        prop_assert!((got.iter().sum::<f64>() + read.base() - margin).abs() < 1e-10);
    }

    #[test]
    fn odd_bytes_are_refused_or_read_and_never_end_the_program(
        tree in drawn(), at in any::<prop::sample::Index>(), to in any::<u8>(), cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = sidecar(FEATURES, &[tree.json()]).to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = to;
        if cut.index(4) == 0 {
            bytes.truncate(cut.index(bytes.len()));
        }
        match Trees::read(&bytes) {
            Ok(trees) => { explained(&trees, &vec![0.5; trees.columns()]); }
            Err(text) => prop_assert!(!text.is_empty()),
        }
    }

    #[test]
    fn odd_numbers_are_refused_or_read_and_never_end_the_program(
        tree in drawn(), key in 0..7_usize, at in any::<prop::sample::Index>(), number in any::<i32>(),
    ) {
        let mut tree = tree.json();
        let list = ["feature", "threshold", "left", "right", "value", "cover", "missing"][key];
        let list = tree[list].as_array_mut().unwrap();
        if !list.is_empty() {
            let at = at.index(list.len());
            list[at] = json!(if number % 3 == 0 { number } else { number % 9 });
        }
        if let Ok(trees) = Trees::read(sidecar(FEATURES, &[tree]).to_string().as_bytes()) {
            explained(&trees, &[0.5, f64::NAN, -1.0, 0.0]);
        }
    }
}

/// A chain of splits that cycles through the features.
fn chain(splits: usize, features: usize) -> Json {
    let feature: Vec<_> = (0..splits).map(|split| split % features).collect();
    let right: Vec<_> = (1..splits as i64).chain([-(splits as i64) - 1]).collect();
    let left: Vec<_> = (1..=splits as i64).map(|leaf| -leaf).collect();
    json!({"feature": feature, "threshold": vec![0.5; splits], "missing": vec!["left"; splits], "left": left, "right": right,
           "value": (0..=splits).collect::<Vec<_>>(), "cover": vec![2.0; splits + 1]})
}

#[test]
fn paths_of_every_number_of_points_add_up_to_the_margin() {
    for features in [1, 8, 9, 16, 17, 32, 33, 64] {
        let trees =
            Trees::read(sidecar(64, &[chain(features * 2, features)]).to_string().as_bytes()).unwrap();
        let row: Vec<f64> = (0..64).map(|place| if place % 7 == 6 { 0.0 } else { 1.0 }).collect();
        let leaf = if features > 6 { 6.0 } else { features as f64 * 2.0 };
        let sum = explained(&trees, &row).iter().sum::<f64>() + trees.base();
        assert!((sum - 0.25 - leaf).abs() < 1e-9, "{features} features: {sum} for {leaf}");
    }
}

#[test]
fn a_path_that_is_too_long_is_refused_with_what_is_allowed() {
    let long = |splits, features| Trees::read(sidecar(99, &[chain(splits, features)]).to_string().as_bytes());
    assert_eq!(long(65, 65).unwrap_err(), "trees[0] with at most 64 features on one path; one has 65");
    assert_eq!(long(513, 2).unwrap_err(), "trees[0] with at most 512 splits on one path");
    assert!(long(512, 2).is_ok());
}

#[test]
fn categories_go_left_and_what_is_missing_negative_or_unknown_goes_right() {
    let tree = json!({"feature": [0], "threshold": [0.0], "missing": ["right"], "left": [-1], "right": [-2],
        "categories": {"0": [0, 3, 40]}, "value": [1.0, -1.0], "cover": [1.0, 3.0]});
    let trees = Trees::read(sidecar(1, &[tree]).to_string().as_bytes()).unwrap();
    let side = |value: f64| (explained(&trees, &[value])[0] + trees.base() - 0.25).signum();
    // LightGBM truncates to a whole number: -0.5 is category 0.
    assert_eq!([0.0, 3.0, 3.9, 40.0, -0.5].map(side), [1.0; 5]);
    assert_eq!([1.0, 4.0, -1.0, f64::NAN, f64::INFINITY, 1e30].map(side), [-1.0; 6]);
}

#[test]
fn a_split_that_sends_only_smaller_values_left_sends_its_threshold_right() {
    let tree = json!({"feature": [0], "threshold": [0.5], "missing": ["right"], "left": [-1], "right": [-2],
        "value": [1.0, -1.0], "cover": [1.0, 1.0]});
    let mut text = sidecar(1, &[tree]);
    let side =
        |text: &Json| explained(&Trees::read(text.to_string().as_bytes()).unwrap(), &[0.5])[0].signum();
    assert_eq!(side(&text), 1.0);
    text["below"] = json!("<");
    assert_eq!(side(&text), -1.0);
}

#[test]
fn every_fault_of_a_sidecar_says_what_is_allowed() {
    let good = sidecar(2, &[chain(2, 2)]);
    let cases = [
        ("/format", json!("flyball.trees/2"), "format \"flyball.trees/1\"; write the file again"),
        ("/columns", json!(0), "1 to 65536 columns; it has 0"),
        ("/trees", json!([]), "1 to 20000 trees; it has 0"),
        ("/below", json!("=="), "unknown variant `==`"),
        ("/base", json!(null), "invalid type: null"),
        ("/trees/0/feature/1", json!(2), "trees[0] with features below 2, the number of columns; one is 2"),
        ("/trees/0/value", json!([1.0]), "trees[0] with 3 values and covers, one more than splits"),
        ("/trees/0/missing", json!(["left"]), "trees[0] with 2 entries in each list of its splits"),
        ("/trees/0/cover/1", json!(0.0), "trees[0] with covers above 0; one is 0"),
        (
            "/trees/0/right/0",
            json!(0),
            "trees[0] with children that come later and have one parent; split 0 has 0",
        ),
        (
            "/trees/0/right/0",
            json!(-1),
            "trees[0] with children that come later and have one parent; split 0 has -1",
        ),
        (
            "/trees/0/left/1",
            json!(-9),
            "trees[0] with children that come later and have one parent; split 1 has -9",
        ),
    ];
    assert!(Trees::read(good.to_string().as_bytes()).is_ok());
    for (place, value, allowed) in cases {
        let mut bad = good.clone();
        *bad.pointer_mut(place).unwrap() = value;
        let text = Trees::read(bad.to_string().as_bytes()).unwrap_err();
        assert!(text.contains(allowed), "{place}: {text}");
    }
    let mut bad = good;
    bad["trees"][0]["categories"] = json!({"1": [3, 3]});
    assert!(Trees::read(bad.to_string().as_bytes()).unwrap_err().contains("threshold 0"));
    bad["trees"][0]["threshold"][1] = json!(0.0);
    bad["trees"][0]["missing"][1] = json!("right");
    assert!(Trees::read(bad.to_string().as_bytes()).unwrap_err().contains("rising order"));
}

fn compiled(document: Json, file: Option<&[u8]>) -> (Option<Explainer>, Vec<String>) {
    let mut faults = Faults::default();
    let document = serde_json::from_value(document).unwrap();
    let explainer = Explainer::compile(&document, file, 2, "models.m.explain", &mut faults);
    (explainer, faults.0.into_iter().map(|fault| format!("{} {}", fault.path, fault.allowed)).collect())
}

#[test]
fn an_explainer_for_another_number_of_columns_is_refused_with_its_path() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let trees = json!({"by": "trees", "path": "m.trees.json", "digest": digest});
    let file = sidecar(3, &[chain(2, 2)]).to_string();
    let (none, faults) = compiled(trees.clone(), Some(file.as_bytes()));
    assert!(none.is_none());
    assert_eq!(faults, ["models.m.explain.path a file for the model's 2 columns; this one is for 3"]);
    assert_eq!(compiled(trees, None).1, ["models.m.explain.path a file that can be read"]);
    let (none, faults) = compiled(json!({"by": "linear", "coefficients": [1.0], "means": []}), None);
    assert!(none.is_none());
    assert_eq!(faults.len(), 2);
    assert!(faults[1].starts_with("models.m.explain.means 2 finite numbers"));
    assert!(compiled(json!({"by": "ablation", "baseline": [1.0, 2.0]}), None).0.is_some());
}

#[test]
fn linear_contributions_are_counted_from_the_means() {
    let (linear, _) =
        compiled(json!({"by": "linear", "coefficients": [2.0, -1.0], "means": [0.5, 3.0]}), None);
    let Some(Explainer::Linear(linear)) = linear else { panic!("not linear") };
    let mut out = [0.0; 2];
    linear.contributions(&[1.5, 1.0], &mut out);
    assert_eq!(out, [2.0, 2.0]);
}

#[test]
fn ablation_asks_only_about_columns_that_are_not_at_their_baseline() {
    let (ablation, _) = compiled(json!({"by": "ablation", "baseline": [0.0, 7.0]}), None);
    let Some(Explainer::Ablation(ablation)) = ablation else { panic!("not ablation") };
    let (mut rows, mut changed) = (Vec::new(), Vec::new());
    ablation.perturb(&[0.0, 3.0], &mut rows, &mut changed);
    assert_eq!((rows.as_slice(), changed.as_slice()), ([0.0, 7.0].as_slice(), [1].as_slice()));
    let mut out = [0.0; 2];
    ablation.contributions(0.75, &[0.5], &changed, &mut out);
    assert_eq!(out, [0.0, 0.25]);
}

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

#[test]
fn reasons_are_summed_by_source_and_told_largest_first_with_ties_by_name() {
    let reasons: ReasonsDocument = serde_json::from_value(json!({
        "texts": {"R1": "amount is unusual"}, "codes": {"amount": "R1"}
    }))
    .unwrap();
    let columns = names(&["country", "country", "amount", "zeta", "beta", "mcc", "age"]);
    let table = ReasonTable::new(&columns, &reasons);
    let contributions = [0.5, -0.2, 0.4, 0.1, 0.1, -1.0, 0.0];
    let told = |end, most| {
        let reasons = table.rank(&contributions, end, most, &mut Vec::new());
        reasons.into_iter().map(|reason| reason.contribution.unwrap().0.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(told(AdverseEnd::High, 9), ["amount", "country", "beta", "zeta"]);
    assert_eq!(told(AdverseEnd::High, 2), ["amount", "country"]);
    assert_eq!(told(AdverseEnd::Low, 9), ["mcc"]);
    let first = &table.rank(&contributions, AdverseEnd::High, 1, &mut Vec::new())[0];
    assert_eq!((&*first.code, first.text.as_deref()), ("R1", Some("amount is unusual")));
    let other = &table.rank(&contributions, AdverseEnd::Low, 1, &mut Vec::new())[0];
    assert_eq!((&*other.code, other.text.as_deref()), ("mcc", None));
}

#[test]
fn what_is_no_number_is_no_reason() {
    let table = ReasonTable::new(&names(&["a", "b"]), &ReasonsDocument::default());
    assert!(table.rank(&[f64::NAN, f64::INFINITY], AdverseEnd::High, 4, &mut Vec::new()).is_empty());
}

#[test]
fn the_adverse_end_is_low_only_where_the_lowest_band_is_worse_than_the_highest() {
    let policy = |bands: Json| -> PolicyDocument {
        serde_json::from_value(json!({"outcomes": ["pass", "review", "reject"], "bands": bands})).unwrap()
    };
    let fraud = policy(json!([{"name": "pass", "to": 0.3}, {"name": "reject", "from": 0.3}]));
    let credit =
        policy(json!([{"name": "ok", "outcome": "pass", "from": 600.0}, {"name": "reject", "to": 600.0}]));
    assert_eq!(AdverseEnd::of(&fraud), AdverseEnd::High);
    assert_eq!(AdverseEnd::of(&credit), AdverseEnd::Low);
}
