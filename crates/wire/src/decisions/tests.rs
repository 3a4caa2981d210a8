//! Both forms of a request give the same rows, and responses parse back to the decisions.

mod answers;
mod refusals;

use super::{GrpcDecision, HttpDecision};
use crate::proto::decisions as proto;
use crate::proto::decisions::value::Kind;
use bytes::Bytes;
use flyball_core::{DecisionDialect, Fault, RequestLimits, RowSink, RowsOptions, Scalar};
use proptest::prelude::*;
use prost::Message;
use std::collections::BTreeMap;

const LIMITS: RequestLimits = RequestLimits::for_body(1 << 20);

#[derive(Clone, Debug, PartialEq)]
enum Given {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Other(&'static str),
}

impl From<Scalar<'_>> for Given {
    fn from(value: Scalar<'_>) -> Given {
        match value {
            Scalar::Null => Given::Null,
            Scalar::Bool(flag) => Given::Bool(flag),
            Scalar::Int(number) => Given::Int(number),
            Scalar::Float(number) => Given::Float(number),
            Scalar::Text(text) => Given::Text(text.to_owned()),
            Scalar::Other(what) => Given::Other(what),
        }
    }
}

/// The received rows, with every field in order.
#[derive(Debug, Default, PartialEq)]
struct Taken(Vec<TakenRow>);

type TakenRow = (Option<String>, Vec<(String, Given)>);

impl RowSink for Taken {
    fn row(&mut self, id: Option<&str>) {
        self.0.push((id.map(str::to_owned), Vec::new()));
    }

    fn field(&mut self, name: &str, value: Scalar<'_>) {
        self.0.last_mut().expect("a row was begun").1.push((name.to_owned(), value.into()));
    }
}

fn http() -> HttpDecision {
    HttpDecision { name: "card".into(), idempotency_key: Some("k".into()) }
}

fn read(dialect: &impl DecisionDialect, body: &[u8]) -> Result<(RowsOptions, Taken), Fault> {
    let mut taken = Taken::default();
    let ask = dialect.rows(&Bytes::copy_from_slice(body), &LIMITS, &mut taken)?;
    Ok((ask, taken))
}

fn row(id: Option<&str>, fields: &[(&str, Given)]) -> TakenRow {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    (id.map(str::to_owned), fields.collect())
}

#[test]
fn one_row_has_its_fields_in_their_order_and_as_the_text_has_them() {
    let body = br#"{"input": {"a": 1, "b": -0.5, "c": "n\u00e9", "d": true, "e": null, "f": [1, {}], "g": {"x": []},
        "h": 9223372036854775807, "i": 9223372036854775808, "j": -9223372036854775808, "k": 1e2, "\u006c": ""},
        "explain": true}"#;
    let (ask, taken) = read(&http(), body).expect("a request");
    let text = |text: &str| Given::Text(text.to_owned());
    let fields = [
        ("a", Given::Int(1)),
        ("b", Given::Float(-0.5)),
        ("c", text("né")),
        ("d", Given::Bool(true)),
        ("e", Given::Null),
        ("f", Given::Other("a list")),
        ("g", Given::Other("an object")),
        ("h", Given::Int(i64::MAX)),
        ("i", Given::Float(9_223_372_036_854_775_808.0)),
        ("j", Given::Int(i64::MIN)),
        ("k", Given::Float(100.0)),
        ("l", text("")),
    ];
    assert_eq!(taken, Taken(vec![row(None, &fields)]));
    let key = Some("k".into());
    assert_eq!(
        ask,
        RowsOptions { single: true, explain: true, idempotency_key: key, ..RowsOptions::default() }
    );
}

#[test]
fn rows_have_their_ids_wherever_these_stand() {
    let body = br#"{"timings": true, "rows": [{"id": "a", "input": {"x": 1}}, {"input": {"x": 2}, "id": "b"},
        {"input": {"x": "\u00e9"}}, {"id": null, "input": {}}]}"#;
    let (ask, taken) = read(&http(), body).expect("a request");
    let rows = vec![
        row(Some("a"), &[("x", Given::Int(1))]),
        row(Some("b"), &[("x", Given::Int(2))]),
        row(None, &[("x", Given::Text("é".to_owned()))]),
        row(None, &[]),
    ];
    assert_eq!(taken, Taken(rows));
    assert!(!ask.single && ask.timings && !ask.explain);
}

fn value() -> impl Strategy<Value = Given> {
    prop_oneof![
        Just(Given::Null),
        any::<bool>().prop_map(Given::Bool),
        any::<i64>().prop_map(Given::Int),
        // Whole doubles are written without a point, and parse as whole numbers.
        proptest::num::f64::NORMAL
            .prop_filter("not whole", |number| number.fract() != 0.0)
            .prop_map(Given::Float),
        ".{0,12}".prop_map(Given::Text),
    ]
}

type Fields = BTreeMap<String, Given>;

fn requests() -> impl Strategy<Value = Vec<(String, Fields)>> {
    let fields = proptest::collection::btree_map(".{0,8}", value(), 0..6);
    proptest::collection::vec(("[^\u{0}]{1,6}", fields), 1..5)
}

fn json_of(value: &Given) -> serde_json::Value {
    match value {
        Given::Null | Given::Other(_) => serde_json::Value::Null,
        Given::Bool(flag) => (*flag).into(),
        Given::Int(number) => (*number).into(),
        Given::Float(number) => (*number).into(),
        Given::Text(text) => text.as_str().into(),
    }
}

fn proto_of(value: &Given) -> proto::Value {
    let kind = match value {
        Given::Null | Given::Other(_) => Kind::NullValue(0),
        Given::Bool(flag) => Kind::BoolValue(*flag),
        Given::Int(number) => Kind::IntValue(*number),
        Given::Float(number) => Kind::DoubleValue(*number),
        Given::Text(text) => Kind::TextValue(text.clone()),
    };
    proto::Value { kind: Some(kind) }
}

fn message_of(fields: &Fields) -> std::collections::HashMap<String, proto::Value> {
    fields.iter().map(|(name, value)| (name.clone(), proto_of(value))).collect()
}

/// By name, because protobuf maps have no order.
fn sorted(mut taken: Taken) -> Taken {
    for (_, fields) in &mut taken.0 {
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
    taken
}

proptest! {
    #[test]
    fn json_and_protobuf_give_the_rows_that_were_sent(rows in requests()) {
        let wanted: Vec<_> = rows.iter()
            .map(|(id, fields)| (Some(id.clone()), fields.clone().into_iter().collect::<Vec<_>>()))
            .collect();
        let list: Vec<_> = rows.iter().map(|(id, fields)| {
            let input: serde_json::Map<_, _> =
                fields.iter().map(|(name, value)| (name.clone(), json_of(value))).collect();
            serde_json::json!({"id": id, "input": input})
        }).collect();
        let body = serde_json::json!({"rows": list}).to_string();
        let (ask, taken) = read(&http(), body.as_bytes()).expect("a JSON request");
        prop_assert!(!ask.single);
        prop_assert_eq!(&sorted(taken).0, &wanted);

        let rows = rows.iter().map(|(id, fields)| proto::Row { id: id.clone(), input: message_of(fields) });
        let message = proto::DecideRequest { decision: "card".into(), rows: rows.collect(), ..Default::default() };
        let dialect = GrpcDecision::default();
        let body = Bytes::from(message.encode_to_vec());
        dialect.named(&body).expect("a name");
        let (ask, taken) = read(&dialect, &body).expect("a gRPC request");
        prop_assert!(!ask.single && dialect.decision() == "card");
        prop_assert_eq!(&sorted(taken).0, &wanted);
    }

    #[test]
    fn one_row_without_a_list_is_the_same_in_both(fields in proptest::collection::btree_map(".{0,8}", value(), 0..6)) {
        let input: serde_json::Map<_, _> =
            fields.iter().map(|(name, value)| (name.clone(), json_of(value))).collect();
        let body = serde_json::json!({"input": input, "timings": true}).to_string();
        let json = read(&http(), body.as_bytes()).expect("a JSON request");
        let message = proto::DecideRequest { input: message_of(&fields), timings: true, ..Default::default() };
        let grpc = read(&GrpcDecision::default(), &message.encode_to_vec()).expect("a gRPC request");
        prop_assert!(json.0.single && grpc.0.single && json.0.timings && grpc.0.timings);
        prop_assert_eq!(sorted(json.1), sorted(grpc.1));
    }

    #[test]
    fn odd_bytes_are_refused_or_read_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&http(), &bytes);
        let dialect = GrpcDecision::default();
        let named = dialect.named(&Bytes::copy_from_slice(&bytes));
        let mine = read(&dialect, &bytes);
        prop_assert!(mine.is_err() || named.is_ok());
        // prost accepts everything that is accepted here.
        prop_assert!(mine.is_err() || proto::DecideRequest::decode(&*bytes).is_ok());
    }

    #[test]
    fn a_request_with_one_byte_changed_is_never_a_panic(at in 0_usize..400, byte in any::<u8>()) {
        let body = br#"{"rows": [{"input": {"x": 2.5e3, "y": "n\u00e9"}, "id": "b"}, {"id": "a", "input": {"z": [1]}}], "explain": true}"#;
        let mut body = body.to_vec();
        let at = at % body.len();
        body[at] = byte;
        let _ = read(&http(), &body);
    }
}

/// Accepts routes of rows too, as a server for files does.
#[derive(Default)]
struct Offline(Vec<String>);

impl RowSink for Offline {
    fn row(&mut self, id: Option<&str>) {
        self.0.push(id.unwrap_or("-").to_owned());
    }

    fn field(&mut self, name: &str, _value: Scalar<'_>) {
        self.0.push(name.to_owned());
    }

    fn accepts_routes(&self) -> bool {
        true
    }

    fn route(&mut self, route: flyball_core::RowRoute<'_>) {
        self.0.push(format!("{route:?}"));
    }
}

#[test]
fn a_row_says_which_way_it_goes_where_that_is_taken_and_has_no_such_key_elsewhere() {
    let body = br#"{"rows": [{"as": {"variant": "v"}, "input": {"a": 1}}, {"id": "x", "input": {"b": 1}, "as": {"rules": true}},
        {"id": "y", "input": {}}]}"#;
    let offline = |body: &'static [u8]| {
        let mut taken = Offline::default();
        http().rows(&Bytes::from_static(body), &LIMITS, &mut taken).map(|_| taken.0)
    };
    assert_eq!(offline(body).unwrap(), ["-", "a", "Variant(\"v\")", "x", "b", "Rules", "y"]);
    let refused = read(&http(), body).unwrap_err();
    assert!(refused.text.contains("a row has no key 'as'; its keys are id, input"), "{}", refused.text);
    let bad: [&[u8]; 4] = [
        br#"{"rows": [{"input": {}, "as": {}}]}"#,
        br#"{"rows": [{"input": {}, "as": {"variant": "v", "rules": true}}]}"#,
        br#"{"rows": [{"input": {}, "as": {"rules": false}}]}"#,
        br#"{"rows": [{"input": {}, "as": {"by": "v"}}]}"#,
    ];
    for body in bad {
        assert!(offline(body).is_err(), "{}", String::from_utf8_lossy(body));
    }
}
