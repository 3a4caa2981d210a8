//! Statistics of models.

use crate::offload::offload;
use crate::shared::Shared;
use flyball_core::{Access, Fault, FaultKind, ModelRef, Nanos, triton_texts};
use flyball_plane::{Model, exposed, route};
use flyball_telemetry::{ModelMeter, TritonModel};
use flyball_wire::statistics::Statistics;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Statistics of one version, of all versions of a model, or of all models that the caller may use.
///
/// `write` encodes them; it takes as long as gathering them, so it is offloaded as well.
pub(crate) async fn of<T: Send + 'static>(
    shared: &Shared,
    access: &Access,
    wanted: Option<ModelRef>,
    write: fn(&Statistics) -> T,
) -> Result<T, Fault> {
    let access = access.clone();
    offload(shared, move |shared| {
        gather(shared, &access, wanted.as_ref()).map(|statistics| write(&statistics))
    })
    .await?
}

fn gather(shared: &Shared, access: &Access, wanted: Option<&ModelRef>) -> Result<Statistics, Fault> {
    let routes = shared.plane.routes.load();
    let models: Vec<Arc<Model<ModelMeter>>> = match wanted {
        None => {
            let reached = |name: &str| exposed(&routes, access, name).is_ok();
            let mut deployments: Vec<_> =
                routes.deployments().filter(|deployment| reached(&deployment.name)).collect();
            deployments.sort_by(|one, other| one.name.cmp(&other.name));
            deployments.into_iter().flat_map(|deployment| deployment.versions.iter().cloned()).collect()
        }
        Some(wanted) => {
            let model = route(&routes, access, wanted).map_err(|fault| not_available(fault, wanted))?;
            match routes.get(&wanted.name) {
                Some(deployment) if wanted.version.is_none() => deployment.versions.clone(),
                _ => vec![model],
            }
        }
    };
    let epoch_ms = wall_clock(shared.plane.clock.now());
    Ok(Statistics(models.iter().map(|model| model.meter.statistics(&epoch_ms)).collect()))
}

/// Triton has other words for an unknown version here than for an inference.
fn not_available(mut fault: Fault, wanted: &ModelRef) -> Fault {
    if fault.kind == FaultKind::VersionNotFound {
        let unavailable = triton_texts::version_not_available(&wanted.name);
        fault.text = format!("{unavailable}: {}", fault.text).into();
    }
    fault
}

/// Statistics of every version that serves, with its pending requests.
pub(crate) fn of_every_model(shared: &Shared) -> Vec<TritonModel> {
    let routes = shared.plane.routes.load();
    let mut deployments: Vec<_> = routes.deployments().collect();
    deployments.sort_by(|one, other| one.name.cmp(&other.name));
    let epoch_ms = wall_clock(shared.plane.clock.now());
    let mut every = Vec::new();
    for deployment in deployments {
        for model in &deployment.versions {
            let default = *model.version == *deployment.route;
            let pending = if default { deployment.in_flight() } else { 0 };
            every.push(TritonModel { totals: model.meter.statistics(&epoch_ms), pending });
        }
    }
    every
}

/// Converts walk times to dates, only when statistics are read: the wall clock may jump.
fn wall_clock(now: Nanos) -> impl Fn(Nanos) -> u64 {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    move |then| u64::try_from(now_ms.saturating_sub(now.since(then).as_millis())).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_time_of_the_walk_is_as_long_ago_on_the_wall_s_clock() {
        let now = Nanos(0).after(Duration::from_secs(100));
        let epoch_ms = wall_clock(now);
        assert_eq!(epoch_ms(now) - epoch_ms(Nanos(0)), 100_000);
    }
}
