//! What the transports count for the page of metrics: connections turned away, handshakes, files that were read again; what was
//! loaded; and what
//! features and the journal count, which their own crates do.
//! Nothing here is touched by a request.

use crate::callers::Callers;
use crate::journal;
use crate::shared::Shared;
use crate::tls::Tls;
use flyball_features::{Features, SourceCounts, WindowCounts};
use flyball_plane::Provenance;
use flyball_telemetry::Family;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Every family, also where it has no sample because the server has no TLS or no callers' file.
pub(crate) fn families(shared: &Shared) -> Vec<Family> {
    let mut families = transports(shared);
    families.extend(deployments(shared));
    families.extend(features(&shared.plane.services.features));
    families.extend(journal::families(shared));
    families
}

fn transports(shared: &Shared) -> Vec<Family> {
    let tls = shared.tls.as_ref();
    let one = |value: Option<u64>| value.map(|value| ("".into(), value as f64)).into_iter().collect();
    vec![
        Family {
            name: "flyball_connections_refused_total",
            kind: "counter",
            help: "connections closed at once because their address has connections_per_address_max of them",
            samples: one(Some(shared.address_slots.turned_away())),
        },
        shared.refused_queries.family(),
        Family {
            name: "flyball_connections_evicted_total",
            kind: "counter",
            help: "idle connections closed to make room because connections_max of them were open",
            samples: one(Some(shared.open.evictions())),
        },
        Family {
            name: "flyball_streams_open",
            kind: "gauge",
            help: "HTTP/2 requests that are open on all connections",
            samples: one(Some(shared.streams.open() as u64)),
        },
        Family {
            name: "flyball_streams_refused_total",
            kind: "counter",
            help: "HTTP/2 requests refused unread because too many are open, or too many of unknown callers",
            samples: one(Some(shared.streams.refusals())),
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

/// What was loaded, by whose word.
fn deployments(shared: &Shared) -> Vec<Family> {
    let routes = shared.plane.routes.load();
    let unsigned =
        routes.deployments().filter(|deployment| deployment.provenance == Provenance::Unsigned).count();
    let one = |value: u64| vec![("".into(), value as f64)];
    vec![
        Family {
            name: "flyball_trust_reloads_total",
            kind: "counter",
            help: "changes of the trust policy",
            samples: reloads(
                shared.trust.as_ref().map(|trust| [&trust.reloads_taken, &trust.reloads_refused]),
            ),
        },
        Family {
            name: "flyball_unsigned_deployments",
            kind: "gauge",
            help: "deployments that serve and that nobody signed",
            samples: one(unsigned as u64),
        },
        Family {
            name: "flyball_model_loads_total",
            kind: "counter",
            help: "versions of models that were loaded; going back to one that is kept warm loads none",
            samples: one(shared.loader.get().map_or(0, |loader| loader.loads())),
        },
    ]
}

/// What the sources and windows of features count.
fn features(features: &Features) -> Vec<Family> {
    let (sources, windows) = (features.sources(), features.windows());
    let source = |counts: &SourceCounts| format!(r#"kind="{}",set="{}""#, counts.kind, counts.set);
    let window = |counts: &WindowCounts| format!(r#"window="{}""#, counts.name);
    let lookups = sources.iter().flat_map(|counts| {
        let by_result = [
            ("hit", counts.hits),
            ("miss", counts.misses),
            ("stale", counts.stale),
            ("timeout", counts.timeouts),
            ("down", counts.down),
            ("bad", counts.bad),
            ("busy", counts.busy),
        ];
        by_result.map(|(result, count)| (format!(r#"{},result="{result}""#, source(counts)), count))
    });
    let events = windows.iter().flat_map(|counts| {
        let by_result = [
            ("added", counts.events),
            ("late", counts.late),
            ("future", counts.future),
            ("saturated", counts.saturated),
            ("failed", counts.failed),
        ];
        by_result.map(|(result, count)| (format!(r#"{},result="{result}""#, window(counts)), count))
    });
    let family = |name, kind, help, samples: Vec<(String, u64)>| {
        let samples = samples.into_iter().map(|(labels, value)| (Cow::Owned(labels), value as f64)).collect();
        Family { name, kind, help, samples }
    };
    let of_sources = |pick: fn(&SourceCounts) -> u64| {
        sources.iter().map(|counts| (source(counts), pick(counts))).collect()
    };
    let of_windows = |pick: fn(&WindowCounts) -> u64| {
        windows.iter().map(|counts| (window(counts), pick(counts))).collect()
    };
    vec![
        family(
            "flyball_feature_lookups_total",
            "counter",
            "lookups of features, by result",
            lookups.collect(),
        ),
        family(
            "flyball_feature_cache_entries",
            "gauge",
            "records in the cache",
            of_sources(|counts| counts.entries),
        ),
        family(
            "flyball_feature_cache_evictions_total",
            "counter",
            "records that made room for others",
            of_sources(|counts| counts.evictions),
        ),
        family("flyball_window_events_total", "counter", "events of windows, by result", events.collect()),
        family("flyball_window_keys", "gauge", "keys that a window holds", of_windows(|counts| counts.keys)),
        family(
            "flyball_window_evictions_total",
            "counter",
            "keys that made room for others",
            of_windows(|counts| counts.evictions),
        ),
    ]
}

fn reloads(counts: Option<[&AtomicU64; 2]>) -> Vec<(Cow<'static, str>, f64)> {
    let labels = [r#"outcome="taken""#, r#"outcome="refused""#];
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
    counts.map_or_else(Vec::new, |counts| {
        labels.map(Cow::Borrowed).into_iter().zip(counts.map(count)).collect()
    })
}
