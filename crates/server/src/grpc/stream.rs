//! The shared part of bidirectional calls.
//!
//! Reads messages one by one from the request's body and sends responses as the client reads them. The work between
//! them runs in its own task. Does not know the messages' contents.

use super::{response, status_of, trailers};
use crate::body::{BodyPart, gone};
use crate::lane_thread::LaneContext;
use crate::reply::{Reply, ReplyBody};
use ::http::HeaderMap;
use bytes::Bytes;
use flyball_core::{Fault, FaultKind, Stage};
use flyball_wire::frame::{Framed, Frames};
use http_body::Frame;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// Maximum responses that wait for the client's window; beyond it the call waits as well.
const ANSWERS_MAX: usize = 16;

/// The messages of a call, in order.
pub(super) struct Messages<'c> {
    context: &'c LaneContext,
    body: Incoming,
    frames: Frames,
    /// The budget of the message that is being received.
    part: BodyPart<'c>,
    /// When that message must be complete. Between messages a stream may idle.
    due: Option<Instant>,
}

/// A complete message, and its share of the body budget.
pub(super) struct Received<'c> {
    pub(super) framed: Framed,
    pub(super) part: BodyPart<'c>,
}

impl<'c> Messages<'c> {
    pub(super) fn new(context: &'c LaneContext, body: Incoming, bytes_max: usize) -> Messages<'c> {
        let frames = Frames::new(bytes_max);
        Messages { context, body, frames, part: context.shared.bodies.part(), due: None }
    }

    /// The next message; `None` after the last. After a fault nothing more can be read.
    ///
    /// Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<Received<'c>>, Fault> {
        loop {
            if let Some(framed) = self.frames.take()? {
                self.due = None;
                let part = std::mem::replace(&mut self.part, self.context.shared.bodies.part());
                return Ok(Some(Received { framed, part }));
            }
            let Some(piece) = self.piece().await? else {
                self.frames.finish()?;
                return Ok(None);
            };
            self.part.grow_to(self.frames.held() + piece.len())?;
            self.frames.push(&piece);
        }
    }

    async fn piece(&mut self) -> Result<Option<Bytes>, Fault> {
        let timeout = self.context.shared.config.body_timeout();
        loop {
            if self.frames.held() > 0 {
                self.due.get_or_insert_with(|| Instant::now() + timeout);
            }
            let frame = match self.due {
                None => self.body.frame().await,
                Some(due) => timeout_at(due, self.body.frame()).await.map_err(|_elapsed| {
                    let text = format!("a message did not arrive within {} ms", timeout.as_millis());
                    Fault::new(FaultKind::BodyTimeout, Stage::Parse, text)
                })?,
            };
            match frame {
                Some(frame) => {
                    if let Ok(piece) = frame.map_err(|error| gone(&error.to_string()))?.into_data() {
                        return Ok(Some(piece));
                    }
                }
                // hyper ends the body of a cancelled stream as if it were complete.
                None if !self.body.is_end_stream() => return Err(gone("the stream was cancelled")),
                None => return Ok(None),
            }
        }
    }
}

/// Responses to a client. Those without room wait here, so that nothing else has to wait.
pub(super) struct Outbox {
    answers: mpsc::Sender<Bytes>,
    waiting: VecDeque<Bytes>,
    waiting_bytes: usize,
    patience: Duration,
    /// When the first waiting response must be sent.
    due: Instant,
}

/// The client is gone, or does not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unread;

impl Outbox {
    pub(super) fn new(answers: mpsc::Sender<Bytes>, patience: Duration) -> Outbox {
        Outbox { answers, waiting: VecDeque::new(), waiting_bytes: 0, patience, due: Instant::now() }
    }

    /// Waiting responses.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.waiting_bytes
    }

    pub(super) fn put(&mut self, mut answer: Bytes) -> Result<(), Unread> {
        if self.waiting.is_empty() {
            answer = match self.answers.try_send(answer) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(_)) => return Err(Unread),
                Err(TrySendError::Full(answer)) => answer,
            };
            self.due = Instant::now() + self.patience;
        }
        self.waiting_bytes += answer.len();
        self.waiting.push_back(answer);
        Ok(())
    }

    /// Sends the first waiting response. Nothing is lost if the future is dropped.
    pub(super) async fn send(&mut self) -> Result<(), Unread> {
        let Ok(Ok(place)) = timeout_at(self.due, self.answers.reserve()).await else { return Err(Unread) };
        if let Some(answer) = self.waiting.pop_front() {
            self.waiting_bytes -= answer.len();
            place.send(answer);
        }
        self.due = Instant::now() + self.patience;
        Ok(())
    }
}

/// A streaming response: `work` sends frames and returns the trailers.
///
/// `work` runs in its own task, because hyper polls for no frame while one waits for the client's window. The task
/// ends when the client leaves.
pub(super) fn duplex<F>(work: impl FnOnce(mpsc::Sender<Bytes>) -> F) -> Reply
where
    F: Future<Output = HeaderMap> + 'static,
{
    let (sender, answers) = mpsc::channel(ANSWERS_MAX);
    let work = Some(tokio::task::spawn_local(work(sender)));
    response(ReplyBody::Stream(Duplex { work, answers }))
}

pub(crate) struct Duplex {
    /// `None` once it has ended and its trailers are sent.
    work: Option<JoinHandle<HeaderMap>>,
    answers: mpsc::Receiver<Bytes>,
}

impl Drop for Duplex {
    fn drop(&mut self) {
        if let Some(work) = &self.work {
            work.abort();
        }
    }
}

impl Duplex {
    pub(crate) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame<Bytes>>> {
        if let Some(answer) = ready!(self.answers.poll_recv(context)) {
            return Poll::Ready(Some(Frame::data(answer)));
        }
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        let ended = ready!(Pin::new(work).poll(context));
        self.work = None;
        let trailers = ended.unwrap_or_else(|error| {
            let text = format!("the stream broke off: {error}");
            trailers(Some(&status_of(&Fault::new(FaultKind::Panicked, Stage::Respond, text))))
        });
        Poll::Ready(Some(Frame::trailers(trailers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a lane's kind of runtime.
    fn on_lane<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(work)
    }

    #[test]
    fn an_outbox_keeps_the_order_and_never_makes_its_owner_wait_to_put() {
        on_lane(async {
            let (sender, mut answers) = mpsc::channel(1);
            let mut outbox = Outbox::new(sender, Duration::from_secs(60));
            for number in 0..5 {
                assert_eq!(outbox.put(vec![number].into()), Ok(()));
            }
            assert_eq!((outbox.len(), outbox.bytes()), (4, 4));
            for number in 0..5 {
                assert_eq!(answers.recv().await, Some(vec![number].into()));
                if outbox.len() > 0 {
                    assert_eq!(outbox.send().await, Ok(()));
                }
            }
            assert_eq!(outbox.bytes(), 0);
        });
    }

    #[test]
    fn an_outbox_gives_up_on_a_client_that_does_not_read_and_on_one_that_left() {
        on_lane(async {
            let (sender, answers) = mpsc::channel(1);
            let mut outbox = Outbox::new(sender, Duration::from_millis(5));
            assert_eq!((outbox.put(Bytes::new()), outbox.put(Bytes::new())), (Ok(()), Ok(())));
            assert_eq!(outbox.send().await, Err(Unread));
            drop(answers);
            assert_eq!(outbox.send().await, Err(Unread));
        });
    }
}
