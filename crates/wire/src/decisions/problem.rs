//! RFC 9457 problems (`application/problem+json`) of our own API. Core defines the kinds.

use super::answer::{put_key, put_text};
use crate::v2::whole_seconds;
use bytes::{BufMut, Bytes, BytesMut};
use flyball_core::{Fault, FaultKind, FieldFault};
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
        out.put_slice(b"{\"type\":");
        match self.kind {
            Some(kind) => {
                out.put_slice(b"\"urn:flyball:fault:");
                out.put_slice(kind.label().as_bytes());
                out.put_slice(b"\",\"title\":\"");
                out.extend(kind.label().bytes().map(|byte| if byte == b'_' { b' ' } else { byte }));
                out.put_u8(b'"');
            }
            // By the RFC: nothing beyond the status.
            None => out.put_slice(b"\"about:blank\""),
        }
        put_key("status", out);
        let _ = write!(out, "{}", self.status);
        put_key("detail", out);
        put_text(self.detail, out);
        if let Some(decision) = self.decision {
            put_key("decision", out);
            put_text(decision, out);
        }
        if !self.fields.is_empty() {
            put_key("faults", out);
            self.write_fields(out);
        }
        if let Some(wait) = self.retry_after {
            put_key("retry_after_ms", out);
            let _ = write!(out, "{}", wait.as_millis().max(1));
        }
        out.put_u8(b'}');
    }

    fn write_fields(&self, out: &mut BytesMut) {
        for (place, fault) in self.fields.iter().enumerate() {
            out.put_slice(if place == 0 { b"[{\"field\":" } else { b",{\"field\":" });
            put_text(&fault.field, out);
            put_key("is", out);
            match &fault.is {
                Some(is) => put_text(is, out),
                None => out.put_slice(b"null"),
            }
            put_key("allowed", out);
            put_text(&fault.allowed, out);
            out.put_u8(b'}');
        }
        out.put_u8(b']');
    }
}
