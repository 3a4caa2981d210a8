//! Which responses are correct: by content the first time, by bytes from then on.

use super::*;
use proptest::prelude::*;

fn expected() -> Expected {
    let raw = 0.1_f32.to_le_bytes().to_vec();
    let output = ExpectedOutput { name: "y".into(), datatype: "FP32".into(), shape: vec![1], raw };
    Expected::new(Some(vec![output]))
}

fn body(id: &str, data: &str) -> Vec<u8> {
    format!(r#"{{"id":{id},"outputs":[{{"name":"y","datatype":"FP32","shape":[1],"data":{data}}}]}}"#).into()
}

fn check(expected: &Expected, verified: &Verified, id: &str, bytes: &[u8]) -> Result<(), String> {
    expected.check_http(id, HttpBody { bytes, json_length: bytes.len() }, false, verified)
}

#[test]
fn an_answer_is_right_however_its_floats_are_written_and_stays_checked_after() {
    let (expected, verified) = (expected(), Verified::default());
    for data in ["[0.1]", "[0.10000000149011612]", "[1e-1]", "[0.1]"] {
        assert_eq!(check(&expected, &verified, "7", &body("\"7\"", data)), Ok(()));
    }
    let wrong = check(&expected, &verified, "8", &body("\"8\"", "[0.2]"));
    assert!(wrong.is_err_and(|text| text.contains("output 'y' differs")));
}

#[test]
fn what_was_found_right_is_known_again_under_any_id_and_nothing_else_is() {
    let (expected, verified) = (expected(), Verified::default());
    let known = |id: &str, bytes: &[u8]| verified.knows(id, HttpBody { bytes, json_length: bytes.len() });
    assert!(!known("7", &body("\"7\"", "[0.1]")));
    assert_eq!(check(&expected, &verified, "7", &body("\"7\"", "[0.1]")), Ok(()));
    assert!(known("7", &body("\"7\"", "[0.1]")) && known("12345", &body("\"12345\"", "[0.1]")));
    assert!(!known("7", &body("\"8\"", "[0.1]")) && !known("7", &body("\"7\"", "[0.2]")));
    assert!(!known("7", &body("\"77\"", "[0.1]")) && !known("77", &body("\"7\"", "[0.1]")));
}

#[test]
fn another_id_no_id_and_other_outputs_are_found() {
    let cases = [
        (body("\"6\"", "[0.1]"), "has id \"6\""),
        (br#"{"outputs":[]}"#.to_vec(), "has no id"),
        (br#"{"id":"7","outputs":[]}"#.to_vec(), "output 'y' is missing"),
        (br#"{"id":"7"}"#.to_vec(), "do not parse"),
        (b"fine".to_vec(), "is not a JSON object"),
        (
            br#"{"id":"7","outputs":[{"name":"y","datatype":"FP32","shape":[1]}]}"#.to_vec(),
            "exactly one of data and raw",
        ),
        (
            br#"{"id":"7","outputs":[{"name":"y","datatype":"FP64","shape":[1],"data":[0.1]}]}"#.to_vec(),
            "is FP64 [1], expected FP32 [1]",
        ),
    ];
    for (body, wanted) in cases {
        let body = HttpBody { bytes: &body, json_length: body.len() };
        let problem = expected().check_http("7", body, true, &Verified::default()).expect_err(wanted);
        assert!(problem.contains(wanted), "{problem}");
    }
}

#[test]
fn of_a_body_that_is_no_v2_only_the_text_counts_that_its_answer_must_hold() {
    let decided = Expected::text(r#""outcome":"pass""#.to_owned());
    let check = |bytes: &[u8]| {
        decided.check_http("7", HttpBody { bytes, json_length: bytes.len() }, true, &Verified::default())
    };
    assert_eq!(check(br#"{"id":"0192","outcome":"pass"}"#), Ok(()));
    assert!(check(br#"{"outcome":"review"}"#).is_err_and(|error| error.contains("does not contain")));
    assert!(check(b"\xff").is_err());
}

#[test]
fn only_a_foreign_answer_of_which_nothing_is_expected_may_lack_the_id() {
    let any = Expected::new(None);
    let check = |bytes: &[u8], foreign| {
        any.check_http("7", HttpBody { bytes, json_length: bytes.len() }, foreign, &Verified::default())
            .is_ok()
    };
    assert!(check(b"fine", true) && check(b"{}", true));
    assert!(!check(b"{}", false) && !check(br#"{"id":"8"}"#, true));
}

/// A binary response: JSON, then raw tensors.
fn binary(id: &str, size: usize, raw: &[u8]) -> (Vec<u8>, usize) {
    let mut bytes = format!(
        r#"{{"id":"{id}","outputs":[{{"name":"y","datatype":"FP32","shape":[1],"parameters":{{"binary_data_size":{size}}}}}]}}"#
    )
    .into_bytes();
    let json_length = bytes.len();
    bytes.extend_from_slice(raw);
    (bytes, json_length)
}

#[test]
fn raw_outputs_are_compared_byte_for_byte_and_must_be_where_the_json_says() {
    let right = 0.1_f32.to_le_bytes();
    let check = |verified: &Verified, (bytes, json_length): (Vec<u8>, usize)| {
        expected().check_http("7", HttpBody { bytes: &bytes, json_length }, false, verified)
    };
    let verified = Verified::default();
    assert_eq!(check(&verified, binary("7", 4, &right)), Ok(()));
    assert_eq!(check(&verified, binary("7", 4, &right)), Ok(()));
    let (bytes, json_length) = binary("7", 4, &right);
    let cases = [
        (binary("7", 4, &0.2_f32.to_le_bytes()), "differs"),
        (binary("7", 4, &right[..3]), "has 4 raw bytes, but 3 are left"),
        (binary("7", 4, &[1; 5]), "1 raw bytes belong to no output"),
        ((bytes.clone(), json_length + 9), "the answer's JSON has"),
        ((bytes, json_length - 1), "is not a JSON object"),
    ];
    for (case, wanted) in cases {
        let problem = check(&verified, case).expect_err(wanted);
        assert!(problem.contains(wanted), "{problem}");
    }
}

proptest! {
    #[test]
    fn a_remembered_answer_never_lets_a_changed_byte_pass(place in 0_usize..90, byte: u8) {
        let (expected, verified) = (expected(), Verified::default());
        let right = body("\"4711\"", "[0.1]");
        prop_assert!(check(&expected, &verified, "4711", &right).is_ok());
        let mut changed = right.clone();
        let place = place % changed.len();
        changed[place] = byte;
        let known = verified.knows("4711", HttpBody { bytes: &changed, json_length: changed.len() });
        prop_assert_eq!(known, changed == right);
    }
}
