//! The model index; loading and unloading models, if allowed.

use crate::control::{Action, order};
use crate::offload::offload;
use crate::shared::Shared;
use flyball_core::{Access, Fault, FaultKind, Stage, Verb, triton_texts};
use flyball_plane::{Absence, exposed};
use flyball_telemetry::ModelMeter;
use flyball_wire::repository::{ControlRequest, Index, IndexRequest, Listed, State};

/// All versions that the caller may see, in name order.
///
/// `write` encodes them; it takes as long as gathering them, so it is offloaded as well.
pub(crate) async fn index<T: Send + 'static>(
    shared: &Shared,
    access: &Access,
    request: IndexRequest,
    write: fn(&Index) -> T,
) -> Result<T, Fault> {
    let access = access.clone();
    offload(shared, move |shared| write(&gather(shared, &access, request))).await
}

pub(crate) async fn load(
    shared: &Shared,
    access: &Access,
    model: &str,
    request: ControlRequest,
) -> Result<(), Fault> {
    allowed(shared, access, model)?;
    check_name(model)?;
    if let Some(name) = &request.file {
        let text = format!(
            "{}'{model}': a load with '{name}' is not offered: what is served comes from files whose digests were checked, \
             not from a request; change the files, then load the model without it",
            triton_texts::FAILED_TO_LOAD
        );
        return Err(Fault::not_offered(text));
    }
    order(shared, model, Action::Load { config: request.config }).await
}

/// Names that cannot be those of a folder, in Triton's words.
fn check_name(model: &str) -> Result<(), Fault> {
    let text = match model.trim() {
        "" => triton_texts::NO_MODEL_NAME,
        ".." => triton_texts::UNSAFE_MODEL_NAME,
        _ if model.contains('/') => triton_texts::UNSAFE_MODEL_NAME,
        _ => return Ok(()),
    };
    Err(Fault::invalid_input(Stage::Route, text))
}

/// No model depends on another, so `unload_dependents` has no effect.
pub(crate) async fn unload(shared: &Shared, access: &Access, model: &str) -> Result<(), Fault> {
    allowed(shared, access, model)?;
    order(shared, model, Action::Unload).await
}

/// Checks the right to load. A decision's models are loaded and unloaded only with its snapshot.
fn allowed(shared: &Shared, access: &Access, model: &str) -> Result<(), Fault> {
    if !shared.config.allow_model_control {
        let text = format!("{}; start the server with --allow-model-control", triton_texts::NO_MODEL_CONTROL);
        return Err(Fault::new(FaultKind::ModelControlOff, Stage::Parse, text));
    }
    match exposed(&shared.plane.routes.load(), access, model) {
        Err(fault) if fault.kind == FaultKind::Forbidden || !access.sees(model) => return Err(fault),
        // A model that does not serve yet may be loaded.
        _ => {}
    }
    access.require(Verb::Control, model)
}

fn gather(shared: &Shared, access: &Access, request: IndexRequest) -> Index {
    let routes = shared.plane.routes.load();
    let seen = routes.deployments().filter(|deployment| access.sees(&deployment.name));
    let ready = seen.flat_map(|deployment| {
        deployment.versions.iter().map(move |model| Listed {
            name: deployment.name.clone(),
            version: model.version.to_string(),
            state: Some(State::Ready),
            reason: String::new(),
        })
    });
    let absent = routes.absent().filter(|(name, _)| !request.ready && access.sees(name));
    let absent = absent.flat_map(|(name, absence)| lines(name, absence));
    let mut lines: Vec<_> = ready.chain(absent).collect();
    // Versions of one model stay in the order of their deployment.
    lines.sort_by(|one, other| one.name.cmp(&other.name));
    Index(lines)
}

/// One line per former version, or one for the model.
fn lines(name: &str, absence: &Absence<ModelMeter>) -> Vec<Listed> {
    let state = if absence.loading {
        Some(State::Loading)
    } else if absence.leaving() {
        Some(State::Unloading)
    } else if absence.reason.is_empty() {
        None
    } else {
        Some(State::Unavailable)
    };
    let reason = if state == Some(State::Unavailable) { absence.reason.as_str() } else { "" };
    let line = |version: &str| Listed {
        name: name.to_owned(),
        version: version.to_owned(),
        state,
        reason: reason.to_owned(),
    };
    match absence.versions.as_slice() {
        [] => vec![line("")],
        versions => versions.iter().map(|version| line(version)).collect(),
    }
}
