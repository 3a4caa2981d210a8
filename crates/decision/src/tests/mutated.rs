//! Documents with random changes: each compiles or has a fault with a path, and none panics.

use super::good::{compile, document, good};
use crate::Rows;
use flyball_core::{RowSink, Scalar};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

/// All JSON pointers of a document.
fn pointers(value: &Json, at: &str, out: &mut Vec<String>) {
    out.push(at.to_owned());
    match value {
        Json::Object(map) => map.iter().for_each(|(key, value)| pointers(value, &format!("{at}/{key}"), out)),
        Json::Array(list) => {
            list.iter().enumerate().for_each(|(key, value)| pointers(value, &format!("{at}/{key}"), out));
        }
        _ => {}
    }
}

#[derive(Clone, Debug)]
enum Mutation {
    Set(Json),
    Remove,
    Twice,
    /// Another part of the document is copied here.
    Copy(prop::sample::Index),
    /// Slightly changes a number or a text.
    Nudge(u8),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let values = prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        Just(json!(0)),
        Just(json!(-1)),
        Just(json!(1e308)),
        Just(json!(1e-308)),
        Just(json!("")),
        Just(json!("score")),
        Just(json!("amount")),
        Just(json!("é\u{0}")),
        Just(json!([])),
        Just(json!({})),
        Just(json!([[]])),
        Just(json!({"value": {}})),
        Just(json!(u64::MAX)),
        Just(json!(4_294_967_295_u32)),
        "[a-z.=|()<>&!0-9' ]{0,12}".prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
    ];
    prop_oneof![
        4 => values.prop_map(Mutation::Set),
        2 => Just(Mutation::Remove),
        1 => Just(Mutation::Twice),
        3 => any::<prop::sample::Index>().prop_map(Mutation::Copy),
        2 => any::<u8>().prop_map(Mutation::Nudge),
    ]
}

fn apply(document: &mut Json, at: &prop::sample::Index, mutation: &Mutation) {
    let mut places = Vec::new();
    pointers(document, "", &mut places);
    let place = at.get(&places).clone();
    let Some((parent, key)) = place.rsplit_once('/') else { return };
    let value = document.pointer(&place).cloned().unwrap_or_default();
    let new = match mutation {
        Mutation::Set(value) => value.clone(),
        Mutation::Copy(from) => document.pointer(from.get(&places).as_str()).cloned().unwrap_or_default(),
        Mutation::Nudge(by) => match &value {
            Json::Number(number) => json!(number.as_f64().unwrap_or(0.0) * f64::from(*by) - 1.0),
            Json::String(text) => json!(format!("{text}{}", *by as char)),
            other => other.clone(),
        },
        Mutation::Remove | Mutation::Twice => value,
    };
    match (document.pointer_mut(parent).expect("its parent"), mutation) {
        (Json::Object(map), Mutation::Remove) => _ = map.remove(key),
        (Json::Array(list), Mutation::Remove) => _ = list.remove(key.parse::<usize>().expect("an index")),
        (Json::Array(list), Mutation::Twice) => list.push(new),
        (Json::Object(map), _) => _ = map.insert(key.to_owned(), new),
        (Json::Array(list), _) => list[key.parse::<usize>().expect("an index")] = new,
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn a_mutated_document_compiles_or_is_refused_with_paths_and_never_panics(
        mutations in prop::collection::vec((any::<prop::sample::Index>(), mutation()), 1..4)
    ) {
        let mut document = document();
        mutations.iter().for_each(|(at, mutation)| apply(&mut document, at, mutation));
        match compile(&document) {
            Err(faults) => {
                prop_assert!(!faults.0.is_empty());
                for fault in &faults.0 {
                    prop_assert!(!fault.path.is_empty(), "{:?} of {}", fault, document);
                    prop_assert!(!fault.allowed.is_empty(), "{:?}", fault);
                }
            }
            Ok(program) => {
                let mut rows = Rows::default();
                program.begin(&mut rows);
                let mut reader = program.reader(&mut rows);
                reader.row(None);
                for name in ["card", "amount", "items", "country", "channel", "online", "at"] {
                    reader.field(name, Scalar::Int(1));
                    reader.field(name, Scalar::Text("CH"));
                }
                reader.finish();
                program.describe();
                let (mut scores, mut scratch, mut out) = Default::default();
                program.begin_scores(&rows, &mut scores);
                (0..program.features.len()).for_each(|feature| _ = program.compute(&mut rows, 0, feature));
                for model in 0..program.models.len() {
                    program.tensors(model, &rows, &[0], &scores, &mut scratch, &mut out);
                }
            }
        }
    }
}

#[test]
fn the_document_that_is_mutated_is_good() {
    good();
}
