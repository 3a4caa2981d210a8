//! Which model version answers: the one that the caller names, or the one that the deployment routes to.

use crate::{Model, Routes};
use flyball_core::{Fault, FaultKind, ModelRef, Stage};
use std::sync::Arc;

pub fn route<M>(routes: &Routes<M>, wanted: &ModelRef) -> Result<Arc<Model<M>>, Fault> {
    let fault = |kind, text: String| Err(Fault::new(kind, Stage::Route, text));
    let Some(deployment) = routes.get(&wanted.name) else {
        return match routes.not_ready(&wanted.name) {
            Some(reason) => {
                fault(FaultKind::ModelNotReady, format!("model '{}' is not served: {reason}", wanted.name))
            }
            None => fault(FaultKind::ModelNotFound, format!("model '{}' is not here", wanted.name)),
        };
    };
    let version = wanted.version.as_deref().unwrap_or(&deployment.route);
    match deployment.version(version) {
        Some(model) => Ok(Arc::clone(model)),
        None => {
            let have: Vec<_> = deployment.versions.iter().map(|model| &*model.version).collect();
            let text =
                format!("model '{}' has no version '{version}'; it has {}", wanted.name, have.join(", "));
            fault(FaultKind::VersionNotFound, text)
        }
    }
}
