//! What calls share that stream in both directions: messages are read one by one from the request's body, and answers are
//! written as the response's body is asked for. It knows nothing of what the messages say.

use super::response;
use crate::body::{BodyPart, gone};
use crate::lane_thread::LaneContext;
use crate::reply::{Reply, ReplyBody};
use ::http::HeaderMap;
use bytes::Bytes;
use flyball_core::{Fault, FaultKind, Stage};
use flyball_wire::frame::{Framed, Frames};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// Answers that wait for room in the client's window; beyond it the call waits too.
const ANSWERS_MAX: usize = 16;

/// The messages of a call, in order.
pub(super) struct Messages<'c> {
    context: &'c LaneContext,
    body: Incoming,
    frames: Frames,
    /// What the message takes that is on its way.
    part: BodyPart<'c>,
    /// When that message must be whole. Between messages a stream may idle.
    due: Option<Instant>,
}

/// A message that is whole, and its part in the budget of all bodies.
pub(super) struct Received<'c> {
    pub(super) framed: Framed,
    pub(super) part: BodyPart<'c>,
}

impl<'c> Messages<'c> {
    pub(super) fn new(context: &'c LaneContext, body: Incoming) -> Messages<'c> {
        let frames = Frames::new(context.shared.config.body_bytes_max);
        Messages { context, body, frames, part: context.shared.bodies.part(), due: None }
    }

    /// The next message; none once the client has sent its last. After a fault there is nothing more to be read. Nothing
    /// is lost when the future is dropped.
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
                // hyper ends the body of a cancelled stream as if it were whole.
                None if !self.body.is_end_stream() => return Err(gone("the stream was cancelled")),
                None => return Ok(None),
            }
        }
    }
}

/// A call that answers for as long as it is asked to: `work` sends frames and ends with the trailers. It is driven by
/// whoever reads the answers, so a client that leaves takes all of it along.
pub(super) fn duplex<F>(work: impl FnOnce(mpsc::Sender<Bytes>) -> F) -> Reply
where
    F: Future<Output = HeaderMap> + 'static,
{
    let (sender, answers) = mpsc::channel(ANSWERS_MAX);
    let work: Pin<Box<dyn Future<Output = HeaderMap>>> = Box::pin(work(sender));
    response(ReplyBody::Stream(Box::pin(Duplex { work: Some(work), answers, trailers: None })))
}

struct Duplex {
    work: Option<Pin<Box<dyn Future<Output = HeaderMap>>>>,
    answers: mpsc::Receiver<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Body for Duplex {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        if let Some(work) = &mut this.work
            && let Poll::Ready(trailers) = work.as_mut().poll(context)
        {
            (this.work, this.trailers) = (None, Some(trailers));
        }
        this.answers.poll_recv(context).map(|answer| {
            let frame = answer.map(Frame::data).or_else(|| this.trailers.take().map(Frame::trailers));
            frame.map(Ok)
        })
    }
}
