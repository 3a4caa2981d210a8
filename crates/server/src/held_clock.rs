//! A clock that stops until a test moves it: only in builds with the feature `virtual-time`, which never ship.
//!
//! FLYBALL_HELD_CLOCK names a Unix socket; each line that it gets is a number of milliseconds, answered once time has moved.
//! Governs the schedule, deadlines and run limits. Sockets and pauses keep the system's time. Must not know requests.

use flyball_core::Clock;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// The system's clock, or one that is moved through the socket that the environment names.
pub(crate) fn clock() -> Clock {
    let Some(path) = std::env::var_os("FLYBALL_HELD_CLOCK") else { return Clock::system() };
    let listener = UnixListener::bind(path).expect("the test names a path that is free");
    let clock = Clock::manual();
    let held = clock.clone();
    let listen = move || listener.incoming().flatten().for_each(|stream| follow(&held, stream));
    std::thread::Builder::new().name("held-clock".to_owned()).spawn(listen).expect("a thread");
    clock
}

/// Moves time as often as one test asks.
fn follow(clock: &Clock, mut stream: UnixStream) {
    let Ok(lines) = stream.try_clone() else { return };
    for line in BufReader::new(lines).lines().map_while(Result::ok) {
        let Ok(ms) = line.parse() else { return };
        clock.advance(Duration::from_millis(ms));
        if stream.write_all(b"moved\n").is_err() {
            return;
        }
    }
}
