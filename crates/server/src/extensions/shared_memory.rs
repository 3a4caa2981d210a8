//! Regions of shared memory that clients register, where that is allowed. There are none of CUDA's.

use crate::lane_thread::Shared;
use flyball_core::Fault;
use flyball_wire::regions::Regions;
use flyball_wire::shared_memory::{RegisterRequest, Status};

pub(crate) fn status(shared: &Shared, region: Option<&str>) -> Result<Status, Fault> {
    regions(shared)?.status(region).map(Status)
}

pub(crate) fn register(shared: &Shared, region: &str, request: &RegisterRequest) -> Result<(), Fault> {
    regions(shared)?.register(region, &request.key, request.offset, request.byte_size)
}

pub(crate) fn unregister(shared: &Shared, region: Option<&str>) -> Result<(), Fault> {
    regions(shared)?.unregister(region);
    Ok(())
}

/// Models run on the CPU here, so no region of a GPU's memory could be read.
pub(crate) fn register_cuda() -> Fault {
    let text = "CUDA shared memory is not offered, because models run on the CPU; use system shared memory";
    Fault::not_offered(text)
}

fn regions(shared: &Shared) -> Result<&Regions, Fault> {
    shared.regions.as_deref().ok_or_else(|| {
        Fault::not_offered(
            "system shared memory is switched off; start the server with --allow-shared-memory, or send tensors themselves",
        )
    })
}
