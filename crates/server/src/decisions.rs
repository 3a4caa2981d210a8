//! Descriptions of the served decisions, in `wire`'s neutral form.

use crate::shared::Shared;
use flyball_core::{Access, DecidedBy, Fault};
use flyball_decision::{FieldDocument, Kind};
use flyball_plane::{Decision, find_decision};
use flyball_wire::{DecisionFacts, FieldFacts, ModelFacts};

/// All decisions that the caller may see, by name, without their fields.
pub(crate) fn all(shared: &Shared, access: &Access) -> Vec<DecisionFacts> {
    let routes = shared.plane.routes.load();
    let seen = routes.deployments().filter(|deployment| access.sees(&deployment.name));
    let decisions = seen.filter_map(|deployment| deployment.decision.as_deref());
    let mut all: Vec<_> = decisions.map(facts).collect();
    all.sort_by(|a, b| a.decision.cmp(&b.decision));
    all
}

/// One decision, with its fields.
pub(crate) fn named(shared: &Shared, access: &Access, name: &str) -> Result<DecisionFacts, Fault> {
    let decision = find_decision(&shared.plane.routes.load(), access, name)?;
    Ok(DecisionFacts { input: decision.input.iter().map(field).collect(), ..facts(&decision) })
}

fn facts<M>(decision: &Decision<M>) -> DecisionFacts {
    let program = &decision.program;
    let model = |by: &DecidedBy| ModelFacts {
        model: by.model.to_string(),
        version: by.version.to_string(),
        digest: by.digest,
    };
    DecisionFacts {
        decision: decision.name.to_string(),
        outcomes: decision.outcomes.iter().map(ToString::to_string).collect(),
        document: program.document_digest,
        policy: program.policy_digest,
        schema: program.schema_digest,
        models: decision.by.iter().map(model).collect(),
        input: Vec::new(),
    }
}

fn field(document: &FieldDocument) -> FieldFacts {
    FieldFacts {
        name: document.name.clone(),
        kind: document.kind.label(),
        required: document.required && document.default.is_none(),
        default: document.default.clone(),
        min: document.min,
        max: document.max,
        values: document.values.clone(),
        length_max: (document.kind == Kind::Text).then_some(document.length_max),
    }
}
