//! Which remedy a decision declares for a fault. Without one the caller gets the fault.

use flyball_core as core;
use flyball_core::{Fault, FaultKind, Nanos, Remedied};
use flyball_decision::{Remedies, Remedy};
use std::time::Duration;

/// When to try again after a request was shed.
const SHED_PAUSE: Duration = Duration::from_secs(1);
/// The time before the deadline that is reserved for a timeout's remedy and for the way back; a timer may be a millisecond
/// late.
const KEPT_MAX: Duration = Duration::from_millis(2);

/// The remedy for a fault of this kind.
pub(crate) fn remedy(remedies: &Remedies, kind: FaultKind) -> Remedy {
    match kind {
        FaultKind::ModelNotReady
        | FaultKind::BreakerOpen
        | FaultKind::RunFailed
        | FaultKind::RunMemoryExceeded
        | FaultKind::RunStopped
        | FaultKind::Panicked => remedies.model_unavailable,
        FaultKind::DeadlineUnreachable | FaultKind::DeadlinePassed => remedies.timeout,
        kind if overload(kind) => remedies.queue_full,
        FaultKind::FeatureUnavailable => remedies.feature_error,
        FaultKind::FieldsInvalid => remedies.invalid_input,
        FaultKind::GuardViolated => remedies.guard_violated,
        FaultKind::RecordFailed => remedies.record_error,
        _ => Remedy::Error,
    }
}

fn overload(kind: FaultKind) -> bool {
    matches!(
        kind,
        FaultKind::InFlightFull | FaultKind::LaneFull | FaultKind::WaitTooLong | FaultKind::MemoryFull
    )
}

/// The remedy as answers report it; none if none is declared.
pub(crate) fn remedied(fault: &Fault, remedy: Remedy) -> Option<Remedied> {
    let remedy = match remedy {
        Remedy::Error => return None,
        Remedy::Shed => core::Remedy::Shed,
        Remedy::Retry => core::Remedy::Retry,
        Remedy::Rules => core::Remedy::Rules,
        Remedy::Previous => core::Remedy::Previous,
        Remedy::Outcome(_) => core::Remedy::Outcome,
    };
    Some(Remedied { cause: fault.kind, stage: fault.stage, remedy })
}

/// The same fault as overload: try again later.
pub(crate) fn shed(fault: Fault) -> Fault {
    let kind = if overload(fault.kind) { fault.kind } else { FaultKind::WaitTooLong };
    let pause = fault.retry_after.unwrap_or(SHED_PAUSE);
    Fault { kind, ..fault }.retry_after(pause)
}

/// The first attempt's deadline: a timeout's remedy must still be able to answer in time.
pub(crate) fn first_deadline(remedies: &Remedies, deadline: Option<Nanos>, now: Nanos) -> Option<Nanos> {
    let deadline = deadline?;
    let left = deadline.since(now);
    let kept = match remedies.timeout {
        Remedy::Error | Remedy::Shed => Duration::ZERO,
        Remedy::Rules | Remedy::Outcome(_) => (left / 4).min(KEPT_MAX),
        // These run a model again.
        Remedy::Retry | Remedy::Previous => left / 2,
    };
    Some(Nanos(deadline.0 - core::nanos(kept)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_core::Stage;

    const REMEDIES: Remedies = Remedies {
        model_unavailable: Remedy::Previous,
        timeout: Remedy::Rules,
        queue_full: Remedy::Shed,
        feature_error: Remedy::Outcome(1),
        invalid_input: Remedy::Outcome(2),
        guard_violated: Remedy::Retry,
        record_error: Remedy::Outcome(3),
    };

    #[test]
    fn every_kind_of_fault_meets_the_remedy_of_its_cause_and_a_caller_s_own_mistake_meets_none() {
        use FaultKind as K;
        for kind in FaultKind::ALL {
            let wanted = match kind {
                K::ModelNotReady
                | K::BreakerOpen
                | K::RunFailed
                | K::RunMemoryExceeded
                | K::RunStopped
                | K::Panicked => Remedy::Previous,
                K::DeadlineUnreachable | K::DeadlinePassed => Remedy::Rules,
                K::InFlightFull | K::LaneFull | K::WaitTooLong | K::MemoryFull => Remedy::Shed,
                K::FeatureUnavailable => Remedy::Outcome(1),
                K::FieldsInvalid => Remedy::Outcome(2),
                K::GuardViolated => Remedy::Retry,
                K::RecordFailed => Remedy::Outcome(3),
                _ => Remedy::Error,
            };
            assert_eq!(remedy(&REMEDIES, kind), wanted, "{}", kind.label());
        }
    }

    #[test]
    fn what_is_shed_is_overload_whatever_it_was_and_says_when_to_come_again() {
        let fault = shed(Fault::new(FaultKind::RunFailed, Stage::Infer, "no"));
        assert_eq!((fault.kind, fault.stage), (FaultKind::WaitTooLong, Stage::Infer));
        assert_eq!(fault.retry_after, Some(SHED_PAUSE));
    }

    #[test]
    fn a_remedy_for_lateness_keeps_some_of_the_time() {
        let at = |ms: u64| Some(Nanos(ms * 1_000_000));
        assert_eq!(first_deadline(&REMEDIES, at(30), Nanos(10_000_000)), at(28));
        assert_eq!(first_deadline(&REMEDIES, at(14), Nanos(10_000_000)), at(13));
        assert_eq!(first_deadline(&REMEDIES, None, Nanos(0)), None);
        let previous = Remedies { timeout: Remedy::Previous, ..REMEDIES };
        assert_eq!(first_deadline(&previous, at(30), Nanos(10_000_000)), at(20));
        let none = Remedies { timeout: Remedy::Error, ..REMEDIES };
        assert_eq!(first_deadline(&none, at(30), Nanos(10_000_000)), at(30));
    }
}
