//! What an HTTP/1 connection is doing, so that one that does nothing, or feeds a request's head byte by byte, can be
//! closed. hyper's own header timeout also counts the idle time between requests, so it cannot tell the two apart.

use hyper::rt::{Read, ReadBufCursor, Write};
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

pub(crate) struct Activity {
    requests: Cell<usize>,
    /// When the connection was last without a request and without bytes of the next one.
    idle_since: Cell<Instant>,
    /// When the first bytes of a head came that has not been whole since.
    head_since: Cell<Option<Instant>>,
}

impl Activity {
    pub(crate) fn new() -> Rc<Activity> {
        let idle_since = Cell::new(Instant::now());
        Rc::new(Activity { requests: Cell::new(0), idle_since, head_since: Cell::new(None) })
    }

    /// A head is whole and its request begins; it ends when the guard is dropped.
    pub(crate) fn request(self: &Rc<Activity>) -> InRequest {
        self.requests.set(self.requests.get() + 1);
        self.head_since.set(None);
        InRequest(Rc::clone(self))
    }

    pub(crate) fn overdue(&self, header_timeout: Duration, idle_timeout: Duration) -> bool {
        if self.requests.get() > 0 {
            return false;
        }
        match self.head_since.get() {
            Some(since) => since.elapsed() > header_timeout,
            None => self.idle_since.get().elapsed() > idle_timeout,
        }
    }

    fn bytes_came(&self) {
        if self.requests.get() == 0 && self.head_since.get().is_none() {
            self.head_since.set(Some(Instant::now()));
        }
    }
}

pub(crate) struct InRequest(Rc<Activity>);

impl Drop for InRequest {
    fn drop(&mut self) {
        self.0.requests.set(self.0.requests.get().saturating_sub(1));
        self.0.idle_since.set(Instant::now());
    }
}

/// A stream that reports when bytes come in.
pub(crate) struct Watched<T> {
    pub(crate) stream: T,
    pub(crate) activity: Rc<Activity>,
}

impl<T: Read + Unpin> Read for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.activity.bytes_came();
        }
        read
    }
}

impl<T: Write + Unpin> Write for Watched<T> {
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

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }
}
