//! `POST /v1/decisions/{name}`: a JSON body in, a JSON response or a problem out.

use super::{answer, problem::CONTENT_TYPE, problem::Problem, rows};
use crate::HttpReply;
use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use flyball_core::{DecisionDialect, Decisions, Fault, RequestLimits, RowSink, RowsOptions};

/// One decision request over HTTP, as its head describes it.
#[derive(Clone, Debug)]
pub struct HttpDecision {
    pub name: ByteString,
    pub idempotency_key: Option<ByteString>,
}

impl DecisionDialect for HttpDecision {
    type Reply = HttpReply;

    fn decision(&self) -> &str {
        &self.name
    }

    fn keyed(&self) -> bool {
        self.idempotency_key.is_some()
    }

    fn rows(
        &self,
        body: &Bytes,
        limits: &RequestLimits,
        take: &mut dyn RowSink,
    ) -> Result<RowsOptions, Fault> {
        let text = std::str::from_utf8(body)
            .map_err(|error| Fault::malformed(format!("the body is not UTF-8: {error}")))?;
        let ask = rows::read(text, limits, take)
            .map_err(|error| Fault::malformed(format!("the body is not a decision request: {error}")))?;
        Ok(RowsOptions { idempotency_key: self.idempotency_key.clone(), ..ask })
    }

    fn answer(&self, decisions: &Decisions, out: &mut BytesMut) -> Result<HttpReply, Fault> {
        answer::write(decisions, out).inspect_err(|_| out.clear())?;
        Ok(HttpReply::json(200, out.split().freeze()))
    }

    fn refuse(&self, fault: &Fault) -> HttpReply {
        let problem = Problem::of(fault, Some(&self.name));
        HttpReply {
            content_type: CONTENT_TYPE,
            retry_after_s: problem.retry_after_s(),
            ..HttpReply::json(fault.kind.http(), problem.to_json())
        }
    }
}
