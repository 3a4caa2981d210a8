//! Logs on standard error: JSON, one object a line, or text for people. For the server's own events; requests
//! are measured, not logged.

use flyball_core::printable;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::{SystemTime, UNIX_EPOCH};
pub use tracing_subscriber::filter::LevelFilter as LogLevel;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;

/// How a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON for programs.
    Auto,
    Json,
    Text,
}

impl LogFormat {
    pub fn from_name(name: &str) -> Option<LogFormat> {
        match name {
            "auto" => Some(LogFormat::Auto),
            "json" => Some(LogFormat::Json),
            "text" => Some(LogFormat::Text),
            _ => None,
        }
    }
}

/// Sets up the process's log. Keeps an existing subscriber (of a program that embeds flyball).
pub fn init_logs(level: LogLevel, format: LogFormat) {
    let lines = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| Printable(io::stderr()))
        // It would report them on the same stream, and panic if that is closed.
        .log_internal_errors(false);
    let as_text = format == LogFormat::Text || (format == LogFormat::Auto && io::stderr().is_terminal());
    // An error means that a subscriber exists.
    let _ = if as_text {
        let text = lines.compact().with_ansi(false).with_target(false).with_timer(TimeOfDay);
        tracing::subscriber::set_global_default(text.finish().with(ours(level)))
    } else {
        let json = lines.json().flatten_event(true).with_current_span(false).with_span_list(false);
        tracing::subscriber::set_global_default(json.finish().with(ours(level)))
    };
}

/// `14:02:11Z`: someone watches, so the date is known.
struct TimeOfDay;

impl FormatTime for TimeOfDay {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(to, "{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// Our own events at the requested level; only warnings of libraries, which log every HTTP/2 frame.
fn ours(level: LogLevel) -> Targets {
    Targets::new().with_target("flyball", level).with_default(level.min(LogLevel::WARN))
}

/// Each write is one event without a newline inside: `printable` escapes those of texts. JSON leaves some
/// characters unescaped that a terminal interprets.
struct Printable<W: Write>(W);

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(bytes.strip_suffix(b"\n").unwrap_or(bytes)) {
            Ok(line) if bytes.ends_with(b"\n") => writeln!(self.0, "{}", printable(line))?,
            Ok(line) => self.0.write_all(printable(line).as_bytes())?,
            Err(_) => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn at_debug_only_our_own_events_are_shown_and_warnings_of_others() {
        let shown = ours(LogLevel::DEBUG);
        assert!(shown.would_enable("flyball_plane::apply", &Level::DEBUG));
        assert!(shown.would_enable("flyballd", &Level::DEBUG));
        assert!(shown.would_enable("h2::proto", &Level::WARN));
        for other in ["h2::codec::framed_write", "hyper::proto", "rustls::conn"] {
            assert!(
                !shown.would_enable(other, &Level::DEBUG) && !shown.would_enable(other, &Level::INFO),
                "{other}"
            );
        }
        assert!(!ours(LogLevel::ERROR).would_enable("h2", &Level::WARN));
    }

    #[test]
    fn a_line_has_nothing_that_a_terminal_obeys_and_is_still_json() {
        let mut line = Printable(Vec::new());
        line.write_all("{\"message\":\"a\u{9b}2J\u{202e}b\"}\n".as_bytes()).unwrap();
        assert_eq!(line.0, b"{\"message\":\"a\\u009b2J\\u202eb\"}\n");
    }
}
