//! A stream whose bytes are checked for its protocol before hyper sees them.
//!
//! Also reports activity. Must not know what a request is.

use crate::activity::Activity;
use crate::http1_bytes::{Http1Bytes, Look};
use crate::http2_frames::Http2Frames;
use crate::stream::Stream;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

enum Framing {
    Http1(Http1Bytes),
    Http2(Http2Frames),
}

pub(crate) struct ProtocolStream {
    pub(crate) stream: Stream,
    framing: Framing,
    activity: Rc<Activity>,
}

impl ProtocolStream {
    pub(crate) fn new(stream: Stream, http1: bool, activity: Rc<Activity>) -> ProtocolStream {
        let framing = if http1 {
            Framing::Http1(Http1Bytes::default())
        } else {
            Framing::Http2(Http2Frames::default())
        };
        ProtocolStream { stream, framing, activity }
    }
}

impl AsyncRead for ProtocolStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.activity.poll_unparked(context, |context| self.stream.bytes_are_here(context)));
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let unfinished = match &mut self.framing {
            Framing::Http1(bytes) => {
                match bytes.look(&buffer.filled()[before..]) {
                    Look::Good => {}
                    Look::Malformed(at) => {
                        buffer.filled_mut()[before + at] = 0;
                        buffer.set_filled(before + at + 1);
                    }
                    // As if the peer had left: hyper then closes without a response.
                    Look::Foreign => buffer.set_filled(before),
                }
                // Outside a request every byte of HTTP/1 belongs to a head.
                true
            }
            Framing::Http2(frames) => frames.unfinished_after(&buffer.filled()[before..]),
        };
        self.activity.bytes_came(unfinished);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ProtocolStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(count)) = written {
            self.activity.bytes_went(count);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
