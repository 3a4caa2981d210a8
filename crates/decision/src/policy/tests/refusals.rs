//! Invalid policies are rejected with path and message.

use super::*;
use proptest::prelude::*;

fn bands(ends: &[(&str, Option<f64>, Option<f64>)]) -> Json {
    ends.iter().map(|(name, from, to)| json!({"name": name, "from": from, "to": to})).collect()
}

#[test]
fn bands_with_a_hole_or_an_overlap_are_refused_with_the_interval() {
    let (p, v, r) = ("pass", "review", "reject");
    for (ends, words) in [
        (vec![(p, None, Some(0.75)), (r, Some(0.8), None)], "0.75..0.80 belongs to no band"),
        (vec![(p, None, Some(0.9)), (r, Some(0.8), None)], "0.8..0.9 belongs to both pass and reject"),
        (
            vec![(p, None, Some(0.9)), (v, Some(0.2), Some(0.3)), (r, Some(0.9), None)],
            "0.2..0.3 belongs to both pass and review",
        ),
        (vec![(p, Some(0.25), None)], "0.00..0.25 belongs to no band"),
        (vec![(p, None, Some(0.5))], "0.5..1.0 belongs to no band"),
        (vec![(p, None, Some(1.0))], "1 belongs to no band; leave the last band without end"),
        (vec![(p, None, None), (r, None, None)], "everything belongs to both pass and reject"),
        (vec![], "1 to 64 bands"),
    ] {
        assert_eq!(refused(json!({"bands": bands(&ends)})), [("policy.bands".to_owned(), words.to_owned())]);
    }
}

#[test]
fn without_a_guard_the_bands_must_cover_everything() {
    let ends = bands(&[("pass", Some(0.0), Some(0.5)), ("reject", Some(0.5), Some(1.0))]);
    let words: Vec<_> =
        refused(json!({"guards": [], "bands": ends})).into_iter().map(|(_, words)| words).collect();
    assert_eq!(words, ["everything below 0 belongs to no band", "everything from 1 on belongs to no band"]);
}

#[test]
fn bands_may_reach_beyond_the_guard_and_end_just_there() {
    policy(json!({"bands": bands(&[("pass", Some(-5.0), Some(0.5)), ("reject", Some(0.5), Some(1.5))])}));
    policy(json!({"bands": bands(&[("pass", Some(0.0), Some(1.0)), ("reject", Some(1.0), None)])}));
}

#[test]
fn each_band_is_looked_at_by_itself() {
    for (ends, path, words) in [
        (
            vec![("pass", Some(0.5), Some(0.5))],
            "pass",
            "a band must end above its start; this one is 0.5..0.5",
        ),
        (
            vec![("pass", None, Some(2.0)), ("reject", Some(2.0), None)],
            "reject",
            "everything from 2 on is outside the guard of score, 0..1",
        ),
        (vec![("pas", None, None)], "pas", "'pas' is not an outcome; did you mean 'pass'?"),
        (
            vec![("pass", None, Some(0.5)), ("pass", Some(0.5), None)],
            "pass",
            "duplicate name; each band needs its own",
        ),
    ] {
        let path = format!("policy.bands.{path}");
        assert_eq!(refused(json!({"bands": bands(&ends)})), [(path, words.to_owned())]);
    }
}

#[test]
fn every_fault_is_told_at_once_with_its_path() {
    let faults = refused(json!({
        "outcomes": ["pass", "review", "reject", "pass"],
        "adverse": ["rejekt"],
        "guards": [{"of": "score", "min": 2.0, "max": 1.0}, {"of": "country"}, {"of": "amuont"}, {"of": "amount"}, {"of": "amount"}],
        "rules": [
            {"when": "contry == 'DE'", "then": "reveiw"},
            {"when": "amount", "then": "pass"},
            {"when": "a"},
            {"when": "a", "reason": "R1", "final": true},
        ],
        "bands": [{"name": "pass"}],
        "segments": [
            {"when": "score > 0.5", "bands": [{"name": "pass"}]},
            {"when": "a", "bands": [{"name": "x", "outcome": "odd"}]},
        ],
        "kill_switch": {"outcome": "stop", "reason": "K1"},
        "reasons": {"most": 65, "codes": {"amont": "R2"}},
        "shadow": {"outcomes": [], "bands": [], "shadow": {"outcomes": ["pass"], "bands": [{"name": "pass"}]}},
    }));
    let faults: Vec<_> = faults.iter().map(|(path, words)| (path.as_str(), words.as_str())).collect();
    assert_eq!(
        faults,
        [
            ("policy.outcomes[3]", "each outcome needs a unique name"),
            ("policy.adverse[0]", "'rejekt' is not an outcome; did you mean 'reject'?"),
            ("policy.guard.score", "the range is empty: 2 is above 1"),
            (
                "policy.guard.country",
                "guards are for numbers: score, and fields and features of type int and float"
            ),
            ("policy.guard.amuont", "'amuont' is not score, a field or a feature; did you mean 'amount'?"),
            ("policy.guard.amount", "duplicate guard; write one range"),
            ("policy.rules[0].then", "'reveiw' is not an outcome; did you mean 'review'?"),
            ("policy.rules[0].when", "'contry' is not a field or feature; did you mean 'country'?"),
            ("policy.rules[1].when", "it is not a condition; compare it with something"),
            ("policy.rules[2]", "a rule needs then, reason or both"),
            ("policy.rules[3]", "a final rule needs then"),
            (
                "policy.kill_switch.outcome",
                "'stop' is not an outcome; outcomes are pass, review, reject, pass"
            ),
            ("policy.reasons.most", "0 to 64"),
            ("policy.reasons.codes.amont", "'amont' is not a field or feature; did you mean 'amount'?"),
            ("policy.segments[0].when", "score is not available in segments and features; use it in rules"),
            (
                "policy.segments[1].bands.x",
                "'odd' is not an outcome; outcomes are pass, review, reject, pass"
            ),
            ("policy.shadow.shadow", "a shadow cannot have a shadow; remove it"),
            ("policy.shadow.outcomes", "1 to 64 outcomes, from mild to severe"),
            ("policy.shadow.bands", "1 to 64 bands"),
        ]
    );
}

#[test]
fn more_than_the_bounds_is_refused() {
    let many = |count: usize, one: Json| Json::Array(vec![one; count]);
    let wrong = refused(json!({
        "rules": many(1001, json!({"when": "a", "then": "pass"})),
        "segments": many(101, json!({"when": "a", "bands": [{"name": "pass"}]})),
        "guards": many(257, json!({"of": "amount"})),
    }));
    for path in ["policy.rules", "policy.segments", "policy.guard"] {
        assert!(wrong.iter().any(|(at, words)| at == path && words.starts_with("at most")), "{path}");
    }
}

/// A policy with every key.
fn whole() -> Json {
    json!({
        "guards": [{"of": "score", "min": 0.0, "max": 1.0}, {"of": "amount", "min": 0.0, "max": null}],
        "rules": [
            {"when": "amount > 5000 && country != 'FR'", "then": "review", "reason": "R1", "priority": 3, "final": true, "missing": true},
            {"when": "a", "then": null, "reason": "R2", "priority": 0, "final": false, "missing": false},
        ],
        "bands": [{"name": "pass", "outcome": null, "from": null, "to": 0.5}, {"name": "reject", "outcome": "reject", "from": 0.5, "to": null}],
        "segments": [{"when": "b", "bands": [{"name": "review", "outcome": null, "from": null, "to": null}]}],
        "outcomes": ["pass", "review", "reject"],
        "adverse": ["reject"],
        "kill_switch": {"outcome": "review", "reason": "K"},
        "reasons": {"when": "always", "most": 4, "texts": {"R1": "one"}, "codes": {"amount": "R9"}},
        "shadow": {"outcomes": ["pass"], "bands": [{"name": "pass"}], "rules": [{"when": "c", "then": "pass"}]},
    })
}

/// All JSON pointers in it.
fn pointers(json: &Json, at: &str, into: &mut Vec<String>) {
    into.push(at.to_owned());
    match json {
        Json::Object(object) => {
            object.iter().for_each(|(key, value)| pointers(value, &format!("{at}/{key}"), into))
        }
        Json::Array(list) => {
            list.iter().enumerate().for_each(|(place, value)| pointers(value, &format!("{at}/{place}"), into))
        }
        _ => {}
    }
}

fn other() -> impl Strategy<Value = Json> {
    prop_oneof![
        prop::sample::select(vec![
            "",
            "pass",
            "rejct",
            "score",
            "amount",
            "a",
            "a &&",
            "country == 'DE'",
            "1 / 0 == 1",
            "R1"
        ])
        .prop_map(Json::from),
        prop::sample::select(vec![-1.0, 0.0, 0.5, 0.7, 1.0, 1e308, -1e308]).prop_map(Json::from),
        prop::sample::select(vec![
            json!([]),
            json!({}),
            json!(null),
            json!(true),
            json!(2),
            json!(-2_147_483_648_i64)
        ]),
    ]
}

proptest! {
    #[test]
    fn a_mutated_policy_is_refused_with_its_paths_or_judges_every_score(
        changes in prop::collection::vec((any::<prop::sample::Index>(), other()), 1..4),
        score in prop_oneof![0.0..=1.0_f64, any::<f64>()],
        flags in prop::array::uniform3(prop::option::of(any::<bool>())),
    ) {
        let mut json = whole();
        for (place, other) in changes {
            let mut places = Vec::new();
            pointers(&json, "", &mut places);
            *json.pointer_mut(&places[place.index(places.len())]).unwrap() = other;
        }
        let Ok(document) = serde_json::from_value::<PolicyDocument>(json) else { return Ok(()) };
        let mut faults = Faults::default();
        match Policy::compile(&document, &names(), &mut faults) {
            None => prop_assert!(!faults.0.is_empty() && faults.0.iter().all(|fault| fault.path.starts_with("policy."))),
            Some(policy) => {
                let row = rows(flags, Some(1.0), None);
                let judged = policy.evaluate(&row, 0, Some(score)).or_else(|_| policy.evaluate(&row, 0, None)).unwrap();
                prop_assert!(document.outcomes.contains(&policy.outcome(judged.outcome).to_string()));
                prop_assert!(!policy.describe().is_empty());
            }
        }
    }
}
