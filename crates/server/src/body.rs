//! Reading request bodies: never more than the limit, never longer than the timeout.

use crate::ServerConfig;
use bytes::{Bytes, BytesMut};
use flyball_core::{Fault, FaultKind, Stage};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// A client that sent too much is heard out for this long, so that it gets to read the refusal instead of a reset.
const LINGER_MAX: Duration = Duration::from_secs(1);

pub(crate) async fn read(mut body: Incoming, http2: bool, config: &ServerConfig) -> Result<Bytes, Fault> {
    let bytes_max = config.body_bytes_max;
    let result = {
        let mut read = pin!(read_all(&mut body, bytes_max, http2));
        // Most bodies came with their head; a timer is only set up for those that did not.
        match poll_fn(|context| Poll::Ready(read.as_mut().poll(context))).await {
            Poll::Ready(result) => result,
            Poll::Pending => within(config.body_timeout(), read).await,
        }
    };
    if result.as_ref().is_err_and(|fault| fault.kind == FaultKind::BodyTooLarge) {
        let _ = tokio::time::timeout(LINGER_MAX, discard(&mut body, bytes_max)).await;
    }
    result
}

async fn within(timeout: Duration, read: impl Future<Output = Result<Bytes, Fault>>) -> Result<Bytes, Fault> {
    tokio::time::timeout(timeout, read).await.unwrap_or_else(|_elapsed| {
        let text = format!("the body did not arrive within {} ms", timeout.as_millis());
        Err(Fault::new(FaultKind::BodyTimeout, Stage::Parse, text))
    })
}

async fn read_all(body: &mut Incoming, bytes_max: usize, http2: bool) -> Result<Bytes, Fault> {
    let too_large = || {
        let text = format!("the body is larger than {bytes_max} bytes, the server's limit (body_bytes_max)");
        Fault::new(FaultKind::BodyTooLarge, Stage::Parse, text)
    };
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large());
    }
    // Most bodies come in one piece, which is then used as it is.
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| gone(&error.to_string()))?;
        let Ok(piece) = frame.into_data() else { continue };
        if first.len() + rest.len() + piece.len() > bytes_max {
            return Err(too_large());
        }
        if first.is_empty() {
            first = piece;
        } else {
            if rest.is_empty() {
                rest.reserve(usize::try_from(body.size_hint().lower()).unwrap_or(0) + piece.len());
            }
            rest.extend_from_slice(&piece);
        }
    }
    // hyper ends the body of a cancelled HTTP/2 stream as if it were whole.
    if http2 && !body.is_end_stream() {
        return Err(gone("the stream was cancelled"));
    }
    if rest.is_empty() {
        return Ok(first);
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    Ok(whole.freeze())
}

fn gone(why: &str) -> Fault {
    Fault::new(FaultKind::ClientGone, Stage::Parse, format!("the body broke off: {why}"))
}

async fn discard(body: &mut Incoming, bytes_max: usize) {
    let mut left = bytes_max;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(length) {
            Some(less) => left = less,
            None => return,
        }
    }
}
