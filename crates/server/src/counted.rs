//! What the transports count for the page of metrics: connections turned away, handshakes, files that were read again.
//! Nothing here is touched by a request.

use crate::callers::Callers;
use crate::lane_thread::Shared;
use crate::tls::Tls;
use flyball_telemetry::Family;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every family, also where it has no sample because the server has no TLS or no callers' file.
pub(crate) fn families(shared: &Shared) -> Vec<Family> {
    let tls = shared.tls.as_ref();
    let one = |value: Option<u64>| value.map(|value| ("", value)).into_iter().collect();
    vec![
        Family {
            name: "flyball_connections_refused_total",
            kind: "counter",
            help: "connections closed at once because their address has connections_per_address_max of them",
            samples: one(Some(shared.seats.turned_away())),
        },
        Family {
            name: "flyball_tls_handshakes_failed_total",
            kind: "counter",
            help: "TLS handshakes that failed or took too long",
            samples: one(tls.map(|tls| tls.handshakes_failed.load(Ordering::Relaxed))),
        },
        Family {
            name: "flyball_tls_reloads_total",
            kind: "counter",
            help: "changes of the certificate files",
            samples: reloads(tls.map(|tls: &Tls| [&tls.reloads_taken, &tls.reloads_refused])),
        },
        Family {
            name: "flyball_tls_not_after_seconds",
            kind: "gauge",
            help: "when the certificate in use expires, in seconds since 1970",
            samples: one(tls.map(Tls::not_after)),
        },
        Family {
            name: "flyball_callers_reloads_total",
            kind: "counter",
            help: "changes of the callers' file",
            samples: reloads(
                shared.callers.as_ref().map(|file: &Callers| [&file.reloads_taken, &file.reloads_refused]),
            ),
        },
    ]
}

fn reloads(counts: Option<[&AtomicU64; 2]>) -> Vec<(&'static str, u64)> {
    let labels = [r#"outcome="taken""#, r#"outcome="refused""#];
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    counts.map_or_else(Vec::new, |counts| labels.into_iter().zip(counts.map(count)).collect())
}
