//! Response bodies: a complete body, a gRPC message with trailers, or a stream of messages.

use crate::grpc::Duplex;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

pub(crate) enum ReplyBody {
    Whole(Option<Bytes>),
    Grpc { message: Option<Bytes>, trailers: Option<HeaderMap> },
    Stream(Duplex),
}

impl ReplyBody {
    pub(crate) fn empty() -> ReplyBody {
        ReplyBody::Whole(None)
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            ReplyBody::Whole(body) => Poll::Ready(piece(body).map(|piece| Ok(Frame::data(piece)))),
            ReplyBody::Grpc { message, trailers } => {
                let frame = message.take().map(Frame::data).or_else(|| trailers.take().map(Frame::trailers));
                Poll::Ready(frame.map(Ok))
            }
            ReplyBody::Stream(stream) => stream.poll_frame(context).map(|frame| frame.map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReplyBody::Whole(body) => body.is_none(),
            ReplyBody::Grpc { message, trailers } => message.is_none() && trailers.is_none(),
            ReplyBody::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            ReplyBody::Grpc { .. } | ReplyBody::Stream(_) => SizeHint::default(),
        }
    }
}

/// Large bodies are split: HTTP/1.1 copies each piece into the connection's buffer, which never shrinks.
const PIECE_BYTES: usize = 256 << 10;

fn piece(body: &mut Option<Bytes>) -> Option<Bytes> {
    match body {
        Some(rest) if rest.len() > PIECE_BYTES => Some(rest.split_to(PIECE_BYTES)),
        _ => body.take(),
    }
}

/// A body with guards that are held until it has been sent.
pub(crate) struct Lasting<T> {
    pub(crate) body: ReplyBody,
    pub(crate) _until_sent: T,
}

impl<T: Unpin> Body for Lasting<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pub(crate) type Reply = Response<ReplyBody>;

/// A complete reply with a content type.
pub(crate) fn whole(status: StatusCode, content_type: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole((!body.is_empty()).then_some(body)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn a_large_body_comes_in_pieces_and_is_announced_whole() {
        let sent = Bytes::from((0..PIECE_BYTES * 2 + 7).map(|byte| byte as u8).collect::<Vec<_>>());
        let mut body = ReplyBody::Whole(Some(sent.clone()));
        assert_eq!(body.size_hint().exact(), Some(sent.len() as u64));
        let (mut context, mut lengths, mut came) =
            (Context::from_waker(Waker::noop()), Vec::new(), Vec::new());
        while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut context) {
            let piece = frame.into_data().unwrap();
            lengths.push(piece.len());
            came.extend_from_slice(&piece);
        }
        assert!(body.is_end_stream());
        assert_eq!((lengths, Bytes::from(came)), (vec![PIECE_BYTES, PIECE_BYTES, 7], sent));
    }
}
