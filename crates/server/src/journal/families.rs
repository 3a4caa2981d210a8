//! The journal's metrics. All families exist even without a journal.

use crate::counted::{counter, gauge, labelled, one};
use crate::shared::Shared;
use flyball_journal::{JournalCounts, SYNC_BOUNDS_NS};
use flyball_telemetry::{Family, HistogramCounts, HistogramFamily};

pub(crate) fn families(shared: &Shared) -> Vec<Family> {
    let counts = shared.journal.as_ref().map(|journal| journal.counts());
    let counts = counts.as_ref();
    let mut families = vec![records(counts), gaps(counts), annotations(shared)];
    families.extend(states(counts));
    families
}

pub(crate) fn spread(shared: &Shared) -> HistogramFamily {
    let counted = shared.journal.as_ref().map(|journal| {
        let counts = journal.counts();
        let mut all = 0;
        let below = SYNC_BOUNDS_NS.iter().zip(counts.sync_buckets).map(|(bound, count)| {
            all += count;
            (*bound as f64 / 1e9, all)
        });
        let below = below.collect();
        let count = counts.sync_buckets.iter().sum();
        HistogramCounts { below, count, sum_seconds: counts.sync_ns_sum as f64 / 1e9 }
    });
    HistogramFamily {
        name: "flyball_journal_sync_seconds",
        help: "calls of fdatasync for the journal",
        counted,
    }
}

fn records(counts: Option<&JournalCounts>) -> Family {
    let records = counts.into_iter().flat_map(|counts| counts.records.iter().copied());
    let records = records.map(|(kind, count)| (format!(r#"kind="{kind}""#), count));
    counter("flyball_journal_records_total", "records that are on the disk, by kind", labelled(records))
}

fn gaps(counts: Option<&JournalCounts>) -> Family {
    let gaps = counts.into_iter().flat_map(|counts| counts.gap_decisions.iter());
    counter(
        "flyball_journal_gap_decisions_total",
        "decisions that were answered without a record and are in gap records, by reason",
        labelled(gaps.map(|(why, count)| (format!(r#"reason="{}""#, why.label()), *count))),
    )
}

fn annotations(shared: &Shared) -> Family {
    let annotations = shared.journal.iter().flat_map(|_journal| shared.annotations.counts());
    let annotations =
        annotations.map(|(kind, result, count)| (format!(r#"kind="{kind}",result="{result}""#), count));
    counter(
        "flyball_journal_requests_total",
        "requests to record outcomes, overrides, erasures and holds",
        labelled(annotations),
    )
}

fn states(counts: Option<&JournalCounts>) -> [Family; 7] {
    let of = |value: fn(&JournalCounts) -> f64| one(counts.map(value));
    let available = of(|counts| f64::from(u8::from(counts.available.is_none())));
    [
        counter("flyball_journal_bytes_total", "bytes of records on disk", of(|counts| counts.bytes as f64)),
        counter(
            "flyball_journal_lost_others_total",
            "records of other kinds than decisions that were lost; gap records say how many of which",
            of(|counts| counts.lost_others as f64),
        ),
        gauge(
            "flyball_journal_unsynced_records",
            "records that are not on the disk yet: as many as could be lost now",
            of(|counts| counts.unsynced_records as f64),
        ),
        gauge(
            "flyball_journal_unsynced_seconds",
            "age of the oldest unsynced record",
            of(|counts| counts.unsynced_ns as f64 / 1e9),
        ),
        gauge(
            "flyball_journal_loss_window_seconds",
            "maximum age of unsynced records, beyond which recording stops: the most that could be lost",
            of(|counts| counts.loss_max_ns as f64 / 1e9),
        ),
        counter(
            "flyball_journal_syncs_total",
            "successful calls of fdatasync",
            of(|counts| counts.syncs as f64),
        ),
        gauge("flyball_journal_available", "1 if records can be stored, 0 if not", available),
    ]
}
