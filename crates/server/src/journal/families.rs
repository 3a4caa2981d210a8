//! What the journal counts, for the page of metrics. Every family is there, also without a journal.

use crate::shared::Shared;
use flyball_journal::{JournalCounts, SYNC_BOUNDS_NS};
use flyball_telemetry::{Family, HistogramCounts, HistogramFamily};
use std::borrow::Cow;

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

fn labelled<'l>(name: &str, counts: impl Iterator<Item = (&'l str, u64)>) -> Vec<(Cow<'static, str>, f64)> {
    counts.map(|(label, count)| (Cow::Owned(format!(r#"{name}="{label}""#)), count as f64)).collect()
}

fn records(counts: Option<&JournalCounts>) -> Family {
    let records = counts.into_iter().flat_map(|counts| counts.records.iter().copied());
    Family {
        name: "flyball_journal_records_total",
        kind: "counter",
        help: "records that are on the disk, by kind",
        samples: labelled("kind", records),
    }
}

fn gaps(counts: Option<&JournalCounts>) -> Family {
    let gaps = counts.into_iter().flat_map(|counts| counts.gap_decisions.iter());
    Family {
        name: "flyball_journal_gap_decisions_total",
        kind: "counter",
        help: "decisions that were answered without a record and stand in gap records, by reason",
        samples: labelled("reason", gaps.map(|(why, count)| (why.label(), *count))),
    }
}

fn annotations(shared: &Shared) -> Family {
    let sample = |(kind, result, count): (&str, &str, u64)| {
        (Cow::Owned(format!(r#"kind="{kind}",result="{result}""#)), count as f64)
    };
    let annotations = shared.journal.iter().flat_map(|_journal| shared.annotations.counts());
    Family {
        name: "flyball_journal_requests_total",
        kind: "counter",
        help: "requests that told an outcome, an override or an erasure",
        samples: annotations.map(sample).collect(),
    }
}

fn states(counts: Option<&JournalCounts>) -> [Family; 7] {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let family = |name, kind, help, value: fn(&JournalCounts) -> u64, scale: fn(u64) -> f64| Family {
        name,
        kind,
        help,
        samples: counts.map(|counts| (Cow::Borrowed(""), scale(value(counts)))).into_iter().collect(),
    };
    let whole = |count: u64| count as f64;
    [
        family(
            "flyball_journal_bytes_total",
            "counter",
            "bytes of records that are on the disk",
            |counts| counts.bytes,
            whole,
        ),
        family(
            "flyball_journal_lost_others_total",
            "counter",
            "records of other kinds than decisions that were lost; gap records say how many of which",
            |counts| counts.lost_others,
            whole,
        ),
        family(
            "flyball_journal_unsynced_records",
            "gauge",
            "records that are not on the disk yet: as many as could be lost now",
            |counts| counts.unsynced_records,
            whole,
        ),
        family(
            "flyball_journal_unsynced_seconds",
            "gauge",
            "how long the oldest of them waits",
            |counts| counts.unsynced_ns,
            seconds,
        ),
        family(
            "flyball_journal_loss_window_seconds",
            "gauge",
            "from what age of the oldest on nothing more is taken: what could be lost at most",
            |counts| counts.loss_max_ns,
            seconds,
        ),
        family(
            "flyball_journal_syncs_total",
            "counter",
            "calls of fdatasync that succeeded",
            |counts| counts.syncs,
            whole,
        ),
        family(
            "flyball_journal_available",
            "gauge",
            "1 where records are kept, 0 where they cannot be just now",
            |counts| u64::from(counts.available.is_none()),
            whole,
        ),
    ]
}
