//! Shared memory regions of clients, if allowed. CUDA regions are not supported.

use crate::offload::offload;
use crate::shared::Shared;
use flyball_core::triton_texts::SHARED_MEMORY_DISABLED;
use flyball_core::{Access, Fault, Verb};
use flyball_wire::regions::Regions;
use flyball_wire::shared_memory::{RegisterRequest, Status};
use std::sync::Arc;

/// Needs the right to infer on any model, or to control.
pub(crate) fn status(shared: &Shared, access: &Access, region: Option<&str>) -> Result<Status, Fault> {
    if !access.may_some(Verb::Infer) {
        access.require_all(Verb::Control)?;
    }
    match &shared.regions {
        Some(regions) => regions.status(region).map(Status),
        // As in Triton: switched off, nothing is registered.
        None => Ok(Status::default()),
    }
}

/// Offloaded, because it opens a file.
pub(crate) async fn register(
    shared: &Shared,
    access: &Access,
    region: &str,
    request: RegisterRequest,
) -> Result<(), Fault> {
    let regions = Arc::clone(regions(shared)?);
    access.require_all(Verb::Control)?;
    let name = region.to_owned();
    offload(shared, move |_shared| regions.register(&name, &request.key, request.offset, request.byte_size))
        .await?
}

pub(crate) fn unregister(shared: &Shared, access: &Access, region: Option<&str>) -> Result<(), Fault> {
    let regions = regions(shared)?;
    access.require_all(Verb::Control)?;
    regions.unregister(region);
    Ok(())
}

/// Models run on the CPU, so GPU memory cannot be read.
pub(crate) fn register_cuda() -> Fault {
    let text = "CUDA shared memory is not offered, because models run on the CPU; use system shared memory";
    Fault::not_offered(text)
}

fn regions(shared: &Shared) -> Result<&Arc<Regions>, Fault> {
    shared.regions.as_ref().ok_or_else(|| {
        Fault::not_offered(format!(
            "{SHARED_MEMORY_DISABLED}; start the server with --allow-shared-memory, or send tensors themselves"
        ))
    })
}
