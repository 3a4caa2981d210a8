//! A model's settings as Triton's model configuration.

use crate::shared::Shared;
use flyball_core::{Access, Fault, ModelRef};
use flyball_plane::route;
use flyball_wire::configuration::{BatchWait, Configuration};

pub(crate) fn of(shared: &Shared, access: &Access, wanted: &ModelRef) -> Result<Configuration, Fault> {
    let routes = shared.plane.routes.load();
    let model = route(&routes, access, wanted)?;
    let versions = routes.get(&model.name).map(|deployment| &deployment.versions);
    Ok(Configuration {
        name: model.name.to_string(),
        versions: versions.into_iter().flatten().map(|model| model.version.to_string()).collect(),
        rows_max: model.batching.on().then_some(model.batching.rows_max),
        batch_wait: model.batch_wait().map(|(rows, window)| BatchWait { rows, window }),
        sessions: model.sessions(),
        inputs: model.client_signature().inputs.clone(),
        outputs: model.client_signature().outputs.clone(),
        optional: model.optional_inputs().map(str::to_owned).collect(),
        reshaped: model.reshaped(),
        layouts: model.layouts(),
    })
}
