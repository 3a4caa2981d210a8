//! Faults of a decision's document, and their paths.

use super::good::{compile, document, good, paths, with};
use crate::DecisionDocument;
use flyball_core::Digest;
use serde_json::{Value as Json, json};

#[test]
fn the_good_document_compiles() {
    let program = good();
    assert_eq!(program.fields().len(), 7);
    assert_eq!(program.event_time, Some(6));
    assert_eq!(program.variants[1].weights, [0.25, 0.75]);
    let described = program.describe();
    let stages: Vec<_> = described.iter().map(|text| text.stage).collect();
    assert_eq!(stages, ["parse", "route", "features", "tensor", "infer", "policy", "respond"]);
    assert!(described.iter().all(|text| text.lines.iter().all(|line| !line.is_empty())));
    assert_eq!(described[1].lines[0], "champion: 75 % of requests; score = first");
    assert_eq!(
        described[1].lines[1],
        "both: 25 % of requests, fallback; score = 0.25 * first + 0.75 * second"
    );
}

#[test]
fn each_fault_is_found_at_its_path() {
    let cases: &[(&str, Json, &str)] = &[
        ("/owner", json!(" "), "owner"),
        ("/input", json!([]), "input"),
        ("/input/1/name", json!("9x"), "input.9x"),
        ("/input/1/name", json!("score"), "input.score"),
        ("/input/1/name", json!("card"), "input.card"),
        ("/input/1/min", json!(20_000.0), "input.amount.min"),
        ("/input/0/min", json!(1.0), "input.card.min"),
        ("/input/0/length_max", json!(0), "input.card.length_max"),
        ("/input/1/length_max", json!(3), "input.amount.length_max"),
        ("/input/1/key", json!(true), "input.amount.key"),
        ("/input/2/default", json!(1.5), "input.items.default"),
        ("/input/1/default", json!(-1), "input.amount.default"),
        ("/input/3/values", json!([]), "input.country.values"),
        ("/input/3/values", json!(["CH", "CH"]), "input.country.values[1]"),
        ("/input/4/default", json!("boat"), "input.channel.default"),
        ("/input/1/values", json!(["a"]), "input.amount.values"),
        ("/input/1/unknown", json!("a"), "input.amount.unknown"),
        ("/features/0/name", json!("card"), "features.card"),
        ("/features/0/window/by", json!("amount"), "features.spent.window.by"),
        ("/features/0/window/of", json!("card"), "features.spent.window.of"),
        ("/features/0/window/of", json!(null), "features.spent.window.of"),
        ("/features/0/window/op", json!("count"), "features.spent.window.of"),
        ("/features/0/window/last_ms", json!(0), "features.spent.window.last_ms"),
        ("/features/0/window/source", json!("crads"), "features.spent.window.source"),
        ("/features/0/type", json!("int"), "features.spent.window.op"),
        ("/features/0/window", json!(null), "features.spent"),
        ("/features/0/compute", json!("1"), "features.spent"),
        ("/features/0/on_missing", json!({"value": "x"}), "features.spent.on_missing"),
        ("/features/1/on_stale", json!({"value": "wood"}), "features.tier.on_stale"),
        ("/features/1/lookup/source", json!("crads"), "features.tier.lookup.source"),
        ("/features/1/lookup/key", json!("crad"), "features.tier.lookup.key"),
        ("/features/1/max_age_ms", json!(0), "features.tier.max_age_ms"),
        ("/features/2/compute", json!("amuont > 1.0"), "features.dear.compute"),
        ("/features/2/compute", json!("amount + 1.0"), "features.dear.compute"),
        ("/features/2/compute", json!("!dear"), "features.dear.compute"),
        ("/sources/cards/timeout_ms", json!(0), "sources.cards.timeout_ms"),
        ("/sources/cards/url_env", json!("URL"), "sources.cards"),
        ("/sources/cards/url", json!("redis://me:secret@cards"), "sources.cards.url"),
        ("/sources/cards/url", json!("redis+unix:///x.sock?db=1&pass=secret"), "sources.cards.url"),
        ("/sources/cards/url", json!("unix:///x.sock?%70ass=secret"), "sources.cards.url"),
        ("/sources/cards/url", json!("rediss://cards"), "sources.cards.url"),
        ("/record", json!({"sample": 1.5}), "record.sample"),
        ("/record", json!({"mask": ["crad"]}), "record.mask[0]"),
        ("/record", json!({"mask": ["card", "card"]}), "record.mask[1]"),
        ("/record", json!({"mask": ["spent"]}), "record.mask[0]"),
        ("/event_time", json!("amount"), "event_time"),
        ("/event_time", json!("att"), "event_time"),
        ("/transforms/1/of", json!(["card"]), "transforms[1].of"),
        ("/transforms/1/of", json!(["amuont"]), "transforms[1].of"),
        ("/transforms/1/of", json!([]), "transforms[1].of"),
        ("/transforms/1/of", json!(["amount", "amount"]), "transforms[1].of"),
        ("/transforms/0/values", json!([1]), "transforms[0].values"),
        ("/transforms/0/values", json!(["x", "web"]), "transforms[0].values[0]"),
        ("/transforms/2/scale", json!([0.0]), "transforms[2].scale"),
        ("/transforms/2/mean", json!([]), "transforms[2].mean"),
        ("/transforms/3/of", json!(["amount"]), "transforms[3].of"),
        ("/transforms/3/parts", json!(["hour", "hour"]), "transforms[3].parts"),
        ("/transforms/4/of", json!(["amount"]), "transforms[4].of"),
        ("/transforms/4/values", json!([["CH", "CH"]]), "transforms[4].values[0]"),
        ("/transforms/6/of", json!(["amount", "card"]), "transforms[6].of"),
        ("/transforms/6/into", json!("card"), "transforms[6].into"),
        ("/models/0/version", json!("9"), "models.first.version"),
        ("/models/1/name", json!("first"), "models.first"),
        ("/models/0/inputs/0/tensor", json!("y"), "models.first.inputs[0].tensor"),
        ("/models/0/inputs/0/columns/3", json!("at.huor"), "models.first.inputs[0].columns[3]"),
        ("/models/0/inputs/0/columns/3", json!("card"), "models.first.inputs[0].columns[3]"),
        ("/models/0/inputs/0/columns/3", json!("first.score"), "models.first.inputs[0].columns[3]"),
        ("/models/0/inputs/0/columns/-", json!("spent"), "models.first.inputs[0].columns"),
        ("/models/1/inputs/1/columns/0", json!("spent"), "models.second.inputs[1].columns[0]"),
        ("/models/1/inputs/2/columns/0", json!("spent"), "models.second.inputs[2].columns[0]"),
        ("/models/1/inputs", json!([]), "models.second.inputs"),
        ("/models/0/score/output", json!("q"), "models.first.score.output"),
        ("/models/0/score/element", json!(2), "models.first.score.element"),
        ("/models/1/explain/means", json!([0.0]), "models.second.explain.means"),
        ("/variants", json!([]), "variants"),
        ("/variants/1/models", json!(["second"]), "variants.both.models"),
        ("/variants/1/models", json!(["second", "first"]), "variants.both.models"),
        ("/variants/1/models", json!(["first", "secnod"]), "variants.both.models"),
        ("/variants/1/name", json!("champion"), "variants.champion"),
        ("/variants/0/weights", json!({}), "variants.champion.weights"),
        ("/variants/0/weights", json!({"second": 1.0}), "variants.champion.weights.second"),
        ("/route/split", json!({"both": 1.5}), "route.split.both"),
        ("/route/split", json!({"champion": 0.5}), "route.split.champion"),
        ("/route/split", json!({"none": 0.5}), "route.split.none"),
        ("/route/sticky", json!("amount"), "route.sticky"),
        ("/route/shadow", json!(["none"]), "route.shadow[0]"),
        ("/route/fallback", json!("champion"), "route.fallback"),
        ("/route/fallback", json!(null), "remedies.model_unavailable"),
        ("/remedies/timeout", json!({"outcome": "reviwe"}), "remedies.timeout.outcome"),
        ("/remedies/invalid_input", json!("retry"), "remedies.invalid_input"),
        ("/remedies/record_error", json!("previous"), "remedies.record_error"),
        ("/idempotency", json!({"window_s": 0}), "idempotency.window_s"),
        ("/policy/rules/0/when", json!("nothing"), "policy.rules[0].when"),
    ];
    for (pointer, value, path) in cases {
        let found = paths(&with(pointer, value.clone()));
        assert!(found.iter().any(|found| found == path), "{pointer} = {value}: {found:?}, not {path}");
    }
}

#[test]
fn every_fault_is_told_at_once() {
    let mut document = with("/input/1/min", json!(20_000.0));
    document["transforms"][2]["scale"] = json!([0.0]);
    document["route"]["split"]["both"] = json!(2.0);
    document["policy"]["rules"][0]["then"] = json!("perhaps");
    assert_eq!(
        paths(&document),
        ["input.amount.min", "transforms[2].scale", "route.split.both", "policy.rules[0].then"]
    );
}

#[test]
fn a_slip_in_a_name_is_answered_with_the_name_that_was_meant() {
    let faults = compile(&with("/transforms/1/of", json!(["amuont"]))).expect_err("no such column");
    assert_eq!(faults.0[0].allowed, "a column that exists at this point; did you mean 'amount'?");
}

#[test]
fn shares_that_exceed_the_whole_are_refused() {
    let mut document = document();
    let mut third = document["variants"][1].clone();
    third["name"] = json!("third");
    document["variants"].as_array_mut().expect("a list").push(third);
    document["route"]["split"] = json!({"both": 0.5, "third": 0.6});
    assert_eq!(paths(&document), ["route.split"]);
}

#[test]
fn bounds_hold_for_what_the_document_may_have() {
    let field = |place: usize| json!({"name": format!("f{place}"), "type": "int"});
    let mut many = document();
    let list = many["input"].as_array_mut().expect("a list");
    (0..256).for_each(|place| list.push(field(place)));
    assert!(paths(&many).contains(&"input".to_owned()));

    let values: Vec<_> = (0..5000).map(|place| place.to_string()).collect();
    let wide = with("/transforms/4/values", json!([values]));
    assert!(paths(&wide).contains(&"transforms[4]".to_owned()));

    let values: Vec<_> = (0..100_001).map(|place| place.to_string()).collect();
    assert!(paths(&with("/input/3/values", json!(values))).contains(&"input.country.values".to_owned()));

    let codes: serde_json::Map<_, _> = (0..60_000).map(|place| (place.to_string(), json!(1.0))).collect();
    let encode = json!({"op": "encode", "of": ["country"], "maps": [codes], "default": [0.0]});
    let mut tables = with("/transforms/4", encode.clone());
    tables["transforms"][5] = encode;
    tables["transforms"][5]["of"] = json!(["channel"]);
    assert!(paths(&tables).contains(&"transforms[5].maps".to_owned()));
}

#[test]
fn a_cross_of_crosses_cannot_grow_without_end() {
    let mut document = document();
    let list = document["transforms"].as_array_mut().expect("a list");
    list.push(json!({"op": "cross", "of": ["card", "tier"], "into": "c0"}));
    for place in 1..40 {
        let before = format!("c{}", place - 1);
        let longer = if place == 1 { "card".to_owned() } else { format!("c{}", place - 2) };
        list.push(json!({"op": "cross", "of": [before, longer], "into": format!("c{place}")}));
    }
    let faults = paths(&document);
    assert!(faults.iter().any(|path| path.starts_with("transforms[")), "{faults:?}");
}

#[test]
fn digests_tell_policy_and_schema_apart_and_do_not_see_what_is_a_default() {
    let good = good();
    let other_policy = compile(&with("/policy/bands/0/to", json!(0.5))).expect("compiles");
    assert_eq!(good.policy_digest, other_policy.policy_digest);
    let mut document = with("/policy/bands/0/to", json!(0.75));
    document["policy"]["bands"][1]["from"] = json!(0.75);
    let other_policy = compile(&document).expect("compiles");
    assert_ne!(good.policy_digest, other_policy.policy_digest);
    assert_eq!(good.schema_digest, other_policy.schema_digest);
    let other_schema = compile(&with("/input/1/max", json!(9_999.0))).expect("compiles");
    assert_ne!(good.schema_digest, other_schema.schema_digest);
    let spelled_out = compile(&with("/input/1/required", json!(true))).expect("compiles");
    assert_eq!(good.schema_digest, spelled_out.schema_digest);
}

#[test]
fn the_digest_of_the_document_sees_every_part_of_it_but_no_default() {
    let good = good().document_digest;
    for (pointer, value) in [
        ("/owner", json!("fraud")),
        ("/input/1/max", json!(9_999.0)),
        ("/features/0/window/last_ms", json!(60_000)),
        ("/event_time", json!(null)),
        ("/sources/cards/timeout_ms", json!(6)),
        ("/transforms/2/mean", json!([3.5])),
        ("/models/0/inputs/0/columns", json!(["amount", "country=FR", "country=CH", "at.hour"])),
        ("/variants/1/weights/first", json!(0.5)),
        ("/route/split/both", json!(0.5)),
        ("/policy/rules/0/reason", json!("OTHER")),
        ("/remedies/timeout", json!("rules")),
        ("/idempotency", json!({"window_s": 60})),
    ] {
        let other = compile(&with(pointer, value)).unwrap_or_else(|faults| panic!("{pointer}: {faults:?}"));
        assert_ne!(good, other.document_digest, "{pointer}");
    }
    let spelled_out = compile(&with("/input/1/required", json!(true))).expect("compiles");
    assert_eq!(good, spelled_out.document_digest);
}

#[test]
fn the_digest_of_the_document_does_not_see_where_an_explanation_lies_but_which_it_is() {
    let of = |path: &str, file: &str| {
        let explain = json!({"by": "trees", "path": path, "digest": Digest::of(file.as_bytes()).to_string()});
        DecisionDocument::read(&with("/models/0/explain", explain)).expect("a document").digests()
    };
    let here = of("card.explain", "a");
    assert_eq!(here, of("packages/0123/card.explain", "a"));
    assert_ne!(here.document, of("card.explain", "b").document);
    assert_ne!(here.document, of("other.explain", "a").document);
}

#[test]
fn faults_of_shape_have_the_authors_paths_too() {
    let cases: &[(&str, Json, &str)] = &[
        ("/owner", json!(null), "owner"),
        ("/ower", json!("me"), "ower"),
        ("/input/1/min", json!("low"), "input.amount.min"),
        ("/input/1/mni", json!(1), "input.amount.mni"),
        ("/input/1/type", json!(null), "input.amount.type"),
        ("/features/0/window/by", json!(null), "features.spent.window.by"),
        ("/models/0/inputs/0/columns/1", json!(1), "models.first.inputs[0].columns[1]"),
        ("/policy/rules/0/priority", json!("x"), "policy.rules[0].priority"),
    ];
    for (pointer, value, path) in cases {
        assert_eq!(paths(&with(pointer, value.clone())), [*path], "{pointer} = {value}");
    }
    assert_eq!(paths(&json!([])), ["decision"]);
}
