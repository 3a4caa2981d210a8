//! The outcome of a row against a naive reference.

use super::*;
use proptest::prelude::*;

fn verdict(policy: &Policy, rows: &Rows, score: Option<f64>) -> (String, Option<String>, Vec<u16>) {
    let Verdict { outcome, band, fired } = policy.evaluate(rows, 0, score).unwrap();
    (policy.outcome(outcome).to_string(), band.map(|band| policy.band(band).to_string()), fired.to_vec())
}

fn told(outcome: &str, band: Option<&str>, fired: &[u16]) -> (String, Option<String>, Vec<u16>) {
    (outcome.to_owned(), band.map(str::to_owned), fired.to_vec())
}

#[test]
fn the_most_severe_of_band_and_rules_counts() {
    let policy = policy(json!({"rules": [
        {"when": "a", "then": "reject"},
        {"when": "b", "then": "pass"},
        {"when": "c", "reason": "R1"},
    ]}));
    let all = rows([Some(true); 3], None, None);
    let mild = rows([Some(false), Some(true), Some(false)], None, None);
    assert_eq!(verdict(&policy, &all, Some(0.1)), told("reject", Some("pass"), &[0, 1, 2]));
    assert_eq!(verdict(&policy, &mild, Some(0.3)), told("review", Some("review"), &[1]));
    assert_eq!(verdict(&policy, &mild, Some(1.0)), told("reject", Some("reject"), &[1]));
}

#[test]
fn without_a_score_rules_decide_and_without_rules_the_second_most_severe_outcome() {
    let policy = policy(
        json!({"rules": [{"when": "a", "then": "pass"}, {"when": "score > 0.5", "then": "reject"}, {"when": "b", "reason": "R1"}]}),
    );
    let row = |a, b| rows([Some(a), Some(b), None], None, None);
    assert_eq!(verdict(&policy, &row(true, false), None), told("pass", None, &[0]));
    assert_eq!(verdict(&policy, &row(false, true), None), told("review", None, &[2]));
    assert_eq!(verdict(&policy, &row(false, false), Some(0.6)), told("reject", Some("review"), &[1]));
}

#[test]
fn a_final_rule_decides_alone_and_ends_the_asking() {
    let policy = policy(json!({"rules": [
        {"when": "c", "then": "reject", "reason": "R1", "priority": 1},
        {"when": "a", "then": "pass", "final": true},
        {"when": "b", "then": "reject"},
    ]}));
    assert_eq!(
        verdict(&policy, &rows([Some(true); 3], None, None), Some(0.9)),
        told("pass", Some("reject"), &[0, 1])
    );
    let not_final = rows([Some(false), Some(true), Some(false)], None, None);
    assert_eq!(verdict(&policy, &not_final, Some(0.1)), told("reject", Some("pass"), &[2]));
}

#[test]
fn a_condition_that_cannot_be_told_is_what_the_rule_takes_it_for() {
    let policy = policy(json!({"rules": [
        {"when": "amount > 5", "then": "review"},
        {"when": "amount > 5", "then": "reject", "missing": true},
    ]}));
    assert_eq!(verdict(&policy, &rows([None; 3], None, None), Some(0.1)), told("reject", Some("pass"), &[1]));
    assert_eq!(
        verdict(&policy, &rows([None; 3], Some(5.0), None), Some(0.1)),
        told("pass", Some("pass"), &[])
    );
}

#[test]
fn the_first_segment_that_holds_has_the_bands_and_a_missing_one_does_not_hold() {
    let policy = policy(json!({"segments": [
        {"when": "country == 'FR'", "bands": [{"name": "strict", "outcome": "reject"}]},
        {"when": "country in ['FR', 'DE']", "bands": [{"name": "mild", "outcome": "pass"}]},
    ]}));
    let of = |country| verdict(&policy, &rows([None; 3], None, country), Some(0.5));
    assert_eq!(of(Some(1)), told("reject", Some("strict"), &[]));
    assert_eq!(of(Some(0)), told("pass", Some("mild"), &[]));
    assert_eq!(of(None), told("review", Some("review"), &[]));
}

#[test]
fn a_guard_lets_its_ends_through_and_neither_nan_nor_anything_beyond() {
    let policy =
        policy(json!({"guards": [{"of": "score", "min": 0.0, "max": 1.0}, {"of": "amount", "max": 10.0}]}));
    let row = rows([None; 3], None, None);
    for score in [0.0, 1.0] {
        assert!(policy.evaluate(&row, 0, Some(score)).is_ok());
    }
    for (score, words) in [
        (1.5, "score is 1.5; allowed: 0 to 1"),
        (-0.1, "score is -0.1; allowed: 0 to 1"),
        (f64::NAN, "score is NaN; allowed: 0 to 1"),
    ] {
        assert_eq!(policy.evaluate(&row, 0, Some(score)).unwrap_err().to_string(), words);
    }
    assert!(policy.inputs_guarded(&row, 0).is_ok());
    assert!(policy.inputs_guarded(&rows([None; 3], Some(10.0), None), 0).is_ok());
    let beyond = policy.inputs_guarded(&rows([None; 3], Some(10.5), None), 0).unwrap_err();
    assert_eq!(beyond.to_string(), "amount is 10.5; allowed: at most 10");
    assert!(policy.inputs_guarded(&rows([None; 3], Some(f64::NAN), None), 0).is_err());
}

#[test]
fn a_score_that_is_no_finite_number_is_refused_without_a_guard_too() {
    let told = |guards: Json, score: f64| {
        let bands = json!([{"name": "pass", "to": 0.5}, {"name": "reject", "from": 0.5}]);
        let policy = policy(json!({"guards": guards, "bands": bands}));
        policy.evaluate(&rows([None; 3], None, None), 0, Some(score)).unwrap_err().to_string()
    };
    assert_eq!(told(json!([]), f64::NAN), "score is NaN; allowed: a finite number");
    assert_eq!(told(json!([]), f64::INFINITY), "score is inf; allowed: a finite number");
    assert_eq!(told(json!([]), f64::NEG_INFINITY), "score is -inf; allowed: a finite number");
    let above = json!([{"of": "score", "min": 0.0}]);
    assert_eq!(told(above, f64::INFINITY), "score is inf; allowed: at least 0, and finite");
}

#[test]
fn reasons_adverse_outcomes_and_the_kill_switch_are_told() {
    let policy = policy(json!({
        "rules": [{"when": "a", "reason": "R1"}, {"when": "b", "then": "pass"}, {"when": "c", "reason": "R2"}],
        "kill_switch": {"outcome": "review", "reason": "R1"},
        "reasons": {"texts": {"R1": "first"}},
    }));
    let reason = |code: &str, text: Option<&str>| Reason {
        code: code.into(),
        text: text.map(Into::into),
        contribution: None,
    };
    assert_eq!(policy.rule_reason(0), Some(&reason("R1", Some("first"))));
    assert_eq!(policy.rule_reason(1), None);
    assert_eq!(policy.rule_reason(2), Some(&reason("R2", None)));
    assert_eq!(policy.kill_switch(), Some(&KillSwitch { outcome: 1, reason: reason("R1", Some("first")) }));
    assert_eq!([0, 1, 2].map(|outcome| policy.adverse(outcome)), [false, false, true]);
}

#[derive(Clone, Debug)]
struct AnyRule {
    flag: usize,
    then: Option<usize>,
    priority: i32,
    is_final: bool,
    missing: bool,
}

fn any_rule() -> impl Strategy<Value = AnyRule> {
    (0..3_usize, proptest::option::of(0..3_usize), -1..2_i32, any::<bool>(), any::<bool>()).prop_map(
        |(flag, then, priority, is_final, missing)| AnyRule {
            flag,
            then,
            priority,
            is_final: is_final && then.is_some(),
            missing,
        },
    )
}

/// Picks each next rule by scanning all of them.
fn reference(rules: &[AnyRule], flags: [Option<bool>; 3], banded: Option<usize>) -> (usize, Vec<u16>) {
    let mut left: Vec<usize> = (0..rules.len()).collect();
    let (mut fired, mut outcomes) = (Vec::new(), Vec::from_iter(banded));
    while let Some(&first) = left.iter().min_by_key(|&&place| (-rules[place].priority, place)) {
        left.retain(|place| *place != first);
        let rule = &rules[first];
        if flags[rule.flag].unwrap_or(rule.missing) {
            fired.push(first as u16);
            if rule.is_final {
                return (rule.then.unwrap(), fired);
            }
            outcomes.extend(rule.then);
        }
    }
    (outcomes.into_iter().max().unwrap_or(1), fired)
}

proptest! {
    #[test]
    fn the_outcome_is_that_of_the_reference(
        rules in proptest::collection::vec(any_rule(), 0..12),
        flags in proptest::array::uniform3(proptest::option::of(any::<bool>())),
        score in proptest::option::of(0.0..=1.0_f64),
    ) {
        let outcomes = ["pass", "review", "reject"];
        let written: Vec<Json> = rules.iter().map(|rule| json!({
            "when": (["a", "b", "c"][rule.flag]), "then": rule.then.map(|then| outcomes[then]), "reason": "R",
            "priority": rule.priority, "final": rule.is_final, "missing": rule.missing,
        })).collect();
        let policy = policy(json!({"rules": written}));
        let banded = score.map(|score| if score < 0.3 { 0 } else if score < 0.8 { 1 } else { 2 });
        let Verdict { outcome, fired, band } = policy.evaluate(&rows(flags, None, None), 0, score).unwrap();
        prop_assert_eq!((outcome, fired.to_vec()), reference(&rules, flags, banded));
        prop_assert_eq!(band, banded);
    }

    #[test]
    fn a_score_is_in_the_band_that_a_search_through_all_finds(
        mut cuts in proptest::collection::vec(-5.0..5.0_f64, 0..20),
        score in prop_oneof![-6.0..6.0_f64, Just(f64::MAX), Just(f64::MIN)],
        at_a_cut in any::<prop::sample::Index>(),
        on_it in any::<bool>(),
    ) {
        cuts.sort_by(f64::total_cmp);
        cuts.dedup();
        let ends = cuts.iter().copied().map(Some);
        let bands: Vec<_> = std::iter::once(None).chain(ends.clone()).zip(ends.chain([None])).collect();
        let written: Vec<Json> = bands.iter().enumerate()
            .map(|(place, (from, to))| json!({"name": place.to_string(), "outcome": "pass", "from": from, "to": to}))
            .rev().collect();
        let policy = policy(json!({"guards": [], "bands": written}));
        let score = if on_it && !cuts.is_empty() { *at_a_cut.get(&cuts) } else { score };
        let inside = |(from, to): &(Option<f64>, Option<f64>)| {
            from.is_none_or(|from| from <= score) && to.is_none_or(|to| score < to)
        };
        let found: Vec<String> = (0..bands.len()).filter(|place| inside(&bands[*place])).map(|place| place.to_string()).collect();
        let band = policy.evaluate(&rows([None; 3], None, None), 0, Some(score)).unwrap().band.unwrap();
        prop_assert_eq!(vec![policy.band(band).to_string()], found);
    }
}
