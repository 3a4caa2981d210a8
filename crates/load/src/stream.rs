//! A connection to the server over any transport.

use crate::tally::Problem;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// The server's address.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
    /// A server inside the test, with virtual time.
    #[cfg(test)]
    Memory(tokio::sync::mpsc::Sender<tokio::io::DuplexStream>),
}

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    #[cfg(test)]
    Memory(tokio::io::DuplexStream),
}

impl Address {
    pub(crate) async fn connect(&self) -> Result<Stream, Problem> {
        self.open().await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => Problem::unreachable("connect refused", ""),
            // The socket's file is gone: no server listens there any more.
            io::ErrorKind::NotFound => Problem::unreachable("connect refused", error.to_string()),
            _ => Problem::unreachable("connect failed", error.to_string()),
        })
    }

    async fn open(&self) -> io::Result<Stream> {
        match self {
            Address::Tcp(address) => {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Address::Unix(path) => Ok(Stream::Unix(UnixStream::connect(path).await?)),
            #[cfg(test)]
            Address::Memory(server) => {
                let (ours, theirs) = tokio::io::duplex(64 << 10);
                let sent = server.send(theirs).await;
                sent.map_err(|_| io::ErrorKind::ConnectionRefused)?;
                Ok(Stream::Memory(ours))
            }
        }
    }
}

impl Stream {
    /// Whether the server closed a kept connection while it was idle. No system call unless something
    /// arrived.
    pub(crate) fn closed_by_peer(&self) -> bool {
        let read = match self {
            Stream::Tcp(stream) => stream.try_read(&mut [0_u8; 1]),
            Stream::Unix(stream) => stream.try_read(&mut [0_u8; 1]),
            #[cfg(test)]
            Stream::Memory(_) => return false,
        };
        !matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(context, into),
            Stream::Unix(stream) => Pin::new(stream).poll_read(context, into),
            #[cfg(test)]
            Stream::Memory(stream) => Pin::new(stream).poll_read(context, into),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            #[cfg(test)]
            Stream::Memory(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Stream::Unix(stream) => Pin::new(stream).poll_flush(context),
            #[cfg(test)]
            Stream::Memory(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            #[cfg(test)]
            Stream::Memory(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
