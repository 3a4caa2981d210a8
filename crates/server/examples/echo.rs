//! The minimum latency of flyball's HTTP stack: hyper on one pinned thread, the same body sizes, no work.
//!
//! `make claim-skeleton` measures it beside the server. Any POST is answered with `?reply=N` bytes.
#![forbid(unsafe_code)]

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use tokio::net::TcpListener;
use tokio::task::LocalSet;

const REPLY_BYTES_MAX: usize = 1 << 20;

fn main() -> std::io::Result<()> {
    let address = match std::env::args().skip_while(|word| word != "--listen").nth(1) {
        Some(address) => address,
        None => "127.0.0.1:0".to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    LocalSet::new().block_on(&runtime, serve(&address))
}

async fn serve(address: &str) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    println!("ready http://{}", listener.local_addr()?);
    loop {
        let (stream, _peer) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::task::spawn_local(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service_fn(echo));
            // A peer that leaves only ends its own connection.
            let _ = connection.await;
        });
    }
}

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let wanted = request.uri().query().and_then(|query| query.strip_prefix("reply=")?.parse().ok());
    let length = wanted.unwrap_or(0).min(REPLY_BYTES_MAX);
    // Read completely, as the server does, and dropped.
    let _ = request.into_body().collect().await;
    let mut response = Response::new(Full::new(Bytes::from(vec![b' '; length])));
    response
        .headers_mut()
        .insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    Ok(response)
}
