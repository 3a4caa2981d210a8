//! The Prometheus text format.
//!
//! Label values come from enums or from checked names, so that none needs escaping and the number of series
//! is bounded by what is loaded.

use crate::histogram::Merged;
use crate::meters::{ModelLane, ModelMeter, ROW_BUCKETS, Tally};
use crate::{Counter, Histogram, Telemetry, decisions};
use flyball_core::{FaultKind, Outcome, Protocol, Stage};
use std::borrow::Cow;
use std::fmt::{Display, Write};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

pub struct BuildFacts {
    pub version: &'static str,
    pub commit: &'static str,
    pub profile: &'static str,
    pub ort: String,
}

/// Current values from elsewhere, read for a scrape.
#[derive(Default)]
pub struct Gauges {
    pub connections: usize,
    /// The expected cost of each lane's queued and running work.
    pub backlogs: Vec<Duration>,
    pub ort_log: Vec<(&'static str, u64)>,
    pub families: Vec<Family>,
    pub spreads: Vec<HistogramFamily>,
}

/// Samples of one name, counted elsewhere; each with its formatted labels, or none.
pub struct Family {
    pub name: &'static str,
    pub kind: &'static str,
    pub help: &'static str,
    pub samples: Vec<(Cow<'static, str>, f64)>,
}

/// A histogram counted elsewhere. Without data, only its name is shown.
pub struct HistogramFamily {
    pub name: &'static str,
    pub help: &'static str,
    pub counted: Option<HistogramCounts>,
}

pub struct HistogramCounts {
    /// Upper bounds in seconds, with cumulative counts.
    pub below: Vec<(f64, u64)>,
    pub count: u64,
    pub sum_seconds: f64,
}

impl Telemetry {
    pub fn render(&self, build: &BuildFacts, gauges: &Gauges) -> String {
        let mut page = Page(String::with_capacity(64 * 1024));
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.server(&mut page, build, gauges);
        self.requests(&mut page, &models);
        self.callers(&mut page);
        histograms(&mut page, &models);
        batches(&mut page, &models);
        decisions::write(&mut page, &models);
        page.0
    }

    fn server(&self, page: &mut Page, build: &BuildFacts, gauges: &Gauges) {
        page.family("flyball_build_info", "gauge", "build and runtime versions");
        let BuildFacts { version, commit, profile, ort } = build;
        let labels = format!(r#"version="{version}",commit="{commit}",profile="{profile}",ort="{ort}""#);
        page.sample("flyball_build_info", &labels, 1);
        let totals = self.totals();
        let received = "inference requests whose head was read";
        page.series("flyball_received_total", "counter", received, [(String::new(), totals.received)]);
        let in_flight = "inference requests received and not yet ended";
        page.series("flyball_in_flight", "gauge", in_flight, [(String::new(), totals.in_flight())]);
        page.series(
            "flyball_connections",
            "gauge",
            "open connections",
            [(String::new(), gauges.connections)],
        );
        let by_lane = |(lane, value): (usize, f64)| (format!(r#"lane="{lane}""#), value);
        let busy = self.lanes.iter().map(|lane| lane.busy_ns.get() as f64 / 1e9).enumerate().map(by_lane);
        let help = "time that a lane spent running models";
        page.series("flyball_lane_busy_seconds_total", "counter", help, busy);
        let backlogs = gauges.backlogs.iter().map(Duration::as_secs_f64).enumerate().map(by_lane);
        let help = "expected cost of what a lane has queued and is running";
        page.series("flyball_lane_backlog_seconds", "gauge", help, backlogs);
        let logged = gauges.ort_log.iter();
        let logged = logged.map(|(severity, count)| (format!(r#"severity="{severity}""#), count));
        page.series("flyball_ort_log_total", "counter", "messages that ONNX Runtime wrote", logged);
        for Family { name, kind, help, samples } in &gauges.families {
            page.series(name, kind, help, samples.iter().map(|(labels, value)| (labels, value)));
        }
        gauges.spreads.iter().for_each(|spread| page.spread(spread));
    }

    fn requests(&self, page: &mut Page, models: &[Arc<ModelMeter>]) {
        let unrouted: Vec<&Tally> =
            self.lanes.iter().map(|lane| &lane.unrouted).chain(&self.removed).collect();
        let mut tallies = vec![(labels("", ""), unrouted)];
        for model in models {
            tallies.push((model.labels(), model.lanes.iter().map(|lane| &lane.tally).collect()));
        }
        page.family("flyball_requests_total", "counter", "ended inference requests");
        for (labels, lanes) in &tallies {
            for protocol in Protocol::ALL {
                for outcome in Outcome::ALL {
                    let count: u64 = lanes.iter().map(|tally| tally.requests(protocol, outcome)).sum();
                    let (protocol, outcome) = (protocol.label(), outcome.label());
                    let labels = format!(r#"{labels},protocol="{protocol}",outcome="{outcome}""#);
                    page.sample("flyball_requests_total", &labels, count);
                }
            }
        }
        page.family("flyball_faults_total", "counter", "refused and failed requests by reason");
        for (labels, lanes) in &tallies {
            for (kind, stage) in
                FaultKind::ALL.into_iter().flat_map(|kind| Stage::ALL.map(|stage| (kind, stage)))
            {
                let count: u64 = lanes.iter().map(|tally| tally.faults(kind, stage)).sum();
                if count > 0 {
                    let (kind, stage, blame) = (kind.label(), stage.label(), kind.blame().label());
                    let labels = format!(r#"{labels},kind="{kind}",stage="{stage}",blame="{blame}""#);
                    page.sample("flyball_faults_total", &labels, count);
                }
            }
        }
    }

    fn callers(&self, page: &mut Page) {
        page.family("flyball_caller_requests_total", "counter", "ended inference requests by caller");
        for (caller, counts) in self.caller_counts() {
            for (outcome, count) in Outcome::ALL.iter().zip(counts) {
                let labels = format!(r#"caller="{caller}",outcome="{}""#, outcome.label());
                page.sample("flyball_caller_requests_total", &labels, count);
            }
        }
    }
}

fn histograms(page: &mut Page, models: &[Arc<ModelMeter>]) {
    page.family("flyball_request_seconds", "histogram", "whole walks, from the body's arrival to the reply");
    for model in models {
        page.histogram("flyball_request_seconds", &model.labels(), model, |lane| &lane.total);
    }
    page.family("flyball_stage_seconds", "histogram", "each stage of the walk");
    for model in models {
        for stage in Stage::ALL {
            let labels = format!(r#"{},stage="{}""#, model.labels(), stage.label());
            page.histogram("flyball_stage_seconds", &labels, model, |lane| &lane.stages[stage.index()]);
        }
    }
}

fn batches(page: &mut Page, models: &[Arc<ModelMeter>]) {
    page.family("flyball_batch_rows", "histogram", "rows that shared a run");
    for model in models {
        let at = |place: usize| model.sum_lanes(|lane| &lane.batches[place]);
        let mut below = 0;
        let buckets = (0..ROW_BUCKETS).map(|place| {
            below += at(place);
            (1 << place, below)
        });
        let buckets: Vec<(u64, u64)> = buckets.collect();
        let (count, rows) = (below + at(ROW_BUCKETS), model.sum_lanes(|lane| &lane.rows));
        page.buckets("flyball_batch_rows", &model.labels(), buckets, count, rows);
    }
    let room = models.iter().map(|model| (model.labels(), model.sum_lanes(|lane| &lane.rows_max)));
    let help = "rows that the runs might have carried";
    page.series("flyball_batch_room_rows_total", "counter", help, room);
}

impl ModelMeter {
    fn labels(&self) -> String {
        labels(&self.name, &self.version)
    }

    fn sum_lanes(&self, pick: impl Fn(&ModelLane) -> &Counter) -> u64 {
        self.lanes.iter().map(|lane| pick(lane).get()).sum()
    }
}

pub(crate) fn labels(model: &str, version: &str) -> String {
    format!(r#"model="{model}",version="{version}""#)
}

/// Text under construction. Writing to a string cannot fail, so the results of `write!` are dropped.
#[derive(Default)]
pub(crate) struct Page(pub(crate) String);

impl Page {
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    pub(crate) fn sample(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = if labels.is_empty() {
            writeln!(self.0, "{name} {value}")
        } else {
            writeln!(self.0, "{name}{{{labels}}} {value}")
        };
    }

    /// A family with its samples, each with its formatted labels.
    pub(crate) fn series<L: AsRef<str>, V: Display>(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (L, V)>,
    ) {
        self.family(name, kind, help);
        samples.into_iter().for_each(|(labels, value)| self.sample(name, labels.as_ref(), value));
    }

    fn spread(&mut self, HistogramFamily { name, help, counted }: &HistogramFamily) {
        self.family(name, "histogram", help);
        if let Some(HistogramCounts { below, count, sum_seconds }) = counted {
            self.buckets(name, "", below.iter().copied(), *count, *sum_seconds);
        }
    }

    fn histogram(
        &mut self,
        name: &str,
        labels: &str,
        model: &ModelMeter,
        pick: impl Fn(&ModelLane) -> &Histogram,
    ) {
        let merged = Merged::of(model.lanes.iter().map(pick));
        let edges = merged.used().then(|| merged.edges()).into_iter().flatten();
        self.buckets(name, labels, edges, merged.count(), merged.sum_seconds());
    }

    /// The samples of one histogram: its cumulative buckets, `+Inf`, sum and count.
    fn buckets<E: Display>(
        &mut self,
        name: &str,
        labels: &str,
        below: impl IntoIterator<Item = (E, u64)>,
        count: u64,
        sum: impl Display,
    ) {
        let bucket = format!("{name}_bucket");
        let comma = if labels.is_empty() { "" } else { "," };
        for (edge, below) in below {
            self.sample(&bucket, &format!(r#"{labels}{comma}le="{edge}""#), below);
        }
        self.sample(&bucket, &format!(r#"{labels}{comma}le="+Inf""#), count);
        self.sample(&format!("{name}_sum"), labels, sum);
        self.sample(&format!("{name}_count"), labels, count);
    }
}
