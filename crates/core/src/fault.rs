//! Faults of one request, and the ONE table that maps each kind to every surface.
//!
//! A fault names its stage and its blame. The deployment declares the remedy, not the fault.

use crate::{FieldFault, Stage};
use std::borrow::Cow;
use std::time::Duration;

crate::labelled! {
    /// The party that must act on a fault.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Blame {
        Client => "client",
        Us => "us",
    }
}

crate::labelled! {
    /// The outcome of a walk. `received` is always the sum of these.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Outcome {
        Answered => "answered",
        Refused => "refused",
        Failed => "failed",
        Abandoned => "abandoned",
    }
}

/// The gRPC status codes in use here, with their numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GrpcCode {
    Cancelled = 1,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    Unauthenticated = 16,
}

/// One row of the table: the name of a fault kind and its code on each surface.
struct Row {
    label: &'static str,
    http: u16,
    grpc: GrpcCode,
    exit: u8,
    blame: Blame,
    outcome: Outcome,
}

const fn row(
    label: &'static str,
    http: u16,
    grpc: GrpcCode,
    exit: u8,
    blame: Blame,
    outcome: Outcome,
) -> Row {
    Row { label, http, grpc, exit, blame, outcome }
}

/// Defines the kinds of faults from the one table, a row for each kind.
macro_rules! fault_kinds {
    ($($kind:ident => $row:expr),+ $(,)?) => {
        /// The kind of a fault: stable, bounded, and the key of every mapping.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum FaultKind { $($kind),+ }

        impl FaultKind {
            pub const ALL: [FaultKind; [$(stringify!($kind)),+].len()] = [$(FaultKind::$kind),+];

            const fn row(self) -> Row {
                use Blame::{Client, Us};
                use GrpcCode as G;
                use Outcome::{Abandoned, Failed, Refused};
                match self { $(FaultKind::$kind => $row),+ }
            }
        }
    };
}

// `docs/reference/errors.md` is the prose of this table.
fault_kinds! {
    MalformedRequest       => row("malformed_request",        400, G::InvalidArgument,    3, Client, Refused),
    InvalidInput           => row("invalid_input",            400, G::InvalidArgument,    3, Client, Refused),
    ModelNotFound          => row("model_not_found",          404, G::NotFound,           3, Client, Refused),
    VersionNotFound        => row("version_not_found",        404, G::NotFound,           3, Client, Refused),
    ModelNotReady          => row("model_not_ready",          503, G::Unavailable,        5, Us,     Refused),
    BodyTooLarge           => row("body_too_large",           413, G::ResourceExhausted,  3, Client, Refused),
    BodyTimeout            => row("body_timeout",             408, G::DeadlineExceeded,   6, Client, Refused),
    ClientGone             => row("client_gone",              499, G::Cancelled,          5, Client, Abandoned),
    Unsupported            => row("unsupported",              415, G::Unimplemented,      3, Client, Refused),
    ModelControlOff        => row("model_control_off",        503, G::Unavailable,        5, Client, Refused),
    NotOffered             => row("not_offered",              501, G::Unimplemented,      3, Client, Refused),
    Unauthenticated        => row("unauthenticated",          401, G::Unauthenticated,    3, Client, Refused),
    Forbidden              => row("forbidden",                403, G::PermissionDenied,   3, Client, Refused),
    CallerLimited          => row("caller_limited",           429, G::ResourceExhausted,  7, Client, Refused),
    DecisionNotFound       => row("decision_not_found",       404, G::NotFound,           3, Client, Refused),
    KeyConflict            => row("key_conflict",             409, G::AlreadyExists,      3, Client, Refused),
    RecordNotFound         => row("record_not_found",         404, G::NotFound,           3, Client, Refused),
    Held                   => row("held",                     409, G::FailedPrecondition, 3, Client, Refused),
    FieldsInvalid          => row("fields_invalid",           422, G::InvalidArgument,    3, Client, Refused),
    FeatureUnavailable     => row("feature_unavailable",      503, G::Unavailable,        5, Us,     Failed),
    GuardViolated          => row("guard_violated",           500, G::Internal,           8, Us,     Failed),
    RecordFailed           => row("record_failed",            503, G::Unavailable,        5, Us,     Failed),
    InFlightFull           => row("in_flight_full",           503, G::ResourceExhausted,  7, Us,     Refused),
    LaneFull               => row("lane_full",                503, G::ResourceExhausted,  7, Us,     Refused),
    WaitTooLong            => row("wait_too_long",            503, G::ResourceExhausted,  7, Us,     Refused),
    BreakerOpen            => row("breaker_open",             503, G::Unavailable,        7, Us,     Refused),
    MemoryFull             => row("memory_full",              503, G::ResourceExhausted,  7, Us,     Refused),
    DeadlineUnreachable    => row("deadline_unreachable",     504, G::DeadlineExceeded,   6, Client, Refused),
    DeadlinePassed         => row("deadline_passed",          504, G::DeadlineExceeded,   6, Client, Refused),
    AnswerNotRepresentable => row("answer_not_representable", 422, G::FailedPrecondition, 3, Client, Failed),
    AnswerTooLarge         => row("answer_too_large",         422, G::FailedPrecondition, 3, Client, Failed),
    RunMemoryExceeded      => row("run_memory_exceeded",      422, G::FailedPrecondition, 3, Client, Failed),
    RunFailed              => row("run_failed",               500, G::Internal,           8, Us,     Failed),
    RunStopped             => row("run_stopped",              500, G::Internal,           8, Us,     Failed),
    Panicked               => row("panicked",                 500, G::Internal,           8, Us,     Failed),
}

impl FaultKind {
    pub const fn label(self) -> &'static str {
        self.row().label
    }

    pub const fn http(self) -> u16 {
        self.row().http
    }

    /// The status that Triton's HTTP server answers with.
    pub const fn triton_http(self) -> u16 {
        if matches!(self, FaultKind::BodyTooLarge) { 400 } else { self.http() }
    }

    pub const fn grpc(self) -> GrpcCode {
        self.row().grpc
    }

    pub const fn exit_code(self) -> u8 {
        self.row().exit
    }

    pub const fn blame(self) -> Blame {
        self.row().blame
    }

    pub const fn outcome(self) -> Outcome {
        self.row().outcome
    }

    pub fn index(self) -> usize {
        self as usize
    }
}

/// The fault of one request. The text is for people: lower case, no full stop, with the next step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Fault {
    pub kind: FaultKind,
    pub stage: Stage,
    pub text: Cow<'static, str>,
    /// When to retry, if a retry makes sense: an estimate, not a constant.
    pub retry_after: Option<Duration>,
    /// The fields that violate a decision's schema. Empty for other kinds, and then without allocation.
    pub fields: Box<[FieldFault]>,
}

impl Fault {
    pub fn new(kind: FaultKind, stage: Stage, text: impl Into<Cow<'static, str>>) -> Fault {
        Fault { kind, stage, text: text.into(), retry_after: None, fields: Box::default() }
    }

    /// Adds a retry delay to the fault.
    pub fn retry_after(self, wait: Duration) -> Fault {
        Fault { retry_after: Some(wait), ..self }
    }

    /// A row that violates its decision's schema.
    ///
    /// Sorted by name: protobuf maps have no order, and every protocol must report the same text.
    pub fn fields_invalid(stage: Stage, mut fields: Vec<FieldFault>) -> Fault {
        fields.sort_by(|a, b| a.field.cmp(&b.field));
        let each: Vec<_> =
            fields.iter().map(|fault| format!("{}: allowed is {}", fault.field, fault.allowed)).collect();
        let are = if fields.len() == 1 { "1 field is" } else { &format!("{} fields are", fields.len()) };
        let text = format!("{are} invalid; {}", each.join("; "));
        Fault { fields: fields.into(), ..Fault::new(FaultKind::FieldsInvalid, stage, text) }
    }

    /// A request with malformed bytes. Always raised while parsing.
    pub fn malformed(text: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(FaultKind::MalformedRequest, Stage::Parse, text)
    }

    /// Well-formed input that this model does not accept.
    pub fn invalid_input(stage: Stage, text: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(FaultKind::InvalidInput, stage, text)
    }

    /// A feature that is disabled or not supported by this server. Raised while parsing.
    pub fn not_offered(text: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(FaultKind::NotOffered, Stage::Parse, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_kind_has_a_label_of_its_own() {
        let labels: HashSet<_> = FaultKind::ALL.into_iter().map(FaultKind::label).collect();
        assert_eq!(labels.len(), FaultKind::ALL.len());
    }

    #[test]
    fn the_index_of_each_kind_is_its_place_in_all() {
        for (place, kind) in FaultKind::ALL.into_iter().enumerate() {
            assert_eq!(kind.index(), place);
        }
    }

    #[test]
    fn only_faults_of_ours_answer_with_a_5xx_that_is_not_a_refusal() {
        for kind in FaultKind::ALL {
            if kind.http() == 500 {
                assert_eq!((kind.blame(), kind.outcome()), (Blame::Us, Outcome::Failed));
            }
        }
    }
}
