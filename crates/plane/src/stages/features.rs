//! Features: windows over past events, lookups in stores, and values computed from both. Values in memory are read at once; the
//! others are requested concurrently, within the deadline.

use crate::decision_walk::DecisionWalk;
use crate::plan::{Attempt, Plan};
use crate::remedies::remedy;
use crate::row_buffers::{Progress, RowBuffers, RowState, yield_between_rows};
use crate::{Decision, Lane};
use flyball_core::{Fault, FaultKind, Nanos, Scalar, Sink, Stage, WindowOp};
use flyball_decision::{
    CompiledReaction, FeatureFact, FeatureFrom, FeaturePlan, KeyBuffer, Origin, Program, Remedies, Remedy,
    Rows,
};
use flyball_features::{Event, Lookup, LookupError, WindowValue, Windowed};
use futures_util::future::join_all;
use std::time::Duration;

/// Maximum concurrent lookups of one request: a long list must not use up its lane's.
const ASKED_MAX: usize = 256;

/// A request's wall time, the deadline for its features, and the kind of its event.
#[derive(Clone, Copy)]
struct Occasion {
    unix_ms: i64,
    deadline: Option<Nanos>,
    event: EventIs,
}

/// How windows treat a request's event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EventIs {
    New,
    /// An earlier attempt may have added it, so it is a past event now.
    ///
    /// A window that excludes the current event still counts it, if a retry under the same key reads that window for the
    /// first time: one event too many, for as long as it is within the window. A window cannot identify the added event.
    Counted,
    /// An offline row is not a real event: features that it does not contain are not looked up.
    Unreal,
}

/// The result of reading one feature of one row.
enum Found {
    /// Its key is missing.
    NoKey,
    /// An offline row does not contain it.
    NotGiven,
    /// The deadline passed before the request was sent.
    NoTime,
    Record(Lookup),
    Window(Windowed),
}

impl<S: Sink> DecisionWalk<'_, S> {
    /// Reads the features that this attempt needs. Rows without a required feature fail.
    pub(crate) async fn features(&mut self, plan: &Plan<'_>) {
        let remedies = &self.decision.program.remedies;
        let which = self.buffers.rows_where(|state| match plan.attempt {
            Attempt::First => reads_features(state, remedies),
            Attempt::Second => lacks_features(state),
        });
        if !which.is_empty() {
            self.read_features(&which, plan.deadline).await;
        }
        self.buffers.done_with(which);
    }

    async fn read_features(&mut self, which: &[usize], deadline: Option<Nanos>) {
        let event = match (self.lane.plane.services.offline, self.counted) {
            (true, _) => EventIs::Unreal,
            (false, true) => EventIs::Counted,
            (false, false) => EventIs::New,
        };
        let occasion = Occasion { unix_ms: self.unix_ms, deadline, event };
        let before = self.counted;
        // Before the first await: if the client hangs up meanwhile, its event may have been counted.
        self.count_as(before || event == EventIs::New);
        let written = find_features(self.lane, self.decision, &mut self.buffers, which, occasion).await;
        self.count_as(before || written);
    }

    fn count_as(&mut self, counted: bool) {
        self.counted = counted;
        if let Some(claim) = &mut self.claim {
            claim.counted = counted;
        }
    }
}

/// Open rows, and failed rows whose remedy reads features. A row that violates the schema is not an event.
fn reads_features(state: &RowState, remedies: &Remedies) -> bool {
    match &state.progress {
        Progress::Open => true,
        Progress::Decided { .. } => false,
        Progress::Failed(fault) => {
            fault.kind != FaultKind::FieldsInvalid
                && matches!(remedy(remedies, fault.kind), Remedy::Rules | Remedy::Retry | Remedy::Previous)
        }
    }
}

/// Rows of a second attempt that failed because of a missing feature.
fn lacks_features(state: &RowState) -> bool {
    let cause = state.remedy.as_ref().map(|remedied| remedied.cause);
    state.open() && cause == Some(FaultKind::FeatureUnavailable)
}

/// Reads the features of these rows that are not known yet. A row without a required feature fails; the others go on.
/// Returns whether any window may have been written.
async fn find_features<S: Sink>(
    lane: &Lane<S>,
    decision: &Decision<S::Model>,
    buffers: &mut RowBuffers,
    which: &[usize],
    occasion: Occasion,
) -> bool {
    let asked = Asked { lane, decision, occasion };
    let mut written = false;
    let mut later: Vec<(usize, usize)> = Vec::new();
    for (done, &row) in which.iter().enumerate() {
        yield_between_rows(done).await;
        for (feature, plan) in decision.program.features.iter().enumerate() {
            if known(buffers.rows.fact(row, feature).origin) {
                continue;
            }
            match asked.available(plan, feature, &buffers.rows, row) {
                Some(found) => {
                    // An embedded window counted the event.
                    written |= matches!(found, Found::Window(_));
                    settle(&decision.program, buffers, row, feature, &found);
                }
                None if computed(plan) => {}
                None => later.push((row, feature)),
            }
        }
    }
    for some in later.chunks(ASKED_MAX) {
        let rows = &buffers.rows;
        let answers = join_all(some.iter().map(|&(row, feature)| asked.ask(feature, rows, row))).await;
        for (&(row, feature), found) in some.iter().zip(answers) {
            written |= sent(&found);
            settle(&decision.program, buffers, row, feature, &found);
        }
    }
    compute(&decision.program, buffers, which).await;
    written && occasion.event == EventIs::New
}

/// Whether a value is final. A declared default is not: the second attempt may find the feature.
fn known(origin: Origin) -> bool {
    !matches!(origin, Origin::None | Origin::Declared)
}

/// Whether a shared window may have received the event.
fn sent(found: &Found) -> bool {
    let unsent = |windowed: &Windowed| {
        matches!(windowed, Windowed::Failed { why: LookupError::Down | LookupError::Busy })
    };
    matches!(found, Found::Window(windowed) if !unsent(windowed))
}

fn computed(plan: &FeaturePlan) -> bool {
    matches!(plan.from, FeatureFrom::Compute(_))
}

/// Computes features in document order: each may use those before it.
async fn compute(program: &Program, buffers: &mut RowBuffers, which: &[usize]) {
    for (done, &row) in which.iter().enumerate() {
        yield_between_rows(done).await;
        for (feature, plan) in program.features.iter().enumerate().filter(|(_, plan)| computed(plan)) {
            let given = buffers.rows.fact(row, feature).origin == Origin::Given;
            if !given && !program.compute(&mut buffers.rows, row, feature) {
                fail(buffers, row, plan, "it cannot be computed from the other values");
            }
        }
    }
}

struct Asked<'a, S: Sink> {
    lane: &'a Lane<S>,
    decision: &'a Decision<S::Model>,
    occasion: Occasion,
}

impl<S: Sink> Asked<'_, S> {
    /// A feature that is available without a wait; none if it must be requested or computed.
    fn available(&self, plan: &FeaturePlan, feature: usize, rows: &Rows, row: usize) -> Option<Found> {
        let mut buffers = [KeyBuffer::new(), KeyBuffer::new()];
        match &plan.from {
            FeatureFrom::Compute(_) => None,
            _ if self.occasion.event == EventIs::Unreal => Some(Found::NotGiven),
            FeatureFrom::Lookup { source, key, .. } => {
                let Some(key) = key.text(rows, row, &mut buffers[0]) else { return Some(Found::NoKey) };
                let source = self.decision.sources.get(*source)?;
                self.lane.services.features.lookup_cached(source, key).map(Found::Record)
            }
            FeatureFrom::Window { .. } => {
                let Some(event) = self.event(plan, rows, row, &mut buffers) else {
                    return Some(Found::NoKey);
                };
                let window = self.decision.windows.get(feature)?.as_ref()?;
                self.lane.services.features.window_embedded(window, event).map(Found::Window)
            }
        }
    }

    /// Requests a feature from a store, or from a window that several replicas share.
    async fn ask(&self, feature: usize, rows: &Rows, row: usize) -> Found {
        let plan = &self.decision.program.features[feature];
        let mut buffers = [KeyBuffer::new(), KeyBuffer::new()];
        let (features, deadline) = (&self.lane.services.features, self.occasion.deadline);
        match &plan.from {
            FeatureFrom::Lookup { source, key, .. } => {
                let key = key.text(rows, row, &mut buffers[0]);
                match key.zip(self.decision.sources.get(*source)) {
                    Some((key, source)) => Found::Record(features.lookup(source, key, deadline).await),
                    None => Found::NoKey,
                }
            }
            FeatureFrom::Window { .. } => {
                let window = self.decision.windows.get(feature).and_then(Option::as_ref);
                match self.event(plan, rows, row, &mut buffers).zip(window) {
                    Some(_) if deadline.is_some_and(|deadline| deadline <= self.lane.now()) => Found::NoTime,
                    Some((event, window)) => Found::Window(features.window(window, event, deadline).await),
                    None => Found::NoKey,
                }
            }
            FeatureFrom::Compute(_) => Found::NoKey,
        }
    }

    fn event<'r>(
        &self,
        plan: &'r FeaturePlan,
        rows: &'r Rows,
        row: usize,
        buffers: &'r mut [KeyBuffer; 2],
    ) -> Option<Event<'r>> {
        let at_ms = self.decision.program.event_ms(rows, row).unwrap_or(self.occasion.unix_ms);
        let event = window_event(plan, rows, row, at_ms, buffers)?;
        Some(Event {
            current: event.current && self.occasion.event != EventIs::Counted,
            write: self.occasion.event == EventIs::New,
            ..event
        })
    }
}

/// A row as a window's event; none if its key is missing or the feature is not a window.
pub(crate) fn window_event<'r>(
    plan: &'r FeaturePlan,
    rows: &'r Rows,
    row: usize,
    at_ms: i64,
    [of_text, by_text]: &'r mut [KeyBuffer; 2],
) -> Option<Event<'r>> {
    let FeatureFrom::Window { op, of, by, current, .. } = &plan.from else { return None };
    let number = || of.as_ref()?.number(rows, row).map(WindowValue::Number);
    let value = match op {
        WindowOp::Count => None,
        WindowOp::Sum | WindowOp::Mean => number(),
        WindowOp::Distinct => {
            of.as_ref().and_then(|of| of.text(rows, row, of_text)).map(WindowValue::Text).or_else(number)
        }
    };
    let (key, value) = (by.text(rows, row, by_text)?, value.unwrap_or(WindowValue::None));
    Some(Event { key, at_ms, value, current: *current, write: true })
}

/// Sets a feature to the value that was found, or applies the declared reaction.
fn settle(program: &Program, buffers: &mut RowBuffers, row: usize, feature: usize, found: &Found) {
    let plan = &program.features[feature];
    let rows = &mut buffers.rows;
    let (reaction, why) = match value_of(plan, found) {
        Ok((value, fact)) if program.put(rows, row, feature, value, fact) => return,
        Ok(_) => (&plan.on_error, "its value has the wrong type"),
        Err(absence) => absence,
    };
    if !program.react(rows, row, feature, reaction) {
        fail(buffers, row, plan, why);
    }
}

/// A feature's value, or the declared reaction to its absence and why it is absent.
type FoundValue<'f> = Result<(Scalar<'f>, FeatureFact), (&'f CompiledReaction, &'static str)>;

fn value_of<'f>(plan: &'f FeaturePlan, found: &'f Found) -> FoundValue<'f> {
    match found {
        Found::NoKey => Err((&plan.on_missing, "its key is missing")),
        Found::NotGiven => Err((&plan.on_missing, "the row does not contain it")),
        Found::NoTime => Err((&plan.on_error, LookupError::Timeout.label())),
        Found::Window(Windowed::Value { value, .. }) => {
            Ok((Scalar::Float(*value), FeatureFact { origin: Origin::Window, age_ms: None }))
        }
        Found::Window(Windowed::Failed { why }) => Err((&plan.on_error, why.label())),
        Found::Window(_) => Err((&plan.on_missing, "its window has not run for its full length")),
        Found::Record(lookup) => looked_up(plan, lookup),
    }
}

fn looked_up<'f>(plan: &'f FeaturePlan, lookup: &'f Lookup) -> FoundValue<'f> {
    let missing = (&plan.on_missing, "its source has no value");
    let too_old = |age: Duration| plan.max_age_ms.is_some_and(|max| age > Duration::from_millis(max));
    let (record, age, origin) = match lookup {
        Lookup::Absent => return Err(missing),
        Lookup::Found { record, age, .. } if too_old(*age) => (record, *age, Origin::Stale),
        Lookup::Found { record, age, from_cache: true } => (record, *age, Origin::Cache),
        Lookup::Found { record, age, from_cache: false } => (record, *age, Origin::Source),
        Lookup::Failed { stale: Some((record, age)), .. } if plan.on_error == CompiledReaction::UseStale => {
            (record, *age, Origin::Stale)
        }
        Lookup::Failed { why, .. } => return Err((&plan.on_error, why.label())),
    };
    let FeatureFrom::Lookup { field, .. } = &plan.from else { return Err(missing) };
    let value = record.get(field).ok_or(missing)?;
    let found = matches!(lookup, Lookup::Found { .. });
    if found && origin == Origin::Stale && plan.on_stale != CompiledReaction::UseStale {
        return Err((&plan.on_stale, "its last known value is too old"));
    }
    Ok((value, FeatureFact { origin, age_ms: Some(u32::try_from(age.as_millis()).unwrap_or(u32::MAX)) }))
}

/// Fails an open row. A row that failed before goes on to its remedy without the feature.
fn fail(buffers: &mut RowBuffers, row: usize, plan: &FeaturePlan, why: &str) {
    if buffers.states[row].open() {
        let text = format!("feature '{}' is missing: {why}; try again, or check its source", plan.name);
        buffers.states[row].progress =
            Progress::Failed(Fault::new(FaultKind::FeatureUnavailable, Stage::Features, text));
    }
}
