//! Rendered records, and bytes that are not records.

use super::*;
use crate::keys::KekSource;
use minicbor::Encoder;
use proptest::prelude::*;
use std::convert::Infallible;

type Written = Result<(), minicbor::encode::Error<Infallible>>;

fn cbor(write: impl FnOnce(&mut Encoder<Vec<u8>>) -> Written) -> Vec<u8> {
    let mut encoder = Encoder::new(Vec::new());
    write(&mut encoder).unwrap();
    encoder.into_writer()
}

fn begun(map: &mut Encoder<Vec<u8>>, pairs: u64) -> Written {
    map.map(pairs + 2)?.str("kind")?.str("decision")?.str("id")?.bytes(&ID.0.to_be_bytes())?;
    Ok(())
}

const ID: DecisionId = DecisionId::new(1_794_787_200_000, 77);

#[test]
fn a_record_is_shown_with_names_for_what_stands_in_arrays() {
    let payload = cbor(|map| {
        begun(map, 9)?;
        map.str("at")?.i64(1_794_787_200_000_000_001)?.str("policy")?.bytes(&[0xab; 32])?;
        map.str("models")?.array(1)?.array(3)?.str("fraud")?.str("3")?.bytes(&[1; 32])?;
        map.str("features")?.map(1)?.str("n_1h")?.array(3)?.f64(f64::NAN)?.str("window")?.null()?;
        map.str("remedy")?.null()?.str("timings")?.array(10)?;
        for stage in 0..10 {
            map.u64(stage * 100)?;
        }
        map.str("input")?.map(2)?.str("when")?.tag(minicbor::data::Tag::new(1001))?;
        map.map(2)?.i64(1)?.i64(-2)?.i64(-9)?.u64(500_000_000)?.str("deep")?.array(1)?.f64(f64::INFINITY)?;
        map.str("input_blob")?.array(2)?.bytes(&[2; 32])?.u64(20_000)?;
        map.str("reasons")?.array(1)?.array(3)?.str("R1")?.null()?.f64(0.5)?;
        Ok(())
    });
    let shown = render(&payload, None).unwrap();
    let hex = |byte: &str| format!("sha256:{}", byte.repeat(32));
    assert_eq!(shown["id"], ID.to_string());
    assert_eq!(
        (&shown["at"], &shown["time"]),
        (&json!(1_794_787_200_000_000_001i64), &json!("2026-11-16T00:00:00.000000001Z"))
    );
    assert_eq!(shown["policy"], hex("ab"));
    assert_eq!(shown["models"], json!([{"model": "fraud", "version": "3", "digest": hex("01")}]));
    assert_eq!(shown["features"], json!({"n_1h": {"value": "NaN", "origin": "window", "age_ms": null}}));
    assert_eq!((&shown["remedy"], &shown["timings"]["infer"]), (&Value::Null, &json!(600)));
    assert_eq!(shown["input"], json!({"when": "1969-12-31T23:59:58.5Z", "deep": ["Infinity"]}));
    assert_eq!(shown["input_blob"], json!([hex("02"), 20_000]));
    assert_eq!(shown["reasons"], json!([{"code": "R1", "field": null, "contribution": 0.5}]));
}

#[test]
fn what_is_personal_is_merged_once_opened_and_else_said_to_be_sealed_or_erased() {
    let folder = tempfile::tempdir().unwrap();
    let place = KekSource::File(folder.path().join("kek"));
    let keys = Keys::open(folder.path(), &place).unwrap();
    let personal = cbor(|map| {
        map.map(2)?.str("input")?.map(1)?.str("name")?.str("Ada")?;
        map.str("features")?.map(1)?.str("ratio")?.array(3)?.f64(0.5)?.str("computed")?.null().map(drop)
    });
    let mut sealed = Vec::new();
    let token = keys.seal(b"ada", ID, &personal, &mut sealed).unwrap();
    let payload = cbor(|map| {
        begun(map, 4)?;
        map.str("features")?.map(1)?.str("n_1h")?.array(3)?.u8(2)?.str("window")?.null()?;
        map.str("input")?.map(1)?.str("amount")?.u8(3)?.str("subject")?.bytes(&token.0)?;
        map.str("personal")?.bytes(&sealed).map(drop)
    });
    let shown = render(&payload, None).unwrap();
    let found = json!({"n_1h": {"value": 2, "origin": "window", "age_ms": null}});
    assert_eq!((&shown["personal"], &shown["input"]), (&json!("sealed"), &json!({"amount": 3})));
    assert_eq!(shown["features"], found);
    let shown = render(&payload, Some(&keys)).unwrap();
    assert_eq!(shown["input"], json!({"amount": 3, "name": "Ada"}));
    assert_eq!((&shown["personal_fields"], shown.get("personal")), (&json!(["name"]), None));
    assert_eq!(shown["features"]["ratio"], json!({"value": 0.5, "origin": "computed", "age_ms": null}));
    assert_eq!(shown["features"]["n_1h"], found["n_1h"]);
    assert_eq!(shown["personal_features"], json!(["ratio"]));
    keys.erase(b"ada").unwrap();
    let shown = render(&payload, Some(&keys)).unwrap();
    assert_eq!((&shown["personal"], &shown["features"]), (&json!("erased"), &found));
}

#[test]
fn a_gap_has_counts_by_reason_and_is_as_late_as_its_end() {
    let payload = cbor(|map| {
        begun(map, 4)?;
        map.str("from")?.i64(1)?.str("to")?.i64(2_000_000_000)?;
        map.str("reasons")?.map(1)?.str("full")?.u8(3)?;
        map.str("others")?.map(1)?.str("shadow")?.u8(2).map(drop)
    });
    let shown = render(&payload, None).unwrap();
    assert_eq!((&shown["reasons"], &shown["at"]), (&json!({"full": 3}), &json!(2_000_000_000)));
    assert_eq!(shown["others"], json!({"shadow": 2}));
    assert_eq!(shown["time"], "1970-01-01T00:00:02Z");
}

#[test]
fn what_lies_about_its_length_or_nests_too_deep_is_refused() {
    assert!(render(b"\xbb\xff\xff\xff\xff\xff\xff\xff\xff", None).is_err());
    assert!(render(b"\xa1\x61x\x9b\x00\xff\xff\xff\xff\xff\xff\xff", None).is_err());
    let deep = [b"\xa1\x61x".as_slice(), &[0x81; 1000], b"\x00"].concat();
    assert!(render(&deep, None).unwrap_err().to_string().contains("nesting is too deep"));
    assert!(matches!(render(b"\xa0\x00", None), Err(RenderError::Longer)));
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = render(&bytes, None);
        let _ = render(&[b"\xa1\x68features".as_slice(), &bytes].concat(), None);
    }
}
