//! The statistics extension: model totals in JSON and as a message.
//!
//! Joining and splitting are part of a run here, so batch sizes have no separate time for input and output.
//! There is no response cache, hence no hits and no misses.

use crate::metadata::json;
use crate::proto::inference as proto;
use bytes::Bytes;
use flyball_core::{ModelStatistics, Timed};
use serde::Serialize;
use serde_json::{Map, Value};

/// The response of `…/stats`: one entry for each version.
#[derive(Clone, Debug, Default)]
pub struct Statistics(pub Vec<ModelStatistics>);

#[derive(Serialize)]
struct Page<'s> {
    model_stats: Vec<Entry<'s>>,
}

#[derive(Serialize)]
struct Entry<'s> {
    name: &'s str,
    version: &'s str,
    last_inference: u64,
    inference_count: u64,
    execution_count: u64,
    inference_stats: Stages,
    response_stats: Map<String, Value>,
    batch_stats: Vec<Batch>,
    memory_usage: [Value; 0],
}

#[derive(Serialize)]
struct Stages {
    success: Duration,
    fail: Duration,
    queue: Duration,
    compute_input: Duration,
    compute_infer: Duration,
    compute_output: Duration,
    cache_hit: Duration,
    cache_miss: Duration,
}

#[derive(Serialize)]
struct Batch {
    batch_size: u64,
    compute_input: Duration,
    compute_infer: Duration,
    compute_output: Duration,
}

#[derive(Clone, Copy, Default, Serialize)]
struct Duration {
    count: u64,
    ns: u64,
}

impl Duration {
    /// A count without separate time.
    fn untimed(count: u64) -> Duration {
        Duration { count, ns: 0 }
    }

    fn message(self) -> Option<proto::StatisticDuration> {
        Some(proto::StatisticDuration { count: self.count, ns: self.ns })
    }
}

impl From<Timed> for Duration {
    fn from(timed: Timed) -> Duration {
        Duration { count: timed.count, ns: timed.ns }
    }
}

impl Statistics {
    pub fn to_json(&self) -> Bytes {
        json(&Page { model_stats: self.0.iter().map(entry).collect() })
    }

    pub fn to_message(&self) -> proto::ModelStatisticsResponse {
        proto::ModelStatisticsResponse {
            model_stats: self.0.iter().map(|model| message(entry(model))).collect(),
        }
    }
}

fn entry(model: &ModelStatistics) -> Entry<'_> {
    let none = Duration::default();
    let batch = |&(batch_size, runs): &(u64, Timed)| Batch {
        batch_size,
        compute_input: Duration::untimed(runs.count),
        compute_infer: runs.into(),
        compute_output: Duration::untimed(runs.count),
    };
    Entry {
        name: &model.name,
        version: &model.version,
        last_inference: model.last_inference_ms,
        inference_count: model.rows,
        execution_count: model.runs,
        inference_stats: Stages {
            success: model.answered.into(),
            fail: model.unanswered.into(),
            queue: model.queue.into(),
            compute_input: model.tensor.into(),
            compute_infer: model.infer.into(),
            compute_output: model.respond.into(),
            cache_hit: none,
            cache_miss: none,
        },
        response_stats: Map::new(),
        batch_stats: model.runs_by_rows.iter().map(batch).collect(),
        memory_usage: [],
    }
}

fn message(entry: Entry<'_>) -> proto::ModelStatistics {
    let stages = entry.inference_stats;
    let batch = |batch: Batch| proto::InferBatchStatistics {
        batch_size: batch.batch_size,
        compute_input: batch.compute_input.message(),
        compute_infer: batch.compute_infer.message(),
        compute_output: batch.compute_output.message(),
    };
    proto::ModelStatistics {
        name: entry.name.to_owned(),
        version: entry.version.to_owned(),
        last_inference: entry.last_inference,
        inference_count: entry.inference_count,
        execution_count: entry.execution_count,
        inference_stats: Some(proto::InferStatistics {
            success: stages.success.message(),
            fail: stages.fail.message(),
            queue: stages.queue.message(),
            compute_input: stages.compute_input.message(),
            compute_infer: stages.compute_infer.message(),
            compute_output: stages.compute_output.message(),
            cache_hit: stages.cache_hit.message(),
            cache_miss: stages.cache_miss.message(),
        }),
        batch_stats: entry.batch_stats.into_iter().map(batch).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics() -> Statistics {
        let timed = |count, ns| Timed { count, ns };
        Statistics(vec![ModelStatistics {
            name: "fraud".into(),
            version: "7".into(),
            last_inference_ms: 1_700_000_000_000,
            rows: 9,
            runs: 4,
            answered: timed(5, 500),
            unanswered: timed(1, 10),
            queue: timed(5, 50),
            tensor: timed(5, 60),
            infer: timed(5, 70),
            respond: timed(5, 80),
            runs_by_rows: vec![(1, timed(3, 30)), (6, timed(1, 40))],
        }])
    }

    #[test]
    fn the_json_has_the_names_that_triton_s_clients_read() {
        let page: Value = serde_json::from_slice(&statistics().to_json()).unwrap();
        let model = &page["model_stats"][0];
        assert_eq!(model["last_inference"], 1_700_000_000_000_u64);
        assert_eq!((&model["inference_count"], &model["execution_count"]), (&9.into(), &4.into()));
        let stats = &model["inference_stats"];
        for (name, count, ns) in [
            ("success", 5, 500),
            ("fail", 1, 10),
            ("queue", 5, 50),
            ("compute_input", 5, 60),
            ("compute_infer", 5, 70),
            ("compute_output", 5, 80),
            ("cache_hit", 0, 0),
            ("cache_miss", 0, 0),
        ] {
            assert_eq!(stats[name], serde_json::json!({"count": count, "ns": ns}), "{name}");
        }
        assert_eq!(model["batch_stats"][1]["batch_size"], 6);
        assert_eq!(model["batch_stats"][1]["compute_infer"], serde_json::json!({"count": 1, "ns": 40}));
        assert_eq!(
            (&model["response_stats"], &model["memory_usage"]),
            (&Value::Object(Map::new()), &Value::Array(Vec::new()))
        );
    }

    #[test]
    fn the_message_says_what_the_json_says() {
        let model = statistics().to_message().model_stats.remove(0);
        assert_eq!((model.name.as_str(), model.inference_count, model.execution_count), ("fraud", 9, 4));
        let stages = model.inference_stats.unwrap();
        let duration = |count, ns| Some(proto::StatisticDuration { count, ns });
        assert_eq!((stages.success, stages.compute_infer), (duration(5, 500), duration(5, 70)));
        assert_eq!((stages.queue, stages.cache_hit), (duration(5, 50), duration(0, 0)));
        assert_eq!(model.batch_stats[0].compute_infer, duration(3, 30));
    }
}
