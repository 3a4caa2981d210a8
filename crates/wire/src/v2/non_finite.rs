//! `NaN` and `Infinity` in JSON, which Python, Triton and others write though the standard has no such numbers.
//!
//! A body that does not parse is tried once more with these words masked by zeros of the same length, so that
//! every offset stays; the elements of tensors are then read from the unmasked text.

const MASKS: [(&str, &str); 3] = [("NaN", "0.0"), ("Infinity", "0.000000"), ("Inf", "0.0")];

/// The text with zeros for its words outside of strings; none if it has no such word.
pub(super) fn masked(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let (mut masked, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'"' => string_length(&bytes[at..]),
            b'N' | b'I' => match MASKS.iter().find(|(word, _)| bytes[at..].starts_with(word.as_bytes())) {
                None => 1,
                Some((word, zero)) => {
                    masked.push_str(&text[copied..at]);
                    masked.push_str(zero);
                    copied = at + word.len();
                    word.len()
                }
            },
            _ => 1,
        };
    }
    (copied > 0).then(|| {
        masked.push_str(&text[copied..]);
        masked
    })
}

/// Up to the closing quote, or to the end of the text.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The value of a word with its sign.
pub(super) fn value(token: &str) -> Option<f64> {
    match token {
        "NaN" | "-NaN" => Some(f64::NAN),
        "Infinity" | "Inf" => Some(f64::INFINITY),
        "-Infinity" | "-Inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// As Python and Triton write it.
pub(super) fn word(value: f64) -> &'static str {
    match (value.is_nan(), value > 0.0) {
        (true, _) => "NaN",
        (false, true) => "Infinity",
        (false, false) => "-Infinity",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_outside_of_strings_become_zeros_of_their_length() {
        for (text, wanted) in [
            ("[NaN,-Infinity,Inf]", Some("[0.0,-0.000000,0.0]")),
            (r#"{"NaN":NaN,"a\"Inf":"Infinity"}"#, Some(r#"{"NaN":0.0,"a\"Inf":"Infinity"}"#)),
            (r#"["NaN"]"#, None),
            ("[1,2]", None),
            ("I", None),
            ("\"NaN", None),
            ("\"\\", None),
        ] {
            assert_eq!(masked(text).as_deref(), wanted, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_keeps_its_length_and_valid_json_is_left_alone(
            text in r#"([\[\]{}",:\\ 1é-]|NaN|Inf|Infinity){0,40}"#,
        ) {
            if let Some(masked) = masked(&text) {
                prop_assert_eq!(masked.len(), text.len());
                prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_err());
            }
        }
    }
}
