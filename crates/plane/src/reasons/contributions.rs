//! Contributions of fields and features to a score, and the reasons made of them and of rules.

use crate::row_buffers::RowBuffers;
use flyball_core::Reason;
use flyball_decision::{AdverseEnd, ExplainWhen, Explainer, Policy, Program, Verdict, Workspace};
use smallvec::SmallVec;

pub(crate) type Reasons = SmallVec<[Reason; 4]>;

/// Reused memory for computing contributions.
#[derive(Default)]
pub(crate) struct Explaining {
    pub(crate) columns: Vec<f64>,
    pub(crate) contributions: Vec<f64>,
    /// Rows changed by ablation, the changed column of each, and their scores.
    pub(crate) rows: Vec<f64>,
    pub(crate) changed: Vec<u32>,
    pub(crate) scores: Vec<f64>,
    sums: Vec<f64>,
    trees: Workspace,
}

/// The reasons of the kill switch or of fired rules, for any outcome. If a remedy decided, the kill switch did not.
pub(crate) fn of_rules(policy: &Policy, verdict: &Verdict, remedied: bool) -> Reasons {
    if policy.reasons.when == ExplainWhen::Never {
        return Reasons::new();
    }
    let killed = policy.kill_switch().filter(|_| !remedied).map(|killed| &killed.reason);
    let fired = verdict.fired.iter().filter_map(|&rule| policy.rule_reason(rule));
    killed.into_iter().chain(fired).take(policy.reasons.most as usize).cloned().collect()
}

/// Whether the model's reasons are wanted too. If its band alone would not be adverse, the rules decided, and unless asked
/// only they give reasons.
pub(crate) fn wanted(policy: &Policy, asked: bool, verdict: &Verdict) -> bool {
    let adverse = || {
        let banded = verdict.band.is_some_and(|band| policy.adverse(policy.band_outcome(band)));
        policy.adverse(verdict.outcome) && banded
    };
    match policy.reasons.when {
        ExplainWhen::Never => false,
        ExplainWhen::Always => true,
        ExplainWhen::Asked => asked,
        ExplainWhen::Adverse => asked || adverse(),
    }
}

/// Computes each column's contribution to a row's score. False if that requires ablation.
pub(crate) fn contributions(program: &Program, buffers: &mut RowBuffers, model: usize, row: usize) -> bool {
    let RowBuffers { rows, scores, scratch, explaining, .. } = buffers;
    let Explaining { columns, contributions, trees, .. } = explaining;
    program.columns(model, rows, row, scores, scratch, columns);
    contributions.clear();
    contributions.resize(columns.len(), 0.0);
    match &program.models[model].explain {
        Some(Explainer::Trees(of)) => of.contributions(columns, trees, contributions),
        Some(Explainer::Linear(of)) => of.contributions(columns, contributions),
        Some(Explainer::Ablation(_)) => return false,
        None => {}
    }
    true
}

/// Adds a model's contributions to the reasons of the models before it, by field or feature.
pub(crate) fn add(
    program: &Program,
    explaining: &mut Explaining,
    model: usize,
    weight: f64,
    into: &mut Reasons,
) {
    explaining.contributions.iter_mut().for_each(|contribution| *contribution *= weight);
    // A push the other way is not a reason, but it reduces what another model found.
    for end in [AdverseEnd::High, AdverseEnd::Low] {
        let plan = &program.models[model];
        let ranked = plan.reasons.rank(&explaining.contributions, end, usize::MAX, &mut explaining.sums);
        for reason in ranked {
            match into.iter_mut().find(|known| source(known) == source(&reason)) {
                Some(known) => {
                    let more = pushed(&reason);
                    known.contribution.iter_mut().for_each(|(_, sum)| *sum += more);
                }
                None => into.push(reason),
            }
        }
    }
}

/// Keeps the largest that push towards the adverse end; ties in name order.
pub(crate) fn largest(program: &Program, reasons: &mut Reasons, most: usize) {
    let push = |reason: &Reason| match program.adverse_end {
        AdverseEnd::High => pushed(reason),
        AdverseEnd::Low => -pushed(reason),
    };
    reasons.retain(|reason| push(reason) > 0.0);
    reasons.sort_by(|a, b| push(b).total_cmp(&push(a)).then_with(|| source(a).cmp(&source(b))));
    reasons.truncate(most);
}

fn source(reason: &Reason) -> Option<&str> {
    reason.contribution.as_ref().map(|(source, _)| &**source)
}

fn pushed(reason: &Reason) -> f64 {
    reason.contribution.as_ref().map_or(0.0, |(_, by)| *by)
}
