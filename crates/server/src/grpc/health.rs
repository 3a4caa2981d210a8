//! `grpc.health.v1.Health`: Check answers once, Watch answers now and at every change until the client leaves.

use super::{answer, read, response, status};
use crate::drain::Phase;
use crate::http::is_ready;
use crate::lane_thread::LaneContext;
use crate::reply::{Reply, ReplyBody};
use crate::shared::Shared;
use ::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use flyball_core::{Access, Fault, FaultKind, GrpcCode, ModelRef, Stage};
use flyball_wire::frame;
use flyball_wire::proto::health::health_check_response::ServingStatus;
use flyball_wire::proto::health::{HealthCheckRequest, HealthCheckResponse};
use http_body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::watch;

/// Longer than any model's name. A watch keeps it, and there may be many of them.
const SERVICE_BYTES_MAX: usize = 1 << 10;
const INFERENCE: &str = "inference.GRPCInferenceService";

pub(super) fn handle(
    context: &LaneContext,
    method: &str,
    message: &Bytes,
    access: Access,
) -> Result<Reply, Fault> {
    let HealthCheckRequest { service } = read(message)?;
    if service.len() > SERVICE_BYTES_MAX {
        let text = format!(
            "the service's name has {} bytes; it may have {SERVICE_BYTES_MAX} at most",
            service.len()
        );
        return Err(Fault::new(FaultKind::BodyTooLarge, Stage::Parse, text));
    }
    match method {
        "Check" => match health(&context.shared, &service, &access) {
            ServingStatus::ServiceUnknown => {
                Ok(status(GrpcCode::NotFound, &format!("there is no service '{service}'")))
            }
            known => Ok(answer(&HealthCheckResponse { status: known.into() })),
        },
        "Watch" => {
            let shared = Arc::clone(&context.shared);
            let phase = shared.drain.watch();
            Ok(response(ReplyBody::Stream(Box::pin(Watch {
                shared,
                service,
                access,
                phase,
                next: Next::Now,
            }))))
        }
        _ => Ok(status(GrpcCode::Unimplemented, "grpc.health.v1.Health has Check and Watch")),
    }
}

/// Of the server as a whole, of the inference service, or, for those who may ask for it, of a model by its name.
fn health(shared: &Shared, service: &str, access: &Access) -> ServingStatus {
    let ready = if service.is_empty() || service == INFERENCE {
        Ok(shared.ready())
    } else {
        is_ready(shared, access, &ModelRef { name: service.into(), version: None })
    };
    match ready {
        Ok(true) => ServingStatus::Serving,
        Ok(false) => ServingStatus::NotServing,
        Err(_unknown) => ServingStatus::ServiceUnknown,
    }
}

struct Watch {
    shared: Arc<Shared>,
    service: String,
    access: Access,
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
        this.next = if this.shared.drain.leaving() {
            Next::Trailers
        } else {
            let mut phase = this.phase.clone();
            Next::AtChange(Box::pin(async move {
                let _ = phase.changed().await;
                phase
            }))
        };
        let answer = HealthCheckResponse { status: health(&this.shared, &this.service, &this.access).into() };
        Poll::Ready(frame::encode_message(&answer).map(|frame| Ok(Frame::data(frame))))
    }
}
