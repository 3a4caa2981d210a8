//! RFC 9457 problems (`application/problem+json`) of our own API. Core defines the kinds.

use super::answer::{put, put_list};
use crate::v2::whole_seconds;
use bytes::{BufMut, Bytes, BytesMut};
use flyball_core::{Fault, FaultKind, FieldFault};
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

pub const CONTENT_TYPE: &str = "application/problem+json";

/// One problem. Without a kind it is HTTP's own: unknown path, wrong method.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    pub kind: Option<FaultKind>,
    pub status: u16,
    pub detail: &'a str,
    /// The requested decision, if any.
    pub decision: Option<&'a str>,
    pub fields: &'a [FieldFault],
    pub retry_after: Option<Duration>,
}

#[derive(Serialize)]
struct Field<'a> {
    field: &'a str,
    is: Option<&'a str>,
    allowed: &'a str,
}

impl<'a> Problem<'a> {
    pub fn of(fault: &'a Fault, decision: Option<&'a str>) -> Problem<'a> {
        Problem {
            kind: Some(fault.kind),
            status: fault.kind.http(),
            detail: &fault.text,
            decision,
            fields: &fault.fields,
            retry_after: fault.retry_after,
        }
    }

    /// A problem of HTTP itself.
    pub fn plain(status: u16, detail: &'a str) -> Problem<'a> {
        Problem { kind: None, status, detail, decision: None, fields: &[], retry_after: None }
    }

    /// The value of `Retry-After`.
    pub fn retry_after_s(&self) -> Option<u64> {
        self.retry_after.map(whole_seconds)
    }

    pub fn to_json(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(256);
        self.write(&mut out);
        out.freeze()
    }

    pub(super) fn write(&self, out: &mut BytesMut) {
        match self.kind.map(FaultKind::label) {
            Some(label) => {
                let _ = write!(out, "{{\"type\":\"urn:flyball:fault:{label}\",\"title\":\"");
                out.extend(label.bytes().map(|byte| if byte == b'_' { b' ' } else { byte }));
                out.put_u8(b'"');
            }
            // By the RFC: nothing beyond the status.
            None => out.put_slice(b"{\"type\":\"about:blank\""),
        }
        put("status", &self.status, out);
        put("detail", self.detail, out);
        if let Some(decision) = self.decision {
            put("decision", decision, out);
        }
        if !self.fields.is_empty() {
            let field = |fault: &'a FieldFault| Field {
                field: &fault.field,
                is: fault.is.as_deref(),
                allowed: &fault.allowed,
            };
            put_list("faults", self.fields.iter().map(field), out);
        }
        if let Some(wait) = self.retry_after {
            put("retry_after_ms", &wait.as_millis().max(1), out);
        }
        out.put_u8(b'}');
    }
}
