//! A stream whose bytes are checked by its protocol's guard before hyper sees them. Must not know what a request is.

use crate::http1_bytes::{Http1Bytes, Look};
use crate::http2_frames::Http2Frames;
use crate::stream::Stream;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

enum Framing {
    Http1(Http1Bytes),
    Http2 { frames: Http2Frames, unfinished: bool },
}

pub(crate) struct ProtocolStream {
    stream: Stream,
    framing: Framing,
}

impl ProtocolStream {
    pub(crate) fn http1(stream: Stream) -> ProtocolStream {
        ProtocolStream { stream, framing: Framing::Http1(Http1Bytes::default()) }
    }

    pub(crate) fn http2(stream: Stream) -> ProtocolStream {
        ProtocolStream {
            stream,
            framing: Framing::Http2 { frames: Http2Frames::default(), unfinished: true },
        }
    }

    /// Whether the peer began something that is not whole yet. Outside a request every byte of HTTP/1 belongs to a head.
    pub(crate) fn unfinished(&self) -> bool {
        match &self.framing {
            Framing::Http1(_) => true,
            Framing::Http2 { unfinished, .. } => *unfinished,
        }
    }

    pub(crate) fn bytes_are_here(&self, context: &mut Context<'_>) -> bool {
        self.stream.bytes_are_here(context)
    }
}

impl AsyncRead for ProtocolStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        match &mut self.framing {
            Framing::Http1(bytes) => match bytes.look(&buffer.filled()[before..]) {
                Look::Good => {}
                Look::Malformed(at) => {
                    buffer.filled_mut()[before + at] = 0;
                    buffer.set_filled(before + at + 1);
                }
                // As if the peer had left: hyper then closes without a word.
                Look::Foreign => buffer.set_filled(before),
            },
            Framing::Http2 { frames, unfinished } => {
                *unfinished = frames.unfinished_after(&buffer.filled()[before..]);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ProtocolStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
