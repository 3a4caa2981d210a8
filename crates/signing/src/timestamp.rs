//! Times of signed documents: RFC 3339, UTC, whole seconds, in one form only.

use std::fmt;

/// With its signed text, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Timestamp {
    pub(crate) unix: i64,
    text: String,
}

impl Timestamp {
    pub(crate) const FORM: &str = "a time such as \"2026-11-16T04:00:00Z\"";

    pub(crate) fn read(text: &str) -> Option<Timestamp> {
        const SHAPE: &[u8; 20] = b"dddd-dd-ddTdd:dd:ddZ";
        let fits =
            |(byte, shape): (u8, &u8)| if *shape == b'd' { byte.is_ascii_digit() } else { byte == *shape };
        // Leap seconds and the year 0 are times to some readers and faults to others, so they are rejected.
        let plain = text.len() == SHAPE.len() && !text.ends_with(":60Z") && !text.starts_with("0000");
        if !plain || !text.bytes().zip(SHAPE).all(fits) {
            return None;
        }
        let unix = text.parse::<jiff::Timestamp>().ok()?.as_second();
        Some(Timestamp { unix, text: text.to_owned() })
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_one_form() {
        assert_eq!(Timestamp::read("1970-01-02T00:00:01Z").map(|moment| moment.unix), Some(86_401));
        for bad in [
            "",
            "2026-11-16",
            "2026-11-16T04:00:00",
            "2026-11-16T04:00:00.0Z",
            "2026-11-16t04:00:00z",
            "2026-11-16T04:00:00+00:00",
            "2026-13-16T04:00:00Z",
            "2026-02-29T04:00:00Z",
            "2026-11-16T24:00:00Z",
            "2016-12-31T23:59:60Z",
            "0000-01-01T00:00:00Z",
            "\u{0662}026-11-16T04:00:00Z",
        ] {
            assert_eq!(Timestamp::read(bad), None, "{bad}");
        }
    }
}
