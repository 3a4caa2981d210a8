//! Faults of one request, and the ONE table that maps each kind to every surface.
//!
//! A fault names its stage and its blame. The deployment declares the remedy, not the fault.

use crate::{FieldFault, Stage};
use std::borrow::Cow;
use std::time::Duration;

/// The party that must act on a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    Client,
    Us,
}

impl Blame {
    pub const fn label(self) -> &'static str {
        match self {
            Blame::Client => "client",
            Blame::Us => "us",
        }
    }
}

/// The outcome of a walk. `received` is always the sum of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Answered,
    Refused,
    Failed,
    Abandoned,
}

impl Outcome {
    pub const ALL: [Outcome; 4] = [Outcome::Answered, Outcome::Refused, Outcome::Failed, Outcome::Abandoned];

    pub const fn label(self) -> &'static str {
        match self {
            Outcome::Answered => "answered",
            Outcome::Refused => "refused",
            Outcome::Failed => "failed",
            Outcome::Abandoned => "abandoned",
        }
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

/// The kind of a fault: stable, bounded, and the key of every mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    MalformedRequest,
    InvalidInput,
    ModelNotFound,
    VersionNotFound,
    ModelNotReady,
    BodyTooLarge,
    BodyTimeout,
    ClientGone,
    Unsupported,
    NotOffered,
    Unauthenticated,
    Forbidden,
    CallerLimited,
    DecisionNotFound,
    KeyConflict,
    RecordNotFound,
    Held,
    FieldsInvalid,
    FeatureUnavailable,
    GuardViolated,
    RecordFailed,
    InFlightFull,
    LaneFull,
    WaitTooLong,
    BreakerOpen,
    MemoryFull,
    DeadlineUnreachable,
    DeadlinePassed,
    AnswerNotRepresentable,
    AnswerTooLarge,
    RunMemoryExceeded,
    RunFailed,
    RunStopped,
    Panicked,
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

impl FaultKind {
    pub const ALL: [FaultKind; 34] = [
        FaultKind::MalformedRequest,
        FaultKind::InvalidInput,
        FaultKind::ModelNotFound,
        FaultKind::VersionNotFound,
        FaultKind::ModelNotReady,
        FaultKind::BodyTooLarge,
        FaultKind::BodyTimeout,
        FaultKind::ClientGone,
        FaultKind::Unsupported,
        FaultKind::NotOffered,
        FaultKind::Unauthenticated,
        FaultKind::Forbidden,
        FaultKind::CallerLimited,
        FaultKind::DecisionNotFound,
        FaultKind::KeyConflict,
        FaultKind::RecordNotFound,
        FaultKind::Held,
        FaultKind::FieldsInvalid,
        FaultKind::FeatureUnavailable,
        FaultKind::GuardViolated,
        FaultKind::RecordFailed,
        FaultKind::InFlightFull,
        FaultKind::LaneFull,
        FaultKind::WaitTooLong,
        FaultKind::BreakerOpen,
        FaultKind::MemoryFull,
        FaultKind::DeadlineUnreachable,
        FaultKind::DeadlinePassed,
        FaultKind::AnswerNotRepresentable,
        FaultKind::AnswerTooLarge,
        FaultKind::RunMemoryExceeded,
        FaultKind::RunFailed,
        FaultKind::RunStopped,
        FaultKind::Panicked,
    ];

    /// The one table. `docs/reference/errors.md` is its prose.
    #[rustfmt::skip]
    const fn row(self) -> Row {
        use Blame::{Client, Us};
        use GrpcCode as G;
        use Outcome::{Abandoned, Failed, Refused};
        match self {
            FaultKind::MalformedRequest       => row("malformed_request",        400, G::InvalidArgument,    3, Client, Refused),
            FaultKind::InvalidInput           => row("invalid_input",            400, G::InvalidArgument,    3, Client, Refused),
            FaultKind::ModelNotFound          => row("model_not_found",          404, G::NotFound,           3, Client, Refused),
            FaultKind::VersionNotFound        => row("version_not_found",        404, G::NotFound,           3, Client, Refused),
            FaultKind::ModelNotReady          => row("model_not_ready",          503, G::Unavailable,        5, Us,     Refused),
            FaultKind::BodyTooLarge           => row("body_too_large",           413, G::ResourceExhausted,  3, Client, Refused),
            FaultKind::BodyTimeout            => row("body_timeout",             408, G::DeadlineExceeded,   6, Client, Refused),
            FaultKind::ClientGone             => row("client_gone",              499, G::Cancelled,          5, Client, Abandoned),
            FaultKind::Unsupported            => row("unsupported",              415, G::Unimplemented,      3, Client, Refused),
            FaultKind::NotOffered             => row("not_offered",              501, G::Unimplemented,       3, Client, Refused),
            FaultKind::Unauthenticated        => row("unauthenticated",          401, G::Unauthenticated,     3, Client, Refused),
            FaultKind::Forbidden              => row("forbidden",                403, G::PermissionDenied,    3, Client, Refused),
            FaultKind::CallerLimited          => row("caller_limited",           429, G::ResourceExhausted,   7, Client, Refused),
            FaultKind::DecisionNotFound       => row("decision_not_found",       404, G::NotFound,           3, Client, Refused),
            FaultKind::KeyConflict            => row("key_conflict",             409, G::AlreadyExists,      3, Client, Refused),
            FaultKind::RecordNotFound         => row("record_not_found",         404, G::NotFound,           3, Client, Refused),
            FaultKind::Held                   => row("held",                     409, G::FailedPrecondition, 3, Client, Refused),
            FaultKind::FieldsInvalid          => row("fields_invalid",           422, G::InvalidArgument,    3, Client, Refused),
            FaultKind::FeatureUnavailable     => row("feature_unavailable",      503, G::Unavailable,        5, Us,     Failed),
            FaultKind::GuardViolated          => row("guard_violated",           500, G::Internal,           8, Us,     Failed),
            FaultKind::RecordFailed           => row("record_failed",            503, G::Unavailable,        5, Us,     Failed),
            FaultKind::InFlightFull           => row("in_flight_full",           503, G::ResourceExhausted,  7, Us,     Refused),
            FaultKind::LaneFull               => row("lane_full",                503, G::ResourceExhausted,  7, Us,     Refused),
            FaultKind::WaitTooLong            => row("wait_too_long",            503, G::ResourceExhausted,  7, Us,     Refused),
            FaultKind::BreakerOpen            => row("breaker_open",             503, G::Unavailable,        7, Us,     Refused),
            FaultKind::MemoryFull             => row("memory_full",              503, G::ResourceExhausted,  7, Us,     Refused),
            FaultKind::DeadlineUnreachable    => row("deadline_unreachable",     504, G::DeadlineExceeded,   6, Client, Refused),
            FaultKind::DeadlinePassed         => row("deadline_passed",          504, G::DeadlineExceeded,   6, Client, Refused),
            FaultKind::AnswerNotRepresentable => row("answer_not_representable", 422, G::FailedPrecondition, 3, Client, Failed),
            FaultKind::AnswerTooLarge         => row("answer_too_large",         422, G::FailedPrecondition, 3, Client, Failed),
            FaultKind::RunMemoryExceeded      => row("run_memory_exceeded",      422, G::FailedPrecondition, 3, Client, Failed),
            FaultKind::RunFailed              => row("run_failed",               500, G::Internal,           8, Us,     Failed),
            FaultKind::RunStopped             => row("run_stopped",              500, G::Internal,           8, Us,     Failed),
            FaultKind::Panicked               => row("panicked",                 500, G::Internal,           8, Us,     Failed),
        }
    }

    pub const fn label(self) -> &'static str {
        self.row().label
    }

    pub const fn http(self) -> u16 {
        self.row().http
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
        let text = format!("{are} not as the decision wants; {}", each.join("; "));
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
