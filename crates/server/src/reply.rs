//! Response bodies of every kind this server sends: a whole body, a gRPC message with its trailers, a health watch.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A stream of frames, for answers that do not end with one message.
pub(crate) type Frames = Pin<Box<dyn Body<Data = Bytes, Error = Infallible>>>;

pub(crate) enum ReplyBody {
    Whole(Option<Bytes>),
    Grpc { message: Option<Bytes>, trailers: Option<HeaderMap> },
    Stream(Frames),
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
            ReplyBody::Whole(body) => Poll::Ready(body.take().map(|body| Ok(Frame::data(body)))),
            ReplyBody::Grpc { message, trailers } => {
                let frame = message.take().map(Frame::data).or_else(|| trailers.take().map(Frame::trailers));
                Poll::Ready(frame.map(Ok))
            }
            ReplyBody::Stream(stream) => stream.as_mut().poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReplyBody::Whole(body) => body.is_none(),
            ReplyBody::Grpc { message, trailers } => message.is_none() && trailers.is_none(),
            ReplyBody::Stream(stream) => stream.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(body) => SizeHint::with_exact(body.as_ref().map_or(0, |body| body.len() as u64)),
            ReplyBody::Grpc { .. } | ReplyBody::Stream(_) => SizeHint::default(),
        }
    }
}

/// A body that holds something until it has been handed over.
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

/// A whole reply with a content type.
pub(crate) fn whole(status: StatusCode, content_type: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole((!body.is_empty()).then_some(body)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    reply
}
