//! What the transports count for the page of metrics: connections turned away, handshakes, files that were read again.
//! Nothing here is touched by a request.

use crate::lane_thread::Shared;
use flyball_telemetry::Family;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) fn families(shared: &Shared) -> Vec<Family> {
    let mut families = vec![family(
        "flyball_connections_refused_total",
        "counter",
        "connections closed at once because their address has connections_per_address_max of them",
        vec![("", shared.seats.turned_away())],
    )];
    if let Some(tls) = &shared.tls {
        families.push(family(
            "flyball_tls_handshakes_failed_total",
            "counter",
            "TLS handshakes that failed or took too long",
            vec![("", tls.handshakes_failed.load(Ordering::Relaxed))],
        ));
        families.push(family(
            "flyball_tls_reloads_total",
            "counter",
            "changes of the certificate files",
            reloads(&tls.reloads_taken, &tls.reloads_refused),
        ));
        families.push(family(
            "flyball_tls_not_after_seconds",
            "gauge",
            "when the certificate in use expires, in seconds since 1970",
            vec![("", tls.not_after())],
        ));
    }
    if let Some(callers) = &shared.callers {
        families.push(family(
            "flyball_callers_reloads_total",
            "counter",
            "changes of the callers' file",
            reloads(&callers.reloads_taken, &callers.reloads_refused),
        ));
    }
    families
}

fn reloads(taken: &AtomicU64, refused: &AtomicU64) -> Vec<(&'static str, u64)> {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    vec![(r#"outcome="taken""#, count(taken)), (r#"outcome="refused""#, count(refused))]
}

fn family(
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: Vec<(&'static str, u64)>,
) -> Family {
    Family { name, kind, help, samples }
}
