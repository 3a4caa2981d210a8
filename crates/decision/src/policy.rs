//! The policy: from a row and its score to an outcome.
//!
//! Guards decide whether there is a decision at all; rules and bands each give an outcome, and the most
//! severe wins. Compiling reports all faults at once; evaluating allocates nothing. Must not know the source
//! of the score or the use of the outcome.

mod bands;
mod expr;
mod guards;
mod outcomes;
mod rules;
#[cfg(test)]
mod tests;

pub use expr::{Computed, EXPRESSION_BYTES_MAX, Expr, ExprFault};
pub use guards::GuardFault;
pub use rules::Fired;

use crate::document::{PolicyDocument, ReasonsDocument};
use crate::faults::Faults;
use crate::names::Names;
use crate::nearest::did_you_mean;
use crate::rows::Rows;
use bands::Bands;
use flyball_core::Reason;
use guards::Guards;
use outcomes::Outcomes;
use rules::Rules;
use std::sync::Arc;

pub(crate) const NO_SCORE: &str = "there is no score: the decision has no model";
const SEGMENTS_MAX: usize = 100;
const REASONS_MOST: u32 = 64;

#[derive(Clone, Debug)]
pub struct Policy {
    guards: Guards,
    rules: Rules,
    /// The last segment has no condition and matches everything else.
    segments: Vec<Segment>,
    outcomes: Outcomes,
    kill_switch: Option<KillSwitch>,
    pub reasons: ReasonsDocument,
    /// Evaluated in the background, and never in the response.
    pub shadow: Option<Box<Policy>>,
}

#[derive(Clone, Debug)]
struct Segment {
    /// The condition and its text; none: always true.
    when: Option<(Expr, String)>,
    bands: Bands,
    /// The index of its first band among the bands of all segments.
    first: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct KillSwitch {
    pub outcome: usize,
    pub reason: Reason,
}

/// The result of evaluating a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// See `Policy::outcome` for its name.
    pub outcome: usize,
    /// None without a score.
    pub band: Option<usize>,
    pub fired: Fired,
}

impl Policy {
    pub fn compile(document: &PolicyDocument, names: &Names, faults: &mut Faults) -> Option<Policy> {
        let before = faults.0.len();
        let mut policy = compiled(document, "policy", names, faults);
        policy.shadow = document.shadow.as_ref().map(|shadow| {
            if shadow.shadow.is_some() {
                faults.tell("policy.shadow.shadow", "a shadow cannot have a shadow; remove it");
            }
            Box::new(compiled(shadow, "policy.shadow", names, faults))
        });
        (faults.0.len() == before).then_some(policy)
    }

    /// While set, every decision has its outcome and no model runs.
    pub fn kill_switch(&self) -> Option<&KillSwitch> {
        self.kill_switch.as_ref()
    }

    /// Checks that every field and feature is in its guard's range.
    pub fn inputs_guarded(&self, rows: &Rows, row: usize) -> Result<(), GuardFault> {
        self.guards.inputs(rows, row)
    }

    /// Evaluates a row. Without a score, the rules alone decide.
    pub fn evaluate(&self, rows: &Rows, row: usize, score: Option<f64>) -> Result<Verdict, GuardFault> {
        let mut banded = None;
        if let Some(score) = score {
            self.guards.score(score)?;
            banded = Some(self.band_of(rows, row, score));
        }
        let ruled = self.rules.evaluate(rows, row, score);
        let outcome = match (banded, ruled.outcome) {
            (_, Some(outcome)) if ruled.is_final => outcome,
            (Some((_, least)), outcome) => outcome.map_or(least, |outcome| outcome.max(least)),
            (None, outcome) => outcome.unwrap_or_else(|| self.outcomes.undecided()),
        };
        Ok(Verdict { outcome, band: banded.map(|(band, _)| band), fired: ruled.fired })
    }

    /// The band's number and outcome.
    fn band_of(&self, rows: &Rows, row: usize, score: f64) -> (usize, usize) {
        let holds = |segment: &&Segment| {
            segment.when.as_ref().is_none_or(|(when, _)| when.holds(rows, row, None) == Some(true))
        };
        let segment = self.segments.iter().find(holds).expect("the last segment always matches");
        let place = segment.bands.place(score);
        (segment.first + place, segment.bands.bands[place].outcome)
    }

    pub fn outcome(&self, outcome: usize) -> &Arc<str> {
        self.outcomes.name(outcome)
    }

    /// Whether an outcome requires reasons.
    pub fn adverse(&self, outcome: usize) -> bool {
        self.outcomes.is_adverse(outcome)
    }

    pub fn band(&self, band: usize) -> &Arc<str> {
        &self.band_at(band).name
    }

    /// The outcome of a band if no rule changes it.
    pub fn band_outcome(&self, band: usize) -> usize {
        self.band_at(band).outcome
    }

    fn band_at(&self, band: usize) -> &bands::Band {
        let of =
            |segment: &&Segment| (segment.first..segment.first + segment.bands.bands.len()).contains(&band);
        let segment = self.segments.iter().find(of).expect("a band of this policy");
        &segment.bands.bands[band - segment.first]
    }

    /// The reason of a fired rule, if it has one.
    pub fn rule_reason(&self, rule: u16) -> Option<&Reason> {
        self.rules.reason(rule)
    }

    /// The policy in words for `flyball plan`, written for a risk officer.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(KillSwitch { outcome, reason }) = &self.kill_switch {
            let outcome = self.outcome(*outcome);
            lines.push(format!("kill switch is set: everything is {outcome}, because {}", reason.code));
        }
        lines.push(format!("outcomes, from mild to severe: {}", self.outcomes.line()));
        lines.extend(self.guards.lines());
        lines.extend_from_slice(self.rules.lines());
        for segment in &self.segments {
            let when = match &segment.when {
                Some((_, when)) => format!("where {when}, "),
                None if self.segments.len() > 1 => "everywhere else, ".to_owned(),
                None => String::new(),
            };
            lines.extend(segment.bands.lines(&self.outcomes).into_iter().map(|band| format!("{when}{band}")));
        }
        for line in self.shadow.iter().flat_map(|shadow| shadow.describe()) {
            lines.push(format!("shadow: {line}"));
        }
        lines
    }
}

/// Compiles a policy without its shadow. With faults, the result must not be used.
fn compiled(document: &PolicyDocument, path: &str, names: &Names, faults: &mut Faults) -> Policy {
    let outcomes = Outcomes::compile(&document.outcomes, &document.adverse, path, faults);
    let guards = Guards::compile(&document.guards, path, names, faults);
    let rules = Rules::compile(&document.rules, path, names, &outcomes, &document.reasons, faults);
    let kill_switch = document.kill_switch.as_ref().and_then(|switch| {
        let outcome = outcomes.find(&switch.outcome, &format!("{path}.kill_switch.outcome"), faults)?;
        Some(KillSwitch { outcome, reason: rules::reason(&switch.reason, &document.reasons) })
    });
    check_reasons(&document.reasons, path, names, faults);
    let segments = segments(document, path, names, &outcomes, &guards, faults);
    let reasons = document.reasons.clone();
    Policy { guards, rules, segments, outcomes, kill_switch, reasons, shadow: None }
}

fn segments(
    document: &PolicyDocument,
    path: &str,
    names: &Names,
    outcomes: &Outcomes,
    guards: &Guards,
    faults: &mut Faults,
) -> Vec<Segment> {
    if document.segments.len() > SEGMENTS_MAX {
        let allowed = format!("at most {SEGMENTS_MAX} segments");
        faults.add(format!("{path}.segments"), document.segments.len(), allowed);
    }
    if names.unscored {
        for (key, count) in [("bands", document.bands.len()), ("segments", document.segments.len())] {
            if count > 0 {
                faults.add(format!("{path}.{key}"), count, format!("none: {NO_SCORE}"));
            }
        }
        return Vec::new();
    }
    let mut segments: Vec<Segment> = Vec::with_capacity(document.segments.len() + 1);
    let mut first = 0;
    for (place, segment) in document.segments.iter().enumerate().take(SEGMENTS_MAX) {
        let own = format!("{path}.segments[{place}]");
        let when = rules::condition(Expr::compile(&segment.when, names), &format!("{own}.when"), faults);
        let bands = Bands::compile(&segment.bands, &format!("{own}.bands"), outcomes, guards.range(), faults);
        if let (Some(when), Some(bands)) = (when, bands) {
            let count = bands.bands.len();
            segments.push(Segment { when: Some((when, segment.when.trim().to_owned())), bands, first });
            first += count;
        }
    }
    if let Some(bands) =
        Bands::compile(&document.bands, &format!("{path}.bands"), outcomes, guards.range(), faults)
    {
        segments.push(Segment { when: None, bands, first });
    }
    segments
}

fn check_reasons(reasons: &ReasonsDocument, path: &str, names: &Names, faults: &mut Faults) {
    if reasons.most > REASONS_MOST {
        faults.add(format!("{path}.reasons.most"), reasons.most, format!("0 to {REASONS_MOST}"));
    }
    for name in reasons.codes.keys().filter(|name| !names.has_reasons(name)) {
        let near = did_you_mean(name, names.all());
        faults.tell(
            format!("{path}.reasons.codes.{name}"),
            format!("'{name}' is not a field or feature{near}"),
        );
    }
}
