//! Escapes untrusted text for a terminal or a log.
//!
//! Characters that would move the cursor, change the reading direction or start a new line become escapes.
//! Must not know where the text is printed.

use std::borrow::Cow;
use std::fmt::Write;

/// Returns the text with control characters written as JSON escapes.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_control(character) {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Matches controls (C0, DEL, C1), line and paragraph separators, and direction marks and overrides.
fn is_control(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_all_else_is_kept() {
        for kept in ["", "fraud: 'größer' 審査 🙂 \\", "a\u{301}"] {
            assert!(matches!(printable(kept), Cow::Borrowed(text) if text == kept));
        }
        assert_eq!(
            printable("a\u{1b}[2Jb\nc\u{9b}d\u{202e}e\u{7f}"),
            "a\\u001b[2Jb\\u000ac\\u009bd\\u202ee\\u007f"
        );
        assert_eq!(printable("\u{2028}\u{2066}"), "\\u2028\\u2066");
    }
}
