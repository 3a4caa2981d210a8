//! Finds the deployment, version and variant for a request, on every transport. Lookups are pure functions of the routes, the
//! caller's access, the name and the number drawn for the request.
//!
//! A name that a caller may not see is answered like an unknown one. A model that serves a decision is reached only through
//! that decision, unless its document says `expose: tensors`.

use crate::decision_walk::DecisionWalk;
use crate::row_buffers::{Progress, RowState};
use crate::{Decision, Deployment, Model, Routes};
use flyball_core::{Access, Fault, FaultKind, ModelRef, Sink, Stage, Verb, triton_texts};
use flyball_decision::{ChosenRoute, Expose, unit};
use std::sync::Arc;

/// Maximum names of other deployments in one error.
const NAMED_MAX: usize = 8;

/// The version that the caller names, or the deployment's default, of a model that accepts tensors.
pub fn route<M>(routes: &Routes<M>, access: &Access, wanted: &ModelRef) -> Result<Arc<Model<M>>, Fault> {
    version(exposed(routes, access, &wanted.name)?, wanted)
}

/// The same for any deployment that the caller may see, for readiness checks.
pub fn ready<M>(routes: &Routes<M>, access: &Access, wanted: &ModelRef) -> Result<Arc<Model<M>>, Fault> {
    version(visible(routes, access, &wanted.name)?, wanted)
}

/// A deployment whose models accept tensors.
pub fn exposed<'r, M>(
    routes: &'r Routes<M>,
    access: &Access,
    name: &str,
) -> Result<&'r Arc<Deployment<M>>, Fault> {
    let deployment = visible(routes, access, name)?;
    match &deployment.decision {
        Some(decision) if decision.program.expose != Some(Expose::Tensors) => {
            let text = format!(
                "model '{name}' serves decision '{name}'; call POST /v1/decisions/{name}, or set 'expose: tensors' in its \
                 spec"
            );
            Err(Fault::new(FaultKind::Forbidden, Stage::Route, text))
        }
        _ => Ok(deployment),
    }
}

fn visible<'r, M>(
    routes: &'r Routes<M>,
    access: &Access,
    name: &str,
) -> Result<&'r Arc<Deployment<M>>, Fault> {
    let words = Words {
        unknown: (FaultKind::ModelNotFound, triton_texts::unknown_model),
        not_ready: triton_texts::no_versions,
    };
    look_up(routes, access, name, &words, |_| true)
}

/// How the refusals of a name start.
struct Words {
    unknown: (FaultKind, fn(&str) -> String),
    not_ready: fn(&str) -> String,
}

/// A deployment that the caller may see. `of` selects those that an error names instead.
fn look_up<'r, M>(
    routes: &'r Routes<M>,
    access: &Access,
    name: &str,
    words: &Words,
    of: impl Fn(&Deployment<M>) -> bool,
) -> Result<&'r Arc<Deployment<M>>, Fault> {
    let fault = |kind, text: String| Err(Fault::new(kind, Stage::Route, text));
    let seen = access.sees(name);
    match (routes.get(name).filter(|_| seen), routes.absence(name).filter(|_| seen)) {
        (Some(deployment), _) => Ok(deployment),
        (None, Some(absence)) if absence.reason.is_empty() => {
            let (kind, unknown) = words.unknown;
            fault(
                kind,
                format!("{}; it is not loaded: POST /v2/repository/models/{name}/load", unknown(name)),
            )
        }
        (None, Some(absence)) => {
            let not_ready = (words.not_ready)(name);
            fault(FaultKind::ModelNotReady, format!("{not_ready}: {}", absence.reason))
        }
        (None, None) => {
            let (kind, unknown) = words.unknown;
            fault(kind, format!("{}{}", unknown(name), others(routes, access, of)))
        }
    }
}

/// The serving names that the caller may see.
fn others<M>(routes: &Routes<M>, access: &Access, of: impl Fn(&Deployment<M>) -> bool) -> String {
    let seen = routes.deployments().filter(|deployment| access.sees(&deployment.name) && of(deployment));
    let mut names: Vec<_> = seen.map(|deployment| deployment.name.as_str()).collect();
    names.sort_unstable();
    match names.len().saturating_sub(NAMED_MAX) {
        _ if names.is_empty() => String::new(),
        0 => format!("; serving: {}", names.join(", ")),
        more => format!("; serving: {} and {more} more", names[..NAMED_MAX].join(", ")),
    }
}

fn version<M>(deployment: &Deployment<M>, wanted: &ModelRef) -> Result<Arc<Model<M>>, Fault> {
    let version = wanted.version.as_deref().unwrap_or(&deployment.route);
    deployment.version(version).map(Arc::clone).ok_or_else(|| {
        let have: Vec<_> = deployment.versions.iter().map(|model| &*model.version).collect();
        let unknown = triton_texts::unknown_version(&wanted.name, version);
        let text = format!("{unknown}; it has {}", have.join(", "));
        Fault::new(FaultKind::VersionNotFound, Stage::Route, text)
    })
}

/// The model that runs a request's tensors.
pub struct TensorTarget<M> {
    pub(crate) model: Arc<Model<M>>,
    /// The decision that it serves, which records these calls.
    pub(crate) decision: Option<Arc<Decision<M>>>,
}

/// The model that runs a request's tensors: the version that the caller names, the candidate if `draw` falls into its share,
/// or the deployment's default version.
pub(crate) fn tensor_target<M>(
    routes: &Routes<M>,
    access: &Access,
    wanted: &ModelRef,
    draw: u64,
) -> Result<TensorTarget<M>, Fault> {
    let deployment = exposed(routes, access, &wanted.name)?;
    access.require(Verb::Infer, &wanted.name)?;
    let model = match deployment.trial.as_ref().filter(|_| wanted.version.is_none()) {
        // Requests for models have no key that could fix their variant: each is drawn anew.
        Some(trial) if unit(draw) < trial.share => Arc::clone(&trial.model),
        _ => version(deployment, wanted)?,
    };
    Ok(TensorTarget { model, decision: deployment.decision.clone() })
}

/// The decision of that name, if the caller may request decisions.
pub(crate) fn decision_target<M>(
    routes: &Routes<M>,
    access: &Access,
    name: &str,
) -> Result<Arc<Decision<M>>, Fault> {
    let found = find_decision(routes, access, name)?;
    access.require(Verb::Decide, &found.name).map(|()| found)
}

/// The decision of that name, if the caller may see it.
pub fn find_decision<M>(routes: &Routes<M>, access: &Access, name: &str) -> Result<Arc<Decision<M>>, Fault> {
    let unknown = FaultKind::DecisionNotFound;
    let words = Words {
        unknown: (unknown, |name| format!("unknown decision '{name}'")),
        not_ready: |name| format!("decision '{name}' is not served"),
    };
    let decides = |deployment: &Deployment<M>| deployment.decision.is_some();
    let deployment = look_up(routes, access, name, &words, decides)?;
    deployment.decision.clone().ok_or_else(|| {
        let text = format!("'{name}' is a model without a decision; ask it by /v2/models/{name}/infer");
        Fault::new(unknown, Stage::Route, text)
    })
}

impl<S: Sink> DecisionWalk<'_, S> {
    /// Assigns an id and a variant to each row. Rows that violate the schema fail.
    pub(crate) fn route(&mut self) {
        let (program, buffers, random) =
            (&self.decision.program, &mut *self.buffers, &self.lane.services.random);
        program.begin_scores(&buffers.rows, &mut buffers.scores);
        buffers.runs.begin(buffers.rows.len(), program.models.len());
        buffers.states.clear();
        for row in 0..buffers.rows.len() {
            let progress = if buffers.rows.sound(row) {
                Progress::Open
            } else {
                let faults = buffers.rows.faults(row).cloned().collect();
                Progress::Failed(Fault::fields_invalid(Stage::Parse, faults))
            };
            let variant = match buffers.rows.route(row) {
                Some(ChosenRoute::Variant(variant)) => variant,
                _ => program.route.choose(&buffers.rows, row, random.draw()),
            };
            buffers.states.push(RowState::new(random.id(self.unix_ms), variant, progress));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trial;
    use crate::testing::{AddOne, Made};
    use flyball_core::Digest;

    fn routes(share: f64) -> Routes<()> {
        let version = |number: &str| Made::usual().version(number, |_| Box::new(AddOne::default()));
        let versions = vec![version("1"), version("2")];
        let trial = Some(Trial { model: Arc::clone(&versions[1]), share });
        let mut routes = Routes::default();
        let deployment = Made::usual().deployment("m", Digest::of(b"m"));
        routes.serve(Arc::new(Deployment { versions, trial, ..deployment }));
        routes
    }

    fn answered_by(routes: &Routes<()>, version: Option<&str>, draw: u64) -> String {
        let wanted = ModelRef { name: "m".into(), version: version.map(Into::into) };
        tensor_target(routes, &Access::default(), &wanted, draw).unwrap().model.version.to_string()
    }

    #[test]
    fn a_draw_below_the_share_is_the_candidates_and_one_at_it_is_not() {
        let routes = routes(0.25);
        let quarter = 1_u64 << 62;
        assert_eq!(answered_by(&routes, None, 0), "2");
        assert_eq!(answered_by(&routes, None, quarter - 2048), "2");
        assert_eq!(answered_by(&routes, None, quarter), "1");
        assert_eq!(answered_by(&routes, None, u64::MAX), "1");
    }

    #[test]
    fn who_names_a_version_gets_it_whatever_is_drawn() {
        for draw in [0, u64::MAX] {
            assert_eq!(answered_by(&routes(0.5), Some("1"), draw), "1");
            assert_eq!(answered_by(&routes(0.5), Some("2"), draw), "2");
        }
    }

    #[test]
    fn a_share_of_none_and_of_all_are_just_that() {
        assert_eq!(answered_by(&routes(0.0), None, 0), "1");
        assert_eq!(answered_by(&routes(1.0), None, u64::MAX), "2");
    }
}
