//! A deployment's candidate: a model's candidate gets a share of the requests; a decision's is a further variant, which the
//! plane compiles. A candidate that cannot be compared with the champion refuses the deployment.

use flyball_core::TensorSpec;
use flyball_core::snapshot;
use flyball_plane::{CANDIDATE_KIND_MISMATCH, CandidateState, Model, Trial};
use std::sync::Arc;

/// The candidate as status pages show it.
pub(crate) fn state(deployment: &snapshot::Deployment) -> Option<CandidateState> {
    deployment.candidate.as_ref().map(|candidate| CandidateState {
        versions: candidate.versions.iter().map(|version| version.version.clone()).collect(),
        share: candidate.share,
        shadow: candidate.shadow,
    })
}

/// The candidate of a deployment without a decision. `versions` has all loaded models.
pub(crate) fn trial<M>(
    deployment: &snapshot::Deployment,
    versions: &[Arc<Model<M>>],
) -> Result<Option<Trial<M>>, String> {
    let Some(candidate) = deployment.candidate.as_ref().filter(|_| deployment.decision.is_none()) else {
        return Ok(None);
    };
    if candidate.decision.is_some() {
        return Err(CANDIDATE_KIND_MISMATCH.to_owned());
    }
    if candidate.shadow {
        return Err(SHADOW.to_owned());
    }
    let [version] = candidate.versions.as_slice() else {
        return Err(format!("candidate: it has {} versions; one can be tried", candidate.versions.len()));
    };
    let find = |wanted: &str| versions.iter().find(|model| *model.version == *wanted);
    let (Some(ours), Some(theirs)) = (find(&deployment.route.version), find(&version.version)) else {
        return Err(format!("candidate: version '{}' is not among those loaded", version.version));
    };
    for (what, ours, theirs) in [
        ("inputs", &ours.signature.inputs, &theirs.signature.inputs),
        ("outputs", &ours.signature.outputs, &theirs.signature.outputs),
    ] {
        if !alike(ours, theirs) {
            return Err(format!(
                "candidate: its {what} are {}, but those of the serving version are {}; callers could not use both: \
                 promote it without a share",
                shown(theirs),
                shown(ours)
            ));
        }
    }
    Ok(Some(Trial { model: Arc::clone(theirs), share: candidate.share }))
}

const SHADOW: &str =
    "candidate: a model without a decision has no records to compare; give it a share, or a decision";

/// Whether callers of one can call the other.
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

#[cfg(test)]
mod tests {
    use super::*;
    use flyball_core::snapshot::Document;
    use flyball_plane::testing::{AddOne, Made};
    use serde_json::{Value as Json, json};

    fn version(number: &str) -> Json {
        let artifact = json!({"path": "m.onnx", "digest": format!("sha256:{}", "0".repeat(64))});
        json!({"version": number, "artifact": artifact})
    }

    fn deployment(more: Json) -> snapshot::Deployment {
        let mut document =
            json!({"format": 1, "name": "m", "route": {"version": "1"}, "versions": [version("1")]});
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        snapshot::Deployment::read(document.to_string().as_bytes()).unwrap()
    }

    fn candidate(share: f64, more: Json) -> snapshot::Deployment {
        let mut candidate = json!({"share": share, "shadow": false, "versions": [version("2")]});
        candidate.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        deployment(json!({"candidate": candidate}))
    }

    fn models() -> Vec<Arc<Model<()>>> {
        let model = |version| Made::usual().version(version, |_place| Box::new(AddOne::default()));
        vec![model("1"), model("2")]
    }

    #[test]
    fn what_cannot_be_compared_is_refused_with_why() {
        let decides = json!({"decision": {"owner": "risk"}});
        let two = json!({"versions": [version("2"), version("3")]});
        for (document, words) in [
            (candidate(0.1, json!({"shadow": true})), "give it a share"),
            (candidate(0.1, decides), "against a decision"),
            (candidate(0.1, two), "it has 2 versions"),
            (candidate(0.1, json!({"versions": [version("7")]})), "version '7' is not among those loaded"),
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
        assert_eq!(
            why,
            "candidate: its inputs are z UINT8 [-1], but those of the serving version are x UINT8 [-1]; callers could \
             not use both: promote it without a share"
        );
    }

    #[test]
    fn a_decision_is_not_tried_without_one() {
        let mut document = candidate(0.1, json!({}));
        document.decision = Some(json!({"owner": "risk"}));
        assert!(trial(&document, &models()).unwrap().is_none(), "that is its decision's to say");
    }
}
