//! Servers for the tests: HTTP/1.1 on plain threads, and gRPC on hyper.

use bytes::Bytes;
use flyball_wire::frame;
use flyball_wire::proto::inference::model_infer_response::InferOutputTensor;
use flyball_wire::proto::inference::{ModelInferRequest, ModelInferResponse};
use http_body_util::{BodyExt, Full};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use prost::Message;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::LocalSet;

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
    pub(crate) close: bool,
    /// No response: the connection just ends.
    pub(crate) hang_up: bool,
    pub(crate) delay: Duration,
}

impl Default for Reply {
    fn default() -> Reply {
        Reply { status: 200, body: String::new(), close: false, hang_up: false, delay: Duration::ZERO }
    }
}

/// The correct response: the input, halved.
pub(crate) fn answer(request: &Value) -> Reply {
    let x = request["inputs"][0]["data"][0].as_f64().expect("a number") as f32;
    let output = json!({"name": "y", "datatype": "FP32", "shape": [1], "data": [x / 2.0]});
    let body = json!({"model_name": "fraud", "id": request["id"], "outputs": [output]});
    Reply { body: body.to_string(), ..Reply::default() }
}

pub(crate) struct HttpServer {
    pub(crate) url: String,
    listener: TcpListener,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

/// The delay, the response bytes (none: the connection just ends), and whether it ends after.
type Answered = (Duration, Option<Vec<u8>>, bool);

impl HttpServer {
    /// `handler` gets each request's number over all connections, and its body.
    pub(crate) fn start(handler: impl Fn(u64, Value) -> Reply + Send + Sync + 'static) -> HttpServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        HttpServer::start_on(listener, handler)
    }

    pub(crate) fn start_on(
        listener: TcpListener,
        handler: impl Fn(u64, Value) -> Reply + Send + Sync + 'static,
    ) -> HttpServer {
        HttpServer::serve(listener, move |place, body| {
            let reply = handler(place, serde_json::from_slice(body).expect("JSON"));
            let close = if reply.close { "Connection: close\r\n" } else { "" };
            let length = reply.body.len();
            let head = format!("HTTP/1.1 {} X\r\n{close}Content-Length: {length}\r\n\r\n", reply.status);
            (reply.delay, (!reply.hang_up).then(|| (head + &reply.body).into_bytes()), reply.close)
        })
    }

    /// Serves binary tensors: `handler` gets a request's number and its one element, and returns the
    /// response's.
    pub(crate) fn start_binary(handler: impl Fn(u64, f32) -> f32 + Send + Sync + 'static) -> HttpServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        HttpServer::serve(listener, move |place, body| {
            let (json, raw) = body.split_at(body.len() - 4);
            let request: Value = serde_json::from_slice(json).expect("JSON before four raw bytes");
            assert_eq!(request["inputs"][0]["parameters"]["binary_data_size"], 4);
            assert_eq!(request["parameters"]["binary_data_output"], true);
            let y = handler(place, f32::from_le_bytes(raw.try_into().expect("four bytes")));
            let output =
                json!({"name": "y", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}});
            let json = json!({"id": request["id"], "outputs": [output]}).to_string();
            let (whole, part) = (json.len() + 4, json.len());
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {whole}\r\nInference-Header-Content-Length: {part}\r\n\r\n{json}"
            );
            (Duration::ZERO, Some([head.as_bytes(), &y.to_le_bytes()].concat()), false)
        })
    }

    fn serve(
        listener: TcpListener,
        answer: impl Fn(u64, &[u8]) -> Answered + Send + Sync + 'static,
    ) -> HttpServer {
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let (answer, requests) = (Arc::new(answer), Arc::new(AtomicU64::new(0)));
        let (accepting, kept) = (listener.try_clone().expect("a clone"), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in accepting.incoming().map_while(Result::ok) {
                kept.lock().expect("lock").push(stream.try_clone().expect("a clone"));
                let (answer, requests) = (Arc::clone(&answer), Arc::clone(&requests));
                std::thread::spawn(move || {
                    converse(&stream, &*answer, &requests);
                    // Not by dropping it: `die` has a clone. It may already be shut.
                    let _ = stream.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        HttpServer { url, listener, connections }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.lock().expect("lock").len()
    }

    /// An address without a listener.
    pub(crate) fn into_dead_url(self) -> String {
        self.die();
        self.url
    }

    /// Hangs up permanently.
    pub(crate) fn die(&self) {
        // Ends the accepting thread: accepting fails once the socket is shut for reading.
        rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Read).expect("shuts down");
        for connection in &*self.connections.lock().expect("lock") {
            // Already closed ones cannot be shut again.
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// Like `HttpServer`, at a path.
pub(crate) fn unix_server(path: &Path, handler: impl Fn(u64, Value) -> Reply + Send + Sync + 'static) {
    let listener = UnixListener::bind(path).expect("a socket");
    let handler = Arc::new(handler);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let handler = Arc::clone(&handler);
            std::thread::spawn(move || {
                let answer = |place, body: &[u8]| {
                    let body = handler(place, serde_json::from_slice(body).expect("JSON")).body;
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                    (Duration::ZERO, Some((head + &body).into_bytes()), false)
                };
                converse(stream, &answer, &AtomicU64::new(0));
            });
        }
    });
}

fn converse(mut stream: impl Read + Write, answer: &dyn Fn(u64, &[u8]) -> Answered, requests: &AtomicU64) {
    while let Some(body) = read_request(&mut stream) {
        let (delay, answer, close) = answer(requests.fetch_add(1, Ordering::Relaxed), &body);
        std::thread::sleep(delay);
        let Some(answer) = answer else { return };
        if stream.write_all(&answer).is_err() || close {
            return;
        }
    }
}

fn read_request(stream: &mut impl Read) -> Option<Vec<u8>> {
    let mut received = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).ok().filter(|&count| count > 0)?;
        received.extend_from_slice(&piece[..count]);
        let mut headers = [httparse::EMPTY_HEADER; 16];
        let mut request = httparse::Request::new(&mut headers);
        let Ok(httparse::Status::Complete(start)) = request.parse(&received) else { continue };
        let length = request.headers.iter().find(|header| header.name == "Content-Length")?.value;
        let length: usize = std::str::from_utf8(length).ok()?.parse().ok()?;
        if received.len() >= start + length {
            return Some(received[start..start + length].to_vec());
        }
    }
}

/// Halves over gRPC, and rejects the requests that `refuse` selects by number and headers.
pub(crate) fn grpc_server(
    refuse: impl Fn(u64, &http::HeaderMap) -> bool + Copy + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("grpc://{}", listener.local_addr().expect("an address"));
    listener.set_nonblocking(true).expect("non-blocking");
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        LocalSet::new().block_on(&runtime, async move {
            let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
            let requests = Arc::new(AtomicU64::new(0));
            while let Ok((stream, _)) = listener.accept().await {
                let requests = Arc::clone(&requests);
                tokio::task::spawn_local(async move {
                    let service = service_fn(move |request: http::Request<Incoming>| {
                        let place = requests.fetch_add(1, Ordering::Relaxed);
                        let refused = refuse(place, request.headers());
                        halve(request, refused)
                    });
                    let io = hyper_util::rt::TokioIo::new(stream);
                    let builder =
                        hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new());
                    let _ = builder.serve_connection(io, service).await;
                });
            }
        });
    });
    url
}

type GrpcBody = http_body_util::combinators::BoxBody<Bytes, std::convert::Infallible>;

async fn halve(
    request: http::Request<Incoming>,
    refused: bool,
) -> Result<http::Response<GrpcBody>, hyper::Error> {
    let body = request.into_body().collect().await?.to_bytes();
    let response = http::Response::builder().header("content-type", "application/grpc");
    if refused {
        let response = response.header("grpc-status", "8").header("grpc-message", "full");
        return Ok(response.body(Full::default().boxed()).expect("a response"));
    }
    let message = ModelInferRequest::decode(frame::decode(&body).expect("a frame")).expect("a message");
    let x = f32::from_le_bytes(message.raw_input_contents[0].as_ref().try_into().expect("four bytes"));
    let answer = ModelInferResponse {
        id: message.id,
        outputs: vec![InferOutputTensor {
            name: "y".into(),
            datatype: "FP32".into(),
            shape: vec![1],
            ..Default::default()
        }],
        raw_output_contents: vec![(x / 2.0).to_le_bytes().to_vec().into()],
        ..Default::default()
    };
    let frames = [
        Frame::data(frame::encode_message(&answer).expect("fits")),
        Frame::trailers(http::HeaderMap::from_iter([(
            http::HeaderName::from_static("grpc-status"),
            http::HeaderValue::from_static("0"),
        )])),
    ];
    Ok(response.body(Frames(frames.into_iter()).boxed()).expect("a response"))
}

/// A body of given frames.
struct Frames(std::array::IntoIter<Frame<Bytes>, 2>);

impl hyper::body::Body for Frames {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Ready(self.0.next().map(Ok))
    }
}
