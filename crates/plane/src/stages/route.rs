//! Who reaches what: the deployment that a caller may see, its models where tensors may be sent to them, and the version that
//! answers. Every transport comes through here.
//!
//! A name that a caller may not see is answered like one that is not there. A model that serves a decision is reached by that
//! decision alone, unless its document says `expose: tensors`.

use crate::{Deployment, Model, Routes};
use flyball_core::{Access, Fault, FaultKind, ModelRef, Stage};
use flyball_decision::Expose;
use std::sync::Arc;

/// Names of other deployments in one error, at most.
const NAMED_MAX: usize = 8;

/// The version that a caller names, or the one that the deployment routes to, of a model that may be reached as such.
pub fn route<M>(routes: &Routes<M>, access: &Access, wanted: &ModelRef) -> Result<Arc<Model<M>>, Fault> {
    version(exposed(routes, access, &wanted.name)?, wanted)
}

/// The same of any deployment that the caller may see: whether it is ready is no secret of its decision.
pub fn ready<M>(routes: &Routes<M>, access: &Access, wanted: &ModelRef) -> Result<Arc<Model<M>>, Fault> {
    version(visible(routes, access, &wanted.name)?, wanted)
}

/// A deployment whose models may be reached as such.
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
    let seen = access.sees(name);
    if let Some(deployment) = routes.get(name).filter(|_| seen) {
        return Ok(deployment);
    }
    match routes.not_ready(name).filter(|_| seen) {
        Some(reason) => {
            let text = format!("model '{name}' is not served: {reason}");
            Err(Fault::new(FaultKind::ModelNotReady, Stage::Route, text))
        }
        None => {
            let text = format!("model '{name}' is not here{}", others(routes, access, |_| true));
            Err(Fault::new(FaultKind::ModelNotFound, Stage::Route, text))
        }
    }
}

/// What is served instead, as far as the caller may see it.
pub(crate) fn others<M>(routes: &Routes<M>, access: &Access, of: impl Fn(&Deployment<M>) -> bool) -> String {
    let seen = routes.deployments().filter(|deployment| access.sees(&deployment.name) && of(deployment));
    let mut names: Vec<_> = seen.map(|deployment| deployment.name.as_str()).collect();
    names.sort_unstable();
    match names.len().saturating_sub(NAMED_MAX) {
        _ if names.is_empty() => String::new(),
        0 => format!("; serving: {}", names.join(", ")),
        more => format!("; serving: {} and {more} more", names[..NAMED_MAX].join(", ")),
    }
}

pub(crate) fn version<M>(deployment: &Deployment<M>, wanted: &ModelRef) -> Result<Arc<Model<M>>, Fault> {
    let version = wanted.version.as_deref().unwrap_or(&deployment.route);
    deployment.version(version).map(Arc::clone).ok_or_else(|| {
        let have: Vec<_> = deployment.versions.iter().map(|model| &*model.version).collect();
        let text = format!("model '{}' has no version '{version}'; it has {}", wanted.name, have.join(", "));
        Fault::new(FaultKind::VersionNotFound, Stage::Route, text)
    })
}
