//! What a deployment's candidate comes to: a variant of its decision, or a share of the requests for a model as it is. What
//! cannot be compared with the champion is refused with the deployment.

use crate::stages::route::{exposed, version};
use crate::{Decision, Model, Routes, Tried};
use flyball_core::snapshot::{self, SnapshotFaults};
use flyball_core::{Access, Fault, ModelRef, TensorSpec, Verb};
use flyball_decision::{DecisionDocument, unit};
use serde_json::Value as Json;
use std::sync::Arc;

/// A model version that answers some of those who name none.
pub(crate) struct Trial<M> {
    pub(crate) model: Arc<Model<M>>,
    /// From 0 to 1.
    pub(crate) share: f64,
}

impl<M> Trial<M> {
    /// `draw` is random. Requests for models have nothing to stick by.
    pub(crate) fn takes(&self, draw: u64) -> bool {
        unit(draw) < self.share
    }
}

/// What a document asks to be tried.
pub(crate) fn tried(deployment: &snapshot::Deployment) -> Option<Tried> {
    deployment.candidate.as_ref().map(|candidate| Tried {
        versions: candidate.versions.iter().map(|version| version.version.clone()).collect(),
        share: candidate.share,
        shadow: candidate.shadow,
    })
}

/// The decision that serves: the document's own, with its candidate as a further variant.
pub(crate) fn decision(
    deployment: &snapshot::Deployment,
    decision: &Json,
) -> Result<DecisionDocument, String> {
    let read =
        |decision| DecisionDocument::read(decision).map_err(|fault| SnapshotFaults(vec![fault]).to_string());
    let document = read(decision)?;
    let Some(candidate) = &deployment.candidate else { return Ok(document) };
    let Some(theirs) = &candidate.decision else { return Err(UNLIKE.to_owned()) };
    let theirs = read(theirs).map_err(|why| format!("candidate: {why}"))?;
    let trying = document.with_candidate(&theirs, candidate.share, candidate.shadow);
    trying.map_err(|faults| format!("candidate: {faults}"))
}

/// The candidate of a deployment without a decision. `versions` has all that were loaded.
pub(crate) fn trial<M>(
    deployment: &snapshot::Deployment,
    versions: &[Arc<Model<M>>],
) -> Result<Option<Trial<M>>, String> {
    let Some(candidate) = deployment.candidate.as_ref().filter(|_| deployment.decision.is_none()) else {
        return Ok(None);
    };
    if candidate.decision.is_some() {
        return Err(UNLIKE.to_owned());
    }
    if candidate.shadow {
        return Err(SHADOW.to_owned());
    }
    let [version] = candidate.versions.as_slice() else {
        return Err(format!("candidate: it has {} versions; one can be tried", candidate.versions.len()));
    };
    let find = |wanted: &str| versions.iter().find(|model| *model.version == *wanted);
    let (Some(ours), Some(theirs)) = (find(&deployment.route.version), find(&version.version)) else {
        return Err(format!("candidate: version '{}' is not here", version.version));
    };
    for (what, ours, theirs) in [
        ("inputs", &ours.signature.inputs, &theirs.signature.inputs),
        ("outputs", &ours.signature.outputs, &theirs.signature.outputs),
    ] {
        if !alike(ours, theirs) {
            return Err(format!(
                "candidate: its {what} are {}, and those of what serves are {}; callers could not tell which to send or \
                 read: promote it without a share",
                shown(theirs),
                shown(ours)
            ));
        }
    }
    Ok(Some(Trial { model: Arc::clone(theirs), share: candidate.share }))
}

const UNLIKE: &str = "candidate: a decision can be tried beside a decision only, and a model beside a model; promote it \
                      without a share";
const SHADOW: &str =
    "candidate: a model without a decision has no record to be compared in; give it a share, or a decision";

/// Whoever can ask the one can ask the other.
fn alike(ours: &[TensorSpec], theirs: &[TensorSpec]) -> bool {
    let same = |one: &TensorSpec, other: &TensorSpec| {
        (&one.name, one.datatype, one.shape.len()) == (&other.name, other.datatype, other.shape.len())
    };
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(one, other)| same(one, other))
}

fn shown(specs: &[TensorSpec]) -> String {
    let shown = specs.iter().map(|spec| format!("{} {} {:?}", spec.name, spec.datatype.name(), spec.shape));
    shown.collect::<Vec<_>>().join(", ")
}

/// Which version answers tensors: as `route` says, or the candidate where the `draw` is for it; with the decision that its
/// models are exposed beside, where there is one.
pub(crate) fn route_drawn<M>(
    routes: &Routes<M>,
    access: &Access,
    wanted: &ModelRef,
    draw: impl FnOnce() -> u64,
) -> Result<Tensors<M>, Fault> {
    let deployment = exposed(routes, access, &wanted.name)?;
    access.require(Verb::Infer, &wanted.name)?;
    let model = match deployment.trial.as_ref().filter(|_| wanted.version.is_none()) {
        Some(trial) if trial.takes(draw()) => Arc::clone(&trial.model),
        _ => version(deployment, wanted)?,
    };
    Ok(Tensors { model, beside: deployment.decision.clone() })
}

/// A model that tensors are sent to.
pub struct Tensors<M> {
    pub(crate) model: Arc<Model<M>>,
    /// The decision that it serves, which records these calls.
    pub(crate) beside: Option<Arc<Decision<M>>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{AddOne, Made};
    use flyball_core::Digest;
    use flyball_core::snapshot::Document;
    use serde_json::json;

    fn version(number: &str) -> Json {
        let artifact = json!({"path": "m.onnx", "digest": format!("sha256:{}", "0".repeat(64))});
        json!({"version": number, "artifact": artifact})
    }

    fn deployment(more: Json) -> snapshot::Deployment {
        let mut document =
            json!({"format": 5, "name": "m", "route": {"version": "1"}, "versions": [version("1")]});
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        snapshot::Deployment::read(document.to_string().as_bytes()).unwrap()
    }

    fn candidate(share: f64, more: Json) -> snapshot::Deployment {
        let mut candidate = json!({"share": share, "shadow": false, "versions": [version("2")]});
        candidate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        deployment(json!({"candidate": candidate}))
    }

    fn models() -> Vec<Arc<Model<()>>> {
        let version = |number: &str| Made::usual().version(number, |_| Box::new(AddOne::default()));
        vec![version("1"), version("2")]
    }

    fn routes(share: f64) -> Routes<()> {
        let versions = models();
        let trial = trial(&candidate(share, json!({})), &versions).unwrap();
        let mut routes = Routes::default();
        let deployment = Made::usual().deployment("m", Digest::of(b"m"));
        routes.serve(Arc::new(crate::Deployment { versions, trial, ..deployment }));
        routes
    }

    fn answered_by(routes: &Routes<()>, version: Option<&str>, draw: u64) -> String {
        let wanted = ModelRef { name: "m".into(), version: version.map(Into::into) };
        route_drawn(routes, &Access::default(), &wanted, || draw).unwrap().model.version.to_string()
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

    #[test]
    fn what_cannot_be_compared_is_refused_with_why() {
        let decides = json!({"decision": {"owner": "risk"}});
        let two = json!({"versions": [version("2"), version("3")]});
        for (document, words) in [
            (candidate(0.1, json!({"shadow": true})), "give it a share"),
            (candidate(0.1, decides), "beside a decision only"),
            (candidate(0.1, two), "it has 2 versions"),
            (candidate(0.1, json!({"versions": [version("7")]})), "version '7' is not here"),
        ] {
            let why = trial(&document, &models()).err().unwrap_or_else(|| panic!("{words}: not refused"));
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn a_model_that_takes_or_gives_something_else_is_refused() {
        let mut other = Arc::into_inner(models().remove(1)).unwrap();
        let mut signature = (*other.signature).clone();
        signature.inputs[0].name = "z".into();
        other.signature = Arc::new(signature);
        let versions = vec![models().remove(0), Arc::new(other)];
        let why = trial(&candidate(0.1, json!({})), &versions).err().unwrap();
        assert!(
            why.contains("its inputs are z UINT8 [-1], and those of what serves are x UINT8 [-1]"),
            "{why}"
        );
    }

    #[test]
    fn a_decision_is_not_tried_without_one() {
        let mut document = candidate(0.1, json!({}));
        document.decision = Some(json!({"owner": "risk"}));
        assert!(trial(&document, &models()).unwrap().is_none(), "that is its decision's to say");
    }
}
