//! Latencies in nanoseconds to three digits, with figures and the HdrHistogram format.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use hdrhistogram::{Counter, Histogram};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Longer than any timeout of a plan; larger values are recorded as this.
const LATENCY_MAX: Duration = Duration::from_secs(2 * 3600);
const DIGITS: u8 = 3;

/// The figures of a histogram for a table, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencyUs {
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    pub mean: f64,
}

/// Histograms to read: `{"histograms": [base64, …]}`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encoded {
    histograms: Vec<String>,
}

/// Several histograms merged, bucket by bucket in ascending order.
#[derive(Debug, PartialEq, Serialize)]
pub struct MergedHistogram {
    pub count: u64,
    pub min_us: f64,
    pub max_us: f64,
    pub mean_us: f64,
    /// The middle of each bucket that is not empty.
    pub values_us: Vec<f64>,
    pub counts: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistogramError {
    #[error("histograms: {0}")]
    NotJson(String),
    #[error("cannot read histogram {place}: {cause}")]
    Unreadable { place: usize, cause: String },
}

/// For all requests of a run: allocates nothing while measuring.
pub(crate) fn wide() -> Histogram<u64> {
    Histogram::new_with_bounds(1, nanoseconds(LATENCY_MAX), DIGITS)
        .expect("the bounds are constants that fit")
}

/// For one interval of many: grows with its values.
pub(crate) fn narrow() -> Histogram<u32> {
    Histogram::new(DIGITS).expect("three digits are allowed")
}

pub(crate) fn record<C: Counter>(histogram: &mut Histogram<C>, time: Duration) {
    let value = nanoseconds(time).clamp(1, nanoseconds(LATENCY_MAX));
    // Within the bounds of `wide`, and `narrow` grows.
    let _ = histogram.record(value);
}

/// Adds another thread's histogram of the same layout.
pub(crate) fn add<C: Counter>(histogram: &mut Histogram<C>, other: &Histogram<C>) {
    // Fails only if a value does not fit.
    let _ = histogram.add(other);
}

pub(crate) fn figures(histogram: &Histogram<u64>) -> LatencyUs {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    LatencyUs {
        p50: at(0.5),
        p95: at(0.95),
        p99: at(0.99),
        p999: at(0.999),
        max: histogram.max() as f64 / 1e3,
        mean: histogram.mean() / 1e3,
    }
}

/// HdrHistogram V2, compressed, in base64.
pub(crate) fn encode<C: Counter>(histogram: &Histogram<C>) -> String {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("a histogram of bounded values is written into memory");
    STANDARD.encode(bytes)
}

/// Decodes and merges histograms.
pub fn read_histograms(document: &[u8]) -> Result<MergedHistogram, HistogramError> {
    let Encoded { histograms } =
        serde_json::from_slice(document).map_err(|error| HistogramError::NotJson(error.to_string()))?;
    let mut merged = Histogram::<u64>::new(DIGITS).expect("three digits are allowed");
    let mut deserializer = Deserializer::new();
    for (place, text) in histograms.iter().enumerate() {
        let unreadable = |cause: String| HistogramError::Unreadable { place, cause };
        let bytes = STANDARD.decode(text).map_err(|error| unreadable(error.to_string()))?;
        let histogram: Histogram<u64> =
            deserializer.deserialize(&mut bytes.as_slice()).map_err(|error| unreadable(error.to_string()))?;
        merged.add(histogram).map_err(|error| unreadable(error.to_string()))?;
    }
    let (mut values_us, mut counts) = (Vec::new(), Vec::new());
    for bucket in merged.iter_recorded() {
        values_us.push(merged.median_equivalent(bucket.value_iterated_to()) as f64 / 1e3);
        counts.push(bucket.count_at_value());
    }
    Ok(MergedHistogram {
        count: merged.len(),
        min_us: if merged.is_empty() { 0.0 } else { merged.min() as f64 / 1e3 },
        max_us: merged.max() as f64 / 1e3,
        mean_us: merged.mean() / 1e3,
        values_us,
        counts,
    })
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(histograms: &[String]) -> Result<MergedHistogram, HistogramError> {
        read_histograms(json!({ "histograms": histograms }).to_string().as_bytes())
    }

    #[test]
    fn histograms_of_both_kinds_are_read_back_as_one_within_their_three_digits() {
        let (mut wide, mut narrow) = (wide(), narrow());
        record(&mut wide, Duration::from_micros(100));
        record(&mut wide, Duration::from_millis(200));
        record(&mut narrow, Duration::from_micros(100));
        let merged = read(&[encode(&wide), encode(&narrow)]).expect("reads");
        assert_eq!((merged.count, merged.counts), (3, vec![2, 1]));
        for (is, wanted) in merged.values_us.iter().zip([100.0, 200_000.0]) {
            assert!((is / wanted - 1.0).abs() < 0.001, "{is} for {wanted}");
        }
        assert!((merged.max_us / 200_000.0 - 1.0).abs() < 0.001);
        assert!((merged.mean_us / 66_733.3 - 1.0).abs() < 0.001);
    }

    #[test]
    fn no_histograms_are_an_empty_one_and_what_is_none_is_refused_by_its_place() {
        let empty = read(&[]).expect("reads");
        assert_eq!((empty.count, empty.min_us, empty.max_us, empty.values_us), (0, 0.0, 0.0, vec![]));
        for (text, wanted) in [("?", "cannot read histogram 1"), ("AAAA", "cannot read histogram 1")] {
            let error = read(&[encode(&wide()), text.into()]).expect_err(wanted);
            assert!(error.to_string().contains(wanted), "{error}");
        }
        assert!(matches!(read_histograms(b"{}"), Err(HistogramError::NotJson(_))));
    }

    #[test]
    fn what_is_beyond_the_longest_timeout_is_recorded_as_the_longest() {
        let mut histogram = wide();
        record(&mut histogram, Duration::from_secs(9 * 3600));
        record(&mut histogram, Duration::ZERO);
        assert_eq!(histogram.len(), 2);
    }
}
