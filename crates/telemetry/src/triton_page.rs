//! Triton's metric families, for dashboards and alerts that were made for it.
//!
//! A page of its own: the totals of the statistics extension, under Triton's names and in its units.

use crate::exposition::{Page, labels};
use flyball_core::{ModelStatistics, Timed};

/// The totals of one version, and its pending requests.
pub struct TritonModel {
    pub totals: ModelStatistics,
    pub pending: usize,
}

type Total = fn(&ModelStatistics) -> u64;

const COUNTERS: [(&str, &str, Total); 8] = [
    ("nv_inference_request_success", "answered inference requests", |model| model.answered.count),
    ("nv_inference_count", "rows of answered requests", |model| model.rows),
    ("nv_inference_exec_count", "model runs", |model| model.runs),
    ("nv_inference_request_duration_us", "time of answered requests", |model| us(model.answered)),
    ("nv_inference_queue_duration_us", "time in the queue", |model| us(model.queue)),
    ("nv_inference_compute_input_duration_us", "time to prepare inputs", |model| us(model.tensor)),
    ("nv_inference_compute_infer_duration_us", "time of model runs", |model| us(model.infer)),
    ("nv_inference_compute_output_duration_us", "time to write responses", |model| us(model.respond)),
];

/// The page for these versions. Every request that was not answered has the reason OTHER.
pub fn triton_page(models: &[TritonModel]) -> String {
    let mut page = Page::default();
    let of = |model: &TritonModel| labels(&model.totals.name, &model.totals.version);
    for (name, help, total) in COUNTERS {
        page.series(name, "counter", help, models.iter().map(|model| (of(model), total(&model.totals))));
    }
    let unanswered =
        |model: &TritonModel| (format!(r#"{},reason="OTHER""#, of(model)), model.totals.unanswered.count);
    let help = "inference requests that were not answered";
    page.series("nv_inference_request_failure", "counter", help, models.iter().map(unanswered));
    let help = "requests in flight, counted at the model's default version";
    let pending = models.iter().map(|model| (of(model), model.pending));
    page.series("nv_inference_pending_request_count", "gauge", help, pending);
    page.0
}

fn us(timed: Timed) -> u64 {
    timed.ns / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_each_of_triton_s_series_in_microseconds() {
        let totals = ModelStatistics {
            name: "fraud".into(),
            version: "3".into(),
            rows: 12,
            runs: 4,
            answered: Timed { count: 10, ns: 5_000_000 },
            unanswered: Timed { count: 2, ns: 0 },
            queue: Timed { count: 10, ns: 1999 },
            ..ModelStatistics::default()
        };
        let page = triton_page(&[TritonModel { totals, pending: 7 }]);
        for line in [
            r#"nv_inference_request_success{model="fraud",version="3"} 10"#,
            r#"nv_inference_request_failure{model="fraud",version="3",reason="OTHER"} 2"#,
            r#"nv_inference_count{model="fraud",version="3"} 12"#,
            r#"nv_inference_exec_count{model="fraud",version="3"} 4"#,
            r#"nv_inference_request_duration_us{model="fraud",version="3"} 5000"#,
            r#"nv_inference_queue_duration_us{model="fraud",version="3"} 1"#,
            r#"nv_inference_pending_request_count{model="fraud",version="3"} 7"#,
            "# TYPE nv_inference_request_success counter",
            "# TYPE nv_inference_pending_request_count gauge",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }
}
