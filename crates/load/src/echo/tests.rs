//! The echo over real sockets: pieces, pipelines, slow readers, and configured faults.

use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;

fn echo(options: EchoOptions) -> Echo {
    Echo::start(&options).expect("starts")
}

fn connect(echo: &Echo) -> TcpStream {
    let stream = TcpStream::connect(echo.address).expect("connects");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream
}

fn post(id: u64) -> Vec<u8> {
    let body = format!(r#"{{"id":"{id}","inputs":[]}}"#);
    format!("POST /v2 HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn answer(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn expect(stream: &mut TcpStream, wanted: &str) {
    let mut got = vec![0; wanted.len()];
    stream.read_exact(&mut got).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&got), wanted);
}

#[test]
fn a_post_is_answered_with_its_id_and_a_get_with_none() {
    let echo = echo(EchoOptions::default());
    let mut stream = connect(&echo);
    stream.write_all(&post(42)).expect("writes");
    expect(&mut stream, &answer(r#"{"id":"42"}"#));
    stream.write_all(b"GET /ready HTTP/1.1\r\n\r\n").expect("writes");
    expect(&mut stream, &answer(r#"{"id":""}"#));
}

#[test]
fn requests_in_pieces_and_many_at_once_are_answered_in_order() {
    let echo = echo(EchoOptions::default());
    let mut stream = connect(&echo);
    stream.set_nodelay(true).expect("no delay");
    for byte in post(1) {
        stream.write_all(&[byte]).expect("writes");
    }
    expect(&mut stream, &answer(r#"{"id":"1"}"#));
    let many: Vec<u8> = (0..500).flat_map(post).collect();
    stream.write_all(&many).expect("writes");
    for id in 0..500 {
        expect(&mut stream, &answer(&format!(r#"{{"id":"{id}"}}"#)));
    }
}

#[test]
fn a_peer_that_does_not_read_holds_up_only_itself_and_gets_all_answers_later() {
    let echo = echo(EchoOptions { reply_bytes: 1 << 20, ..EchoOptions::default() });
    let (mut lazy, mut other) = (connect(&echo), connect(&echo));
    let many: Vec<u8> = (0..20).flat_map(post).collect();
    lazy.write_all(&many).expect("writes");
    let padded = |id| {
        let body = format!(r#"{{"id":"{id}"}}"#);
        answer(&format!("{body}{}", " ".repeat((1 << 20) - body.len())))
    };
    other.write_all(&post(7)).expect("writes");
    expect(&mut other, &padded(7));
    for id in 0..20 {
        expect(&mut lazy, &padded(id));
    }
}

#[test]
fn what_is_no_request_is_refused_and_its_connection_closed() {
    let echo = echo(EchoOptions::default());
    let cases = [
        ("nonsense\r\n\r\n", "this is not HTTP/1.1"),
        ("POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n", "not a number"),
        ("POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", "too long"),
        ("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", "chunked"),
    ];
    for (request, wanted) in cases {
        let mut stream = connect(&echo);
        stream.write_all(request.as_bytes()).expect("writes");
        let mut got = String::new();
        stream.read_to_string(&mut got).expect("ends");
        assert!(got.starts_with("HTTP/1.1 400 ") && got.contains(wanted), "{got}");
    }
    let mut stream = connect(&echo);
    stream.write_all(&post(1)).expect("writes");
    expect(&mut stream, &answer(r#"{"id":"1"}"#));
}

#[test]
fn a_service_time_and_a_stall_last_as_long_as_was_asked_for() {
    let options =
        EchoOptions { service_us: 3000, stall_ms: 60, stall_every_s: 0.02, ..EchoOptions::default() };
    let echo = echo(options);
    let mut stream = connect(&echo);
    let slowest = (0..20).map(|id| {
        let start = Instant::now();
        stream.write_all(&post(id)).expect("writes");
        expect(&mut stream, &answer(&format!(r#"{{"id":"{id}"}}"#)));
        start.elapsed()
    });
    let times: Vec<_> = slowest.collect();
    assert!(times.iter().all(|time| *time >= Duration::from_millis(3)), "{times:?}");
    assert!(times.iter().any(|time| *time >= Duration::from_millis(50)), "{times:?}");
}

#[test]
fn an_echo_that_is_stopped_ends_its_connections_and_frees_its_port() {
    let echo = echo(EchoOptions::default());
    let mut stream = connect(&echo);
    stream.write_all(&post(1)).expect("writes");
    expect(&mut stream, &answer(r#"{"id":"1"}"#));
    echo.stop();
    echo.stop();
    assert_eq!(stream.read(&mut [0]).expect("ends"), 0);
    assert!(TcpStream::connect(echo.address).is_err());
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let cases = [
        (r#"{"reply":1}"#, "unknown field `reply`"),
        (r#"{"stall_ms":5}"#, "stall_ms needs stall_every_s"),
        (r#"{"reply_bytes":99999999}"#, "reply_bytes exceeds"),
        (r#"{"listen":"nowhere"}"#, "cannot listen on nowhere"),
        (r#"{"cpus":[1023]}"#, "cannot pin"),
    ];
    for (options, wanted) in cases {
        let error = EchoOptions::from_json(options.as_bytes()).and_then(|options| Echo::start(&options));
        let error = error.expect_err(wanted).to_string();
        assert!(error.contains(wanted), "{error}");
    }
}
