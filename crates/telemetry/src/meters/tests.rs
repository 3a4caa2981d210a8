//! Counts add up, whatever happens to a walk.

use super::*;
use crate::{BuildFacts, Gauges};
use flyball_core::CallerIndex;
use flyball_core::Nanos;
use proptest::prelude::*;
use std::time::Duration;

fn record(
    model: Option<&ModelMeter>,
    outcome: Outcome,
    fault: Option<FaultKind>,
) -> WalkRecord<'_, ModelMeter> {
    WalkRecord {
        model,
        protocol: Protocol::Grpc,
        caller: CallerIndex::ANONYMOUS,
        outcome,
        fault: fault.map(|kind| (kind, Stage::Admit)),
        rows: 1,
        ended: Nanos(1),
        total: Duration::from_micros(50),
        stages: [Some(Duration::from_micros(5)); Stage::COUNT],
    }
}

proptest! {
    #[test]
    fn received_is_the_sum_of_the_outcomes_and_what_is_in_flight(walks in prop::collection::vec((0..2_usize, 0..5_usize, any::<bool>()), 0..200)) {
        let telemetry = Telemetry::new(2);
        let meter = telemetry.meter("m", "1");
        let sinks = [telemetry.sink(0), telemetry.sink(1)];
        let mut unfinished = 0;
        for (lane, outcome, routed) in walks {
            sinks[lane].received();
            match Outcome::ALL.get(outcome) {
                Some(&outcome) => sinks[lane].record(&record(routed.then_some(&*meter), outcome, None)),
                None => unfinished += 1,
            }
        }
        prop_assert_eq!(telemetry.totals().in_flight(), unfinished);
    }
}

#[test]
fn a_recorded_walk_shows_in_the_text_under_its_model_stage_and_fault() {
    let telemetry = Telemetry::new(1);
    let meter = telemetry.meter("fraud", "7");
    let sink = telemetry.sink(0);
    sink.received();
    sink.record(&record(Some(&meter), Outcome::Refused, Some(FaultKind::InFlightFull)));
    let took = Duration::from_micros(9);
    sink.batch(&meter, &RunRecord { rows: 5, rows_max: 8, took, succeeded: true });
    let build = BuildFacts { version: "0", commit: "c", profile: "release", ort: "1.31.1".into() };
    let text = telemetry.render(&build, &Gauges::default());
    for line in [
        "flyball_received_total 1",
        r#"flyball_requests_total{model="fraud",version="7",protocol="grpc",outcome="refused"} 1"#,
        r#"flyball_faults_total{model="fraud",version="7",kind="in_flight_full",stage="admit",blame="us"} 1"#,
        r#"flyball_stage_seconds_count{model="fraud",version="7",stage="infer"} 1"#,
        r#"flyball_batch_rows_bucket{model="fraud",version="7",le="8"} 1"#,
        r#"flyball_batch_rows_bucket{model="fraud",version="7",le="4"} 0"#,
        r#"flyball_batch_rows_sum{model="fraud",version="7"} 5"#,
        r#"flyball_batch_room_rows_total{model="fraud",version="7"} 8"#,
    ] {
        assert!(text.lines().any(|have| have == line), "{line}\nnot in\n{text}");
    }
}

#[test]
fn a_model_that_is_loaded_again_goes_on_counting_where_it_was() {
    let telemetry = Telemetry::new(1);
    let sink = telemetry.sink(0);
    for _ in 0..2 {
        let meter = telemetry.meter("fraud", "1");
        sink.received();
        sink.record(&record(Some(&meter), Outcome::Answered, None));
    }
    let build = BuildFacts { version: "0", commit: "c", profile: "release", ort: "1".into() };
    let text = telemetry.render(&build, &Gauges::default());
    let line = r#"flyball_requests_total{model="fraud",version="1",protocol="grpc",outcome="answered"} 2"#;
    assert_eq!(text.lines().filter(|have| *have == line).count(), 1, "{text}");
}

#[test]
fn what_removed_models_counted_stays_in_the_sum() {
    let telemetry = Telemetry::new(1);
    let sink = telemetry.sink(0);
    for number in 0..METERS_MAX + 10 {
        let meter = telemetry.meter(&format!("m{number}"), "1");
        sink.received();
        sink.record(&record(Some(&meter), Outcome::Answered, None));
    }
    let build = BuildFacts { version: "0", commit: "c", profile: "release", ort: "1".into() };
    let text = telemetry.render(&build, &Gauges::default());
    let count = |line: &str| line.rsplit(' ').next().and_then(|count| count.parse::<u64>().ok());
    let lines = text.lines().filter(|line| line.starts_with("flyball_requests_total"));
    assert_eq!(lines.filter_map(count).sum::<u64>(), (METERS_MAX + 10) as u64);
}
