//! A connection's stream: TCP, TLS or a Unix socket.
//!
//! One type, so that hyper's connection code is compiled once, not per transport. Knows nothing of HTTP except the version
//! that TLS negotiated.

use rustix::net::RecvFlags;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Peeks at the first bytes. Not for TLS, which negotiates the protocol.
    pub(crate) async fn peek(&self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.peek(bytes).await,
            Stream::Unix(stream) => {
                let look = || Ok(rustix::net::recv(stream, &mut *bytes, RecvFlags::PEEK)?.0);
                stream.async_io(Interest::READABLE, look).await
            }
            Stream::Tls(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Whether TLS negotiated HTTP/2; `None` without TLS.
    pub(crate) fn agreed_on_http2(&self) -> Option<bool> {
        match self {
            Stream::Tls(stream) => Some(stream.get_ref().1.alpn_protocol() == Some(b"h2")),
            _ => None,
        }
    }

    /// Whether bytes are ready to be read; otherwise the context is woken when some arrive.
    pub(crate) fn bytes_are_here(&self, context: &mut Context<'_>) -> bool {
        match self {
            Stream::Tcp(stream) => stream.poll_read_ready(context).is_ready(),
            Stream::Unix(stream) => stream.poll_read_ready(context).is_ready(),
            Stream::Tls(stream) => stream.get_ref().0.poll_read_ready(context).is_ready(),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
