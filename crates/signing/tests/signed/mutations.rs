//! Changed input is rejected, and no input makes a reader panic, whoever signed it.

use crate::signer::{INDEX, NOW, POLICY, STATEMENT, Signer, bytes, root, statement};
use flyball_signing::{Manifest, Refused, Release, Trust, TrustRoots};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;

static SIGNER: LazyLock<Signer> = LazyLock::new(Signer::new);
static TRUST: LazyLock<Trust> = LazyLock::new(|| trust(&SIGNER.policy()).expect("it is sound"));

fn trust(policy: &Value) -> Result<Trust, Refused> {
    read_trust(&bytes(&SIGNER.envelope(POLICY, &bytes(policy))))
}

fn read_trust(envelope: &[u8]) -> Result<Trust, Refused> {
    Trust::read(envelope, &TrustRoots::read(&[&SIGNER.pem]).expect("it is a key"), NOW, 0)
}

fn package(statement: &Value) -> Result<Manifest, Refused> {
    TRUST.package(&bytes(&SIGNER.bundle(&bytes(statement))), NOW)
}

fn release(statement: &Value) -> Result<Release, Refused> {
    TRUST.release(&bytes(&SIGNER.envelope(STATEMENT, &bytes(statement))), NOW, "production")
}

/// A change of a text: replaces a range of bytes.
#[derive(Clone, Debug)]
struct Edit {
    at: prop::sample::Index,
    taken: usize,
    put: Vec<u8>,
}

impl Edit {
    fn apply(&self, text: &[u8]) -> Vec<u8> {
        let at = self.at.index(text.len());
        let mut changed = text[..at].to_vec();
        changed.extend_from_slice(&self.put);
        changed.extend_from_slice(&text[(at + self.taken).min(text.len())..]);
        changed
    }
}

fn edit() -> impl Strategy<Value = Edit> {
    let put = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..3),
        prop::sample::select(vec![
            "\"", "{", "}", "[", "]", ",", ":", " ", "0", "A", "=", "/", "null", "\\u0000"
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ];
    (any::<prop::sample::Index>(), 0..4_usize, put).prop_map(|(at, taken, put)| Edit { at, taken, put })
}

/// Any small JSON value, and those that the documents use.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        prop::sample::select(vec!["..", "a/../b", "/", "sha256:", "high", "2027-13-01T00:00:00Z", "fraud@0"])
            .prop_map(Value::from),
        Just(json!("0".repeat(64))),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map("[a-z_]{0,6}", inner, 0..3).prop_map(|map| json!(map)),
        ]
    })
}

/// Replaces one value in a document, or removes it.
fn replace(document: &mut Value, mut place: usize, with: Option<Value>) {
    let mut slots = 1;
    count(document, &mut slots);
    place %= slots;
    put(document, &mut place, &with);
}

fn count(value: &Value, slots: &mut usize) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| {
            *slots += 1;
            count(item, slots)
        }),
        Value::Object(map) => map.values().for_each(|item| {
            *slots += 1;
            count(item, slots)
        }),
        _ => {}
    }
}

/// Returns whether it was replaced.
fn put(value: &mut Value, place: &mut usize, with: &Option<Value>) -> bool {
    if *place == 0 {
        *value = with.clone().unwrap_or_default();
        return true;
    }
    match value {
        Value::Array(items) => items.iter_mut().any(|item| {
            *place -= 1;
            put(item, place, with)
        }),
        Value::Object(map) => {
            let keys: Vec<String> = map.keys().cloned().collect();
            keys.into_iter().any(|key| {
                *place -= 1;
                if *place == 0 && with.is_none() {
                    map.remove(&key);
                    return true;
                }
                map.get_mut(&key).is_some_and(|item| put(item, place, with))
            })
        }
        _ => false,
    }
}

#[test]
fn what_was_not_changed_is_taken() {
    assert_eq!(package(&statement()).map(|manifest| manifest.root), Ok(root()));
    let release = release(&SIGNER.release(root())).expect("it is sound");
    assert_eq!((release.name.as_str(), release.version, release.approvers.len()), ("fraud", 4, 0));
    let index = br#"{"format":1}"#;
    assert_eq!(TRUST.index(index, &bytes(&SIGNER.envelope(INDEX, index)), NOW), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn a_bundle_that_was_edited_says_what_was_signed_or_nothing(edit in edit()) {
        let bundle = edit.apply(&bytes(&SIGNER.bundle(&bytes(&statement()))));
        if let Ok(manifest) = TRUST.package(&bundle, NOW) {
            prop_assert_eq!(manifest, package(&statement()).expect("it is sound"));
        }
    }

    #[test]
    fn a_release_that_was_edited_says_what_was_signed_or_nothing(edit in edit()) {
        let statement = SIGNER.release(root());
        let envelope = edit.apply(&bytes(&SIGNER.envelope(STATEMENT, &bytes(&statement))));
        if let Ok(found) = TRUST.release(&envelope, NOW, "production") {
            prop_assert_eq!(found, release(&statement).expect("it is sound"));
        }
    }

    #[test]
    fn a_policy_that_was_edited_says_what_was_signed_or_nothing(edit in edit()) {
        let envelope = edit.apply(&bytes(&SIGNER.envelope(POLICY, &bytes(&SIGNER.policy()))));
        if let Ok(found) = read_trust(&envelope) {
            prop_assert_eq!(format!("{found:?}"), format!("{:?}", *TRUST));
        }
    }

    #[test]
    fn an_index_is_taken_only_as_it_was_signed(edit in edit()) {
        let index = br#"{"format": 5, "generation": 3, "deployments": []}"#;
        let changed = edit.apply(index);
        let judged = TRUST.index(&changed, &bytes(&SIGNER.envelope(INDEX, index)), NOW);
        prop_assert_eq!(judged.is_ok(), changed == index);
    }

    #[test]
    fn whatever_a_signer_signs_is_read_or_refused(place in any::<usize>(), with in prop::option::of(value())) {
        let (mut bundled, mut released, mut policy) = (statement(), SIGNER.release(root()), SIGNER.policy());
        replace(&mut bundled, place, with.clone());
        replace(&mut released, place, with.clone());
        replace(&mut policy, place, with);
        if let Ok(manifest) = package(&bundled) {
            prop_assert_eq!(manifest.root, root(), "of the files that it names");
            let sound = |name: &String| name.split('/').all(|part| !["", ".", ".."].contains(&part));
            prop_assert!(manifest.files.keys().all(sound), "{:?}", manifest.files);
        }
        let _ = release(&released).map(|release| assert_eq!(release.subjects[0].name, format!("{}@{}", release.name, release.version)));
        let _ = trust(&policy);
    }
}
