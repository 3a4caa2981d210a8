//! Which models there are, and loading and unloading them where that is allowed.

use crate::control::{Action, order};
use crate::errands::aside;
use crate::lane_thread::Shared;
use flyball_core::Fault;
use flyball_plane::Absence;
use flyball_telemetry::ModelMeter;
use flyball_wire::repository::{ControlRequest, Index, IndexRequest, Listed, State};

/// Every version that is known, in the order of their names; written by `write`, which takes as long as the gathering.
pub(crate) async fn index<T: Send + 'static>(
    shared: &Shared,
    request: IndexRequest,
    write: fn(&Index) -> T,
) -> Result<T, Fault> {
    aside(shared, move |shared| write(&gather(shared, request))).await
}

pub(crate) async fn load(
    shared: &Shared,
    control: bool,
    model: &str,
    request: &ControlRequest,
) -> Result<(), Fault> {
    allowed(shared, control)?;
    let sent = |name: &&String| *name == "config" || name.starts_with("file:");
    if let Some(name) = request.parameters.iter().find(sent) {
        let text = format!(
            "a load with '{name}' is not offered: what is served comes from files whose digests were checked, not from a \
             request; change the files, then load the model without it"
        );
        return Err(Fault::not_offered(text));
    }
    order(shared, model, Action::Load).await
}

/// No model depends on another here: whether dependents are to be unloaded, too, makes no difference.
pub(crate) async fn unload(shared: &Shared, control: bool, model: &str) -> Result<(), Fault> {
    allowed(shared, control)?;
    order(shared, model, Action::Unload).await
}

fn allowed(shared: &Shared, control: bool) -> Result<(), Fault> {
    if shared.config.allow_model_control {
        return super::may_control(shared, control);
    }
    Err(Fault::not_offered(
        "loading and unloading models is switched off; start the server with --allow-model-control",
    ))
}

fn gather(shared: &Shared, request: IndexRequest) -> Index {
    let routes = shared.plane.routes.load();
    let ready = routes.deployments().flat_map(|deployment| {
        deployment.versions.iter().map(move |model| Listed {
            name: deployment.name.clone(),
            version: model.version.to_string(),
            state: State::Ready,
            reason: String::new(),
        })
    });
    let absent = routes.absent().filter(|_| !request.ready).flat_map(|(name, absence)| lines(name, absence));
    let mut lines: Vec<_> = ready.chain(absent).collect();
    // Versions of one model stay in the order of their deployment.
    lines.sort_by(|one, other| one.name.cmp(&other.name));
    Index(lines)
}

/// One line for each version that it had, or one for the model.
fn lines(name: &str, absence: &Absence<ModelMeter>) -> Vec<Listed> {
    let state = if absence.loading {
        State::Loading
    } else if absence.leaving() {
        State::Unloading
    } else {
        State::Unavailable
    };
    let reason = if state == State::Unavailable { absence.reason.as_str() } else { "" };
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
