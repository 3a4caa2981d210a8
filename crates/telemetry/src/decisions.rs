//! Decision counters of lanes: rows by outcome, remedies, repeated rows, and shadows.
//!
//! Every label is from an enum or from the decision's own document, and bounded.

use crate::Counter;
use crate::exposition::Page;
use crate::meters::ModelMeter;
use flyball_core::{DecisionRecord, FaultKind, Remedy, Shadow, Shadowed};
use std::sync::{Arc, OnceLock};

/// Maximum outcomes of a decision over all reloads; further ones are counted together.
const OUTCOMES_MAX: usize = 64;
const OTHER: &str = "other";
/// Score differences are summed in millionths.
const MILLIONTHS: f64 = 1e6;
/// The maximum counted difference: one wild score must not spoil the sum.
const APART_MAX: f64 = 1e6;

/// One lane's counts of one decision. Allocated by the first row: most meters are of models, and need none.
#[derive(Debug, Default)]
pub(crate) struct DecisionLane(OnceLock<Box<Tally>>);

#[derive(Debug)]
struct Tally {
    outcomes: [Counter; OUTCOMES_MAX + 1],
    undecided: Counter,
    remedied: [[Counter; Remedy::ALL.len()]; FaultKind::ALL.len()],
    repeated: Counter,
    shadows: [ShadowTally; 2],
}

#[derive(Debug, Default)]
struct ShadowTally {
    agreed: Counter,
    differed: Counter,
    dropped: Counter,
    failed: Counter,
    apart_millionths: Counter,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            outcomes: std::array::from_fn(|_| Counter::default()),
            undecided: Counter::default(),
            remedied: std::array::from_fn(|_| Default::default()),
            repeated: Counter::default(),
            shadows: Default::default(),
        }
    }
}

impl DecisionLane {
    fn tally(&self) -> &Tally {
        self.0.get_or_init(Box::default)
    }

    pub(crate) fn decided(&self, names: &OutcomeNames, row: &DecisionRecord) {
        let tally = self.tally();
        match row.outcome {
            Some(place) => tally.outcomes[names.slot(place)].add(1),
            None => tally.undecided.add(1),
        }
        if let Some(remedied) = &row.remedy {
            tally.remedied[remedied.cause.index()][remedied.remedy.index()].add(1);
        }
    }

    pub(crate) fn repeated(&self, rows: usize) {
        self.tally().repeated.add(rows as u64);
    }

    pub(crate) fn shadowed(&self, of: Shadow, row: Shadowed) {
        let tally = &self.tally().shadows[of as usize];
        match row {
            Shadowed::Dropped => tally.dropped.add(1),
            Shadowed::Failed => tally.failed.add(1),
            Shadowed::Compared { agrees, apart } => {
                if agrees { &tally.agreed } else { &tally.differed }.add(1);
                tally.apart_millionths.add((apart.abs().clamp(0.0, APART_MAX) * MILLIONTHS) as u64);
            }
        }
    }
}

/// The counter of each outcome. A reload with other outcomes reuses the counters of those that remain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutcomeNames {
    /// By counter, for all outcomes ever.
    counted: Vec<Arc<str>>,
    /// By the outcome's index in the serving decision.
    slots: Vec<usize>,
}

impl OutcomeNames {
    pub(crate) fn after(before: &OutcomeNames, outcomes: &[Arc<str>]) -> OutcomeNames {
        let mut names = OutcomeNames { counted: before.counted.clone(), slots: Vec::new() };
        for outcome in outcomes {
            let known = names.counted.iter().position(|known| known == outcome);
            let slot = known.unwrap_or_else(|| {
                let next = names.counted.len();
                if next < OUTCOMES_MAX {
                    names.counted.push(Arc::clone(outcome));
                }
                next.min(OUTCOMES_MAX)
            });
            names.slots.push(slot);
        }
        names
    }

    fn slot(&self, place: usize) -> usize {
        self.slots.get(place).copied().unwrap_or(OUTCOMES_MAX)
    }
}

pub(crate) fn write(page: &mut Page, meters: &[Arc<ModelMeter>]) {
    let decisions: Vec<_> =
        meters.iter().filter_map(|meter| Some((meter, meter.outcomes.as_ref()?))).collect();
    page.family("flyball_decisions_total", "counter", "rows that were decided, by outcome");
    for (meter, names) in &decisions {
        for (slot, outcome) in names.counted.iter().enumerate() {
            let labels = format!(r#"{},outcome="{}""#, meter.decision_label(), escaped(outcome));
            page.sample("flyball_decisions_total", &labels, meter.sum(|tally| &tally.outcomes[slot]));
        }
        let others = meter.sum(|tally| &tally.outcomes[OUTCOMES_MAX]);
        if others > 0 {
            let labels = format!(r#"{},outcome="{OTHER}""#, meter.decision_label());
            page.sample("flyball_decisions_total", &labels, others);
        }
    }
    let undecided = decisions.iter().map(|(meter, _)| meter.labelled(|tally| &tally.undecided));
    let help = "rows that were invalid or failed";
    page.series("flyball_decision_rows_undecided_total", "counter", help, undecided);
    page.family("flyball_decisions_remedied_total", "counter", "rows for which a remedy was used, by cause");
    for (meter, _) in &decisions {
        write_remedied(page, meter);
    }
    let repeated = decisions.iter().map(|(meter, _)| meter.labelled(|tally| &tally.repeated));
    let help = "rows answered by their idempotency key";
    page.series("flyball_decisions_repeated_total", "counter", help, repeated);
    page.family("flyball_decision_shadow_rows_total", "counter", "rows that were also decided another way");
    for (meter, _) in &decisions {
        write_shadows(page, meter);
    }
    let apart = decisions.iter().map(|(meter, _)| {
        let sum = meter.sum(|tally| &tally.shadows[Shadow::Variant as usize].apart_millionths);
        (meter.decision_label(), sum as f64 / MILLIONTHS)
    });
    let help = "sum of the score differences between shadow variants and the ones that counted";
    page.series("flyball_decision_shadow_apart_total", "counter", help, apart);
}

fn write_remedied(page: &mut Page, meter: &ModelMeter) {
    for (cause, remedy) in
        FaultKind::ALL.into_iter().flat_map(|cause| Remedy::ALL.map(|remedy| (cause, remedy)))
    {
        let count = meter.sum(|tally| &tally.remedied[cause.index()][remedy.index()]);
        if count > 0 {
            let (cause, remedy) = (cause.label(), remedy.label());
            let labels = format!(r#"{},cause="{cause}",remedy="{remedy}""#, meter.decision_label());
            page.sample("flyball_decisions_remedied_total", &labels, count);
        }
    }
}

fn write_shadows(page: &mut Page, meter: &ModelMeter) {
    for (of, what) in [(Shadow::Variant, "variant"), (Shadow::Policy, "policy")] {
        let count = |pick: fn(&ShadowTally) -> &Counter| meter.sum(|tally| pick(&tally.shadows[of as usize]));
        let counts = [
            ("agreed", count(|tally| &tally.agreed)),
            ("differed", count(|tally| &tally.differed)),
            ("dropped", count(|tally| &tally.dropped)),
            ("failed", count(|tally| &tally.failed)),
        ];
        // A decision without a shadow has no such series.
        if counts.iter().any(|(_, count)| *count > 0) {
            for (result, count) in counts {
                let labels = format!(r#"{},shadow="{what}",result="{result}""#, meter.decision_label());
                page.sample("flyball_decision_shadow_rows_total", &labels, count);
            }
        }
    }
}

impl ModelMeter {
    fn decision_label(&self) -> String {
        format!(r#"decision="{}""#, self.name)
    }

    fn labelled(&self, pick: impl Fn(&Tally) -> &Counter) -> (String, u64) {
        (self.decision_label(), self.sum(pick))
    }

    fn sum(&self, pick: impl Fn(&Tally) -> &Counter) -> u64 {
        let tallies = self.lanes.iter().filter_map(|lane| lane.decision.0.get());
        tallies.map(|tally| pick(tally).get()).fold(0, u64::saturating_add)
    }
}

/// Outcomes are free text of their author.
fn escaped(text: &str) -> String {
    text.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BuildFacts, Gauges, Telemetry};
    use flyball_core::{Meters, Remedied, Sink, Stage};

    fn outcomes(names: &[&str]) -> Vec<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    fn row(outcome: Option<usize>) -> DecisionRecord {
        DecisionRecord { outcome, remedy: None }
    }

    fn page(telemetry: &Telemetry) -> String {
        let build = BuildFacts { version: "0", commit: "c", profile: "release", ort: "1".into() };
        telemetry.render(&build, &Gauges::default())
    }

    fn assert_has(text: &str, lines: &[&str]) {
        for line in lines {
            assert!(text.lines().any(|have| have == *line), "{line}\nnot in\n{text}");
        }
    }

    #[test]
    fn rows_of_all_lanes_show_by_outcome_remedy_and_shadow() {
        let telemetry = Telemetry::new(2);
        let meter = telemetry.decision("card", &outcomes(&["pass", "re\"view"]));
        let sinks = [telemetry.sink(0), telemetry.sink(1)];
        sinks[0].decided(&meter, &row(Some(0)));
        sinks[1].decided(&meter, &row(Some(0)));
        let remedied =
            Remedied { cause: FaultKind::DeadlinePassed, stage: Stage::Queue, remedy: Remedy::Rules };
        sinks[1].decided(&meter, &DecisionRecord { outcome: Some(1), remedy: Some(remedied) });
        sinks[0].decided(&meter, &row(None));
        sinks[0].repeated(&meter, 3);
        sinks[0].shadowed(&meter, Shadow::Variant, Shadowed::Compared { agrees: false, apart: -0.25 });
        sinks[1].shadowed(&meter, Shadow::Variant, Shadowed::Dropped);
        let text = page(&telemetry);
        assert_has(
            &text,
            &[
                r#"flyball_decisions_total{decision="card",outcome="pass"} 2"#,
                r#"flyball_decisions_total{decision="card",outcome="re\"view"} 1"#,
                r#"flyball_decision_rows_undecided_total{decision="card"} 1"#,
                r#"flyball_decisions_remedied_total{decision="card",cause="deadline_passed",remedy="rules"} 1"#,
                r#"flyball_decisions_repeated_total{decision="card"} 3"#,
                r#"flyball_decision_shadow_rows_total{decision="card",shadow="variant",result="differed"} 1"#,
                r#"flyball_decision_shadow_rows_total{decision="card",shadow="variant",result="dropped"} 1"#,
                r#"flyball_decision_shadow_apart_total{decision="card"} 0.25"#,
            ],
        );
        assert!(!text.contains(r#"shadow="policy""#));
    }

    #[test]
    fn a_wild_distance_counts_for_a_bounded_one_and_none_for_nothing() {
        let telemetry = Telemetry::new(2);
        let meter = telemetry.decision("card", &outcomes(&["pass"]));
        let sinks = [telemetry.sink(0), telemetry.sink(1)];
        for apart in [f64::INFINITY, f64::NEG_INFINITY, 1e300, f64::NAN, 0.5] {
            for sink in &sinks {
                sink.shadowed(&meter, Shadow::Variant, Shadowed::Compared { agrees: true, apart });
            }
        }
        // Six at the bound, and two halves; a non-finite difference adds nothing.
        assert_has(&page(&telemetry), &[r#"flyball_decision_shadow_apart_total{decision="card"} 6000001"#]);
    }

    #[test]
    fn a_decision_that_is_loaded_with_other_outcomes_goes_on_with_those_that_it_keeps() {
        let telemetry = Telemetry::new(1);
        let sink = telemetry.sink(0);
        let old = telemetry.decision("card", &outcomes(&["pass", "reject"]));
        sink.decided(&old, &row(Some(1)));
        let new = telemetry.decision("card", &outcomes(&["reject", "review"]));
        sink.decided(&new, &row(Some(0)));
        sink.decided(&new, &row(Some(1)));
        // A walk that started before the reload still counts by its own outcomes.
        sink.decided(&old, &row(Some(0)));
        assert_has(
            &page(&telemetry),
            &[
                r#"flyball_decisions_total{decision="card",outcome="pass"} 1"#,
                r#"flyball_decisions_total{decision="card",outcome="reject"} 2"#,
                r#"flyball_decisions_total{decision="card",outcome="review"} 1"#,
            ],
        );
    }

    #[test]
    fn outcomes_beyond_the_bound_are_counted_together_and_none_is_lost() {
        let telemetry = Telemetry::new(1);
        let sink = telemetry.sink(0);
        for round in 0..OUTCOMES_MAX + 5 {
            let meter = telemetry.decision("card", &outcomes(&[&format!("o{round}")]));
            sink.decided(&meter, &row(Some(0)));
        }
        let text = page(&telemetry);
        assert_has(&text, &[r#"flyball_decisions_total{decision="card",outcome="other"} 5"#]);
        let lines = text.lines().filter(|line| line.starts_with("flyball_decisions_total{"));
        assert_eq!(lines.count(), OUTCOMES_MAX + 1);
    }

    #[test]
    fn a_model_without_a_decision_has_no_series_of_one() {
        let telemetry = Telemetry::new(1);
        telemetry.meter("plain", "1");
        assert!(!page(&telemetry).contains("decision=\""));
    }
}
