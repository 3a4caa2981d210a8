//! `grpc.health.v1.Health`: Check answers once, Watch answers now and at every change until the client leaves.

use super::{answer, read, response, status};
use crate::drain::Phase;
use crate::lane_thread::{LaneContext, Shared};
use crate::reply::{Reply, ReplyBody};
use ::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use flyball_core::{Fault, GrpcCode, ModelRef};
use flyball_wire::frame;
use flyball_wire::proto::health::health_check_response::ServingStatus;
use flyball_wire::proto::health::{HealthCheckRequest, HealthCheckResponse};
use http_body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::watch;

pub(super) fn handle(context: &LaneContext, method: &str, message: &Bytes) -> Result<Reply, Fault> {
    let request: HealthCheckRequest = read(message)?;
    let known = known(context, &request.service);
    Ok(match (method, known) {
        ("Check", true) => answer(&health(&context.shared)),
        ("Check", false) => status(GrpcCode::NotFound, &format!("there is no service '{}'", request.service)),
        ("Watch", known) => {
            let shared = Arc::clone(&context.shared);
            let phase = shared.drain.watch();
            response(ReplyBody::Stream(Box::pin(Watch { shared, known, phase, next: Next::Now })))
        }
        _ => status(GrpcCode::Unimplemented, "grpc.health.v1.Health has Check and Watch"),
    })
}

/// The server as a whole, the inference service, or a model by its name.
fn known(context: &LaneContext, service: &str) -> bool {
    let model = ModelRef { name: service.to_owned(), version: None };
    service.is_empty()
        || service == "inference.GRPCInferenceService"
        || crate::http::metadata_of(context, &model).is_ok()
}

fn health(shared: &Shared) -> HealthCheckResponse {
    let status = if shared.ready() { ServingStatus::Serving } else { ServingStatus::NotServing };
    HealthCheckResponse { status: status.into() }
}

struct Watch {
    shared: Arc<Shared>,
    known: bool,
    phase: watch::Receiver<Phase>,
    next: Next,
}

enum Next {
    Now,
    AtChange(Pin<Box<dyn Future<Output = watch::Receiver<Phase>>>>),
    /// The server leaves: a watch that stayed open would hold its connection for the whole grace period.
    Trailers,
    Nothing,
}

impl Body for Watch {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        match &mut this.next {
            Next::Now => {}
            Next::AtChange(change) => match change.as_mut().poll(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(phase) => this.phase = phase,
            },
            Next::Trailers => {
                this.next = Next::Nothing;
                let trailers = HeaderMap::from_iter([(
                    HeaderName::from_static("grpc-status"),
                    HeaderValue::from(GrpcCode::Unavailable as u16),
                )]);
                return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
            }
            Next::Nothing => return Poll::Ready(None),
        }
        this.next = if this.shared.drain.serving() {
            let mut phase = this.phase.clone();
            Next::AtChange(Box::pin(async move {
                let _ = phase.changed().await;
                phase
            }))
        } else {
            Next::Trailers
        };
        let answer = if this.known {
            health(&this.shared)
        } else {
            HealthCheckResponse { status: ServingStatus::ServiceUnknown.into() }
        };
        Poll::Ready(frame::encode_message(&answer).map(|frame| Ok(Frame::data(frame))))
    }
}
