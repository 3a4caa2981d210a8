//! A clock that only tests advance, in builds with the feature `virtual-time`, which never ship.
//!
//! FLYBALL_HELD_CLOCK names a Unix socket. Each line on it is a number of milliseconds, and is answered once time has
//! advanced. It drives the schedule, deadlines and run limits; sockets and pauses use the system's time. Must not know
//! requests.

use flyball_core::Clock;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

/// The system's clock, or one that is advanced through the socket in the environment.
pub(crate) fn clock() -> Clock {
    let Some(path) = std::env::var_os("FLYBALL_HELD_CLOCK") else { return Clock::system() };
    let listener = UnixListener::bind(path).expect("the test names a path that is free");
    let clock = Clock::manual();
    let held = clock.clone();
    let listen = move || listener.incoming().flatten().for_each(|stream| follow(&held, stream));
    std::thread::Builder::new().name("held-clock".to_owned()).spawn(listen).expect("a thread");
    clock
}

/// Advances the clock for one test.
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
