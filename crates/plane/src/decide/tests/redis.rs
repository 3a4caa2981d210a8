//! A fake Redis on its own thread: it gives scripted answers and keeps the requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Its answers to requests for records and windows, in order; the last one repeats.
pub(super) struct Redis {
    pub(super) url: String,
    pub(super) asked: Arc<Mutex<Vec<Vec<String>>>>,
}

/// One that answers a window.
pub(super) const WINDOW: &str = "*4\r\n$4\r\nwarm\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n0\r\n";

/// One that answers a record.
pub(super) fn record(json: &str) -> String {
    format!("${}\r\n{json}\r\n", json.len())
}

impl Redis {
    pub(super) fn says(answers: Vec<String>) -> Redis {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<Vec<String>>>>::default();
        let seen = Arc::clone(&asked);
        std::thread::spawn(move || {
            // It ends with the test's process; a client that hangs up ends only its own connection.
            while let Ok((stream, _)) = listener.accept() {
                let _hung_up = serve(stream, &answers, &seen);
            }
        });
        Redis { url, asked }
    }
}

fn serve(stream: TcpStream, answers: &[String], asked: &Mutex<Vec<Vec<String>>>) -> std::io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let command = command(&mut reader)?;
        let answer = match command[0].as_str() {
            "EVALSHA" | "GETRANGE" => {
                let mut asked = asked.lock().unwrap();
                let place = asked.len().min(answers.len() - 1);
                asked.push(command);
                answers[place].as_str()
            }
            "PING" => "+PONG\r\n",
            _ => "+OK\r\n",
        };
        writer.write_all(answer.as_bytes())?;
    }
}

/// A list of texts, each with its length before it.
fn command(reader: &mut impl BufRead) -> std::io::Result<Vec<String>> {
    let texts = number(reader)?;
    (0..texts)
        .map(|_| {
            let mut text = vec![0; number(reader)? + 2];
            reader.read_exact(&mut text)?;
            Ok(String::from_utf8_lossy(&text[..text.len() - 2]).into_owned())
        })
        .collect()
}

fn number(reader: &mut impl BufRead) -> std::io::Result<usize> {
    let mut state = String::new();
    reader.read_line(&mut state)?;
    state
        .get(1..)
        .and_then(|rest| rest.trim().parse().ok())
        .ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}
