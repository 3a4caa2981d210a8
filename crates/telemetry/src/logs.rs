//! JSON logs on standard error, one object a line. For the server's own events; requests are measured, not
//! logged.

use flyball_core::printable;
use std::io::{self, Write};
pub use tracing_subscriber::filter::LevelFilter as LogLevel;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;

/// Sets up the process's log. Keeps an existing subscriber (of a program that embeds flyball).
pub fn init_logs(level: LogLevel) {
    let subscriber = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_current_span(false)
        .with_span_list(false)
        .with_max_level(level)
        .with_writer(|| Printable(io::stderr()))
        // It would report them on the same stream, and panic if that is closed.
        .log_internal_errors(false)
        .finish()
        .with(ours(level));
    let _ = tracing::subscriber::set_global_default(subscriber);
}

/// Our own events at the requested level; only warnings of libraries, which log every HTTP/2 frame.
fn ours(level: LogLevel) -> Targets {
    Targets::new().with_target("flyball", level).with_default(level.min(LogLevel::WARN))
}

/// Each write is one event, and JSON has no newline inside. JSON leaves some characters unescaped that a
/// terminal interprets.
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
