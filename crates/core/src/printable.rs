//! Text for a terminal or a log, whoever wrote it: characters that would move the cursor, change the reading direction or begin
//! another line are shown as escapes. Must not know where it is printed.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with such characters written as JSON escapes.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if acts(character) {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{:04x}", u32::from(character));
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Controls (C0, DEL and C1), separators of lines and paragraphs, marks and overrides of direction.
fn acts(character: char) -> bool {
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
