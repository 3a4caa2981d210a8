//! Metrics of transports, deployments, features and the journal for `/metrics`.
//!
//! Features and the journal count in their own crates. No request touches this.

use crate::files::Reloads;
use crate::journal;
use crate::shared::Shared;
use crate::tls::Tls;
use flyball_features::{Features, SourceCounts, WindowCounts};
use flyball_plane::Provenance;
use flyball_telemetry::Family;
use std::borrow::Cow;
use std::sync::atomic::Ordering;

/// Values with their labels.
pub(crate) type Samples = Vec<(Cow<'static, str>, f64)>;

/// All families, even without samples because the server has no TLS or no callers' file.
pub(crate) fn families(shared: &Shared) -> Vec<Family> {
    let mut families = transports(shared);
    families.extend(deployments(shared));
    families.extend(features(&shared.plane.services.features));
    families.extend(journal::families(shared));
    families
}

pub(crate) fn counter(name: &'static str, help: &'static str, samples: Samples) -> Family {
    Family { name, kind: "counter", help, samples }
}

pub(crate) fn gauge(name: &'static str, help: &'static str, samples: Samples) -> Family {
    Family { name, kind: "gauge", help, samples }
}

/// One value without labels, or no sample.
pub(crate) fn one(value: Option<f64>) -> Samples {
    value.map(|value| (Cow::Borrowed(""), value)).into_iter().collect()
}

pub(crate) fn labelled(counts: impl Iterator<Item = (String, u64)>) -> Samples {
    counts.map(|(labels, count)| (Cow::Owned(labels), count as f64)).collect()
}

fn transports(shared: &Shared) -> Vec<Family> {
    let tls = shared.tls.as_ref();
    let count = |count: u64| one(Some(count as f64));
    let handshakes_failed = tls.map(|tls| tls.handshakes_failed.load(Ordering::Relaxed) as f64);
    let not_after = tls.map(|tls| Tls::not_after(tls) as f64);
    vec![
        counter(
            "flyball_connections_refused_total",
            "connections closed at once because their address has connections_per_address_max of them",
            count(shared.address_slots.turned_away()),
        ),
        shared.refused_queries.family(),
        counter(
            "flyball_connections_evicted_total",
            "idle connections closed to make room because connections_max of them were open",
            count(shared.open.evictions()),
        ),
        gauge(
            "flyball_streams_open",
            "HTTP/2 requests that are open on all connections",
            count(shared.streams.open() as u64),
        ),
        counter(
            "flyball_streams_refused_total",
            "HTTP/2 requests refused unread because too many are open, or too many of unknown callers",
            count(shared.streams.refusals()),
        ),
        counter(
            "flyball_tls_handshakes_failed_total",
            "TLS handshakes that failed or took too long",
            one(handshakes_failed),
        ),
        counter(
            "flyball_tls_reloads_total",
            "changes of the certificate files",
            reloads(tls.map(|tls| &tls.reloads)),
        ),
        gauge(
            "flyball_tls_not_after_seconds",
            "when the certificate in use expires, in seconds since 1970",
            one(not_after),
        ),
        counter(
            "flyball_callers_reloads_total",
            "changes of the callers' file",
            reloads(shared.callers.as_ref().map(|callers| &callers.reloads)),
        ),
    ]
}

/// Loads, and the trust in what serves.
fn deployments(shared: &Shared) -> Vec<Family> {
    let routes = shared.plane.routes.load();
    let unsigned =
        routes.deployments().filter(|deployment| deployment.provenance == Provenance::Unsigned).count();
    let loads = shared.loader.get().map_or(0, |loader| loader.loads());
    vec![
        counter(
            "flyball_trust_reloads_total",
            "changes of the trust policy",
            reloads(shared.trust.as_ref().map(|trust| &trust.reloads)),
        ),
        gauge(
            "flyball_unsigned_deployments",
            "serving deployments that are unsigned",
            one(Some(unsigned as f64)),
        ),
        counter(
            "flyball_model_loads_total",
            "versions of models that were loaded; going back to one that is kept warm loads none",
            one(Some(loads as f64)),
        ),
    ]
}

/// Lookups and windows of features.
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
    let of_sources = |pick: fn(&SourceCounts) -> u64| {
        labelled(sources.iter().map(|counts| (source(counts), pick(counts))))
    };
    let of_windows = |pick: fn(&WindowCounts) -> u64| {
        labelled(windows.iter().map(|counts| (window(counts), pick(counts))))
    };
    let entries = of_sources(|counts| counts.entries);
    let evictions = of_sources(|counts| counts.evictions);
    let keys = of_windows(|counts| counts.keys);
    let key_evictions = of_windows(|counts| counts.evictions);
    vec![
        counter("flyball_feature_lookups_total", "lookups of features, by result", labelled(lookups)),
        gauge("flyball_feature_cache_entries", "records in the cache", entries),
        counter("flyball_feature_cache_evictions_total", "records that made room for others", evictions),
        counter("flyball_window_events_total", "events of windows, by result", labelled(events)),
        gauge("flyball_window_keys", "keys that a window holds", keys),
        counter("flyball_window_evictions_total", "keys that made room for others", key_evictions),
    ]
}

fn reloads(of: Option<&Reloads>) -> Samples {
    let labels = [r#"outcome="taken""#, r#"outcome="refused""#].map(Cow::Borrowed);
    let counts = of.map(|reloads| reloads.counts().map(|count| count as f64));
    counts.map_or_else(Vec::new, |counts| labels.into_iter().zip(counts).collect())
}
