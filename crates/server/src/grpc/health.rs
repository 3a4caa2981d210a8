//! `grpc.health.v1.Health`: `Check` responds once, `Watch` at every change.

use super::stream::duplex;
use super::{STATUS, answer, read, status, trailers};
use crate::http::is_ready;
use crate::lane_thread::LaneContext;
use crate::reply::Reply;
use crate::shared::Shared;
use ::http::{HeaderMap, HeaderValue};
use bytes::Bytes;
use flyball_core::{Access, Fault, FaultKind, GrpcCode, ModelRef, Stage};
use flyball_wire::frame;
use flyball_wire::proto::health::health_check_response::ServingStatus;
use flyball_wire::proto::health::{HealthCheckRequest, HealthCheckResponse};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Longer than any model's name. Each watch stores it, and there may be many.
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
            Ok(duplex(|answers| watch(shared, service, access, answers)))
        }
        _ => Ok(status(GrpcCode::Unimplemented, "grpc.health.v1.Health has Check and Watch")),
    }
}

/// The health of the server, of the inference service, or of a model that the caller may see.
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

/// Sends the status now and at every change, until the client or the server leaves.
async fn watch(
    shared: Arc<Shared>,
    service: String,
    access: Access,
    answers: mpsc::Sender<Bytes>,
) -> HeaderMap {
    let mut phase = shared.drain.watch();
    let mut end = trailers(None);
    end.insert(&STATUS, HeaderValue::from(GrpcCode::Unavailable as u16));
    loop {
        let leaving = shared.drain.leaving();
        let status = HealthCheckResponse { status: health(&shared, &service, &access).into() };
        let sent = answers.send(frame::encode_message(&status).unwrap_or_default()).await;
        // An open watch would hold its connection for the whole grace period.
        if leaving || sent.is_err() {
            return end;
        }
        let _ = phase.changed().await;
    }
}
