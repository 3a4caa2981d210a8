//! A connection to the server over any transport.

use crate::tally::Problem;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};
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

/// A connection over any transport.
pub(crate) type Stream = Box<dyn Transport>;

pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin {
    /// Reads what has already arrived; no system call unless something did.
    fn try_read(&self, into: &mut [u8]) -> io::Result<usize>;

    /// Whether the server closed a kept connection while it was idle.
    fn closed_by_peer(&self) -> bool {
        !matches!(self.try_read(&mut [0_u8; 1]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl Transport for TcpStream {
    fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        TcpStream::try_read(self, into)
    }
}

impl Transport for UnixStream {
    fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        UnixStream::try_read(self, into)
    }
}

#[cfg(test)]
impl Transport for tokio::io::DuplexStream {
    fn try_read(&self, _into: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }
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
                Ok(Box::new(stream))
            }
            Address::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
            #[cfg(test)]
            Address::Memory(server) => {
                let (ours, theirs) = tokio::io::duplex(64 << 10);
                let sent = server.send(theirs).await;
                sent.map_err(|_| io::ErrorKind::ConnectionRefused)?;
                Ok(Box::new(ours))
            }
        }
    }
}
