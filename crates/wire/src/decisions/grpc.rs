//! `flyball.v1.Decisions/Decide`: one protobuf message in, one out.

use super::{message, request};
use crate::{GrpcDialect, GrpcReply};
use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use flyball_core::{DecisionDialect, Decisions, Dialect, Fault, RequestLimits, RowSink, RowsOptions};
use std::cell::OnceCell;

/// One decision call. Only its message names the decision, so `named` is called once it is received.
#[derive(Clone, Debug, Default)]
pub struct GrpcDecision {
    name: OnceCell<ByteString>,
    /// The call's metadata `idempotency-key`.
    pub idempotency_key: Option<ByteString>,
}

impl GrpcDecision {
    pub fn new(idempotency_key: Option<ByteString>) -> GrpcDecision {
        GrpcDecision { name: OnceCell::new(), idempotency_key }
    }

    /// The message was received. A malformed one is rejected before its decision is looked up.
    pub fn named(&self, message: &Bytes) -> Result<(), Fault> {
        let _ = self.name.set(request::decision(message)?);
        Ok(())
    }
}

impl DecisionDialect for GrpcDecision {
    type Reply = GrpcReply;

    fn decision(&self) -> &str {
        self.name.get().map_or("", |name| name)
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
        let ask = request::read(body, limits, take)?;
        Ok(RowsOptions { idempotency_key: self.idempotency_key.clone(), ..ask })
    }

    fn answer(&self, decisions: &Decisions, out: &mut BytesMut) -> Result<GrpcReply, Fault> {
        message::write(decisions, out).inspect_err(|_| out.clear())?;
        Ok(GrpcReply::Frame(out.split().freeze()))
    }

    fn refuse(&self, fault: &Fault) -> GrpcReply {
        GrpcDialect::default().refuse(fault)
    }
}
