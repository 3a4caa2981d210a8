//! Triton's extensions over gRPC: the question is read from a message, the answer is written as one. What is answered is
//! decided in `crate::extensions`.

use super::{answer as reply, framed, named, read};
use crate::extensions::{configuration, logging, repository, shared_memory, statistics, trace};
use crate::reply::Reply;
use crate::shared::Shared;
use bytes::Bytes;
use flyball_core::{Access, Fault};
use flyball_wire::frame;
use flyball_wire::proto::inference as proto;
use flyball_wire::repository::{ControlRequest, Index, IndexRequest};
use flyball_wire::shared_memory::RegisterRequest;
use flyball_wire::statistics::Statistics;

/// Whether the method exists, also one that is always refused.
pub(super) fn has(method: &str) -> bool {
    const METHODS: [&str; 13] = [
        "ModelConfig",
        "ModelStatistics",
        "RepositoryIndex",
        "RepositoryModelLoad",
        "RepositoryModelUnload",
        "SystemSharedMemoryStatus",
        "SystemSharedMemoryRegister",
        "SystemSharedMemoryUnregister",
        "CudaSharedMemoryStatus",
        "CudaSharedMemoryRegister",
        "CudaSharedMemoryUnregister",
        "TraceSetting",
        "LogSettings",
    ];
    METHODS.contains(&method)
}

pub(super) async fn answer(
    shared: &Shared,
    access: &Access,
    method: &str,
    message: &Bytes,
) -> Result<Reply, Fault> {
    match method {
        "ModelConfig" => {
            let proto::ModelConfigRequest { name, version } = read(message)?;
            Ok(reply(&configuration::of(shared, access, &named(name, version))?.to_message()))
        }
        "ModelStatistics" => {
            let proto::ModelStatisticsRequest { name, version } = read(message)?;
            let wanted = (!name.is_empty()).then(|| named(name, version));
            let frame = |statistics: &Statistics| frame::encode_message(&statistics.to_message());
            Ok(framed(statistics::of(shared, access, wanted, frame).await?))
        }
        "RepositoryIndex" => {
            let request = IndexRequest::from_message(&read(message)?);
            let frame = |index: &Index| frame::encode_message(&index.to_message());
            Ok(framed(repository::index(shared, access, request, frame).await?))
        }
        "RepositoryModelLoad" => {
            let request: proto::RepositoryModelLoadRequest = read(message)?;
            let wanted = ControlRequest::from_names(request.parameters.keys());
            repository::load(shared, access, &request.model_name, &wanted).await?;
            Ok(reply(&proto::RepositoryModelLoadResponse {}))
        }
        "RepositoryModelUnload" => {
            let request: proto::RepositoryModelUnloadRequest = read(message)?;
            repository::unload(shared, access, &request.model_name).await?;
            Ok(reply(&proto::RepositoryModelUnloadResponse {}))
        }
        _ => memory(shared, access, method, message).await,
    }
}

async fn memory(shared: &Shared, access: &Access, method: &str, message: &Bytes) -> Result<Reply, Fault> {
    match method {
        "SystemSharedMemoryStatus" => {
            let proto::SystemSharedMemoryStatusRequest { name } = read(message)?;
            Ok(reply(&shared_memory::status(shared, access, one_or_all(&name))?.to_message()))
        }
        "SystemSharedMemoryRegister" => {
            let request: proto::SystemSharedMemoryRegisterRequest = read(message)?;
            let name = request.name.clone();
            let request = RegisterRequest::from_message(request);
            shared_memory::register(shared, access, &name, request).await?;
            Ok(reply(&proto::SystemSharedMemoryRegisterResponse {}))
        }
        "SystemSharedMemoryUnregister" => {
            let proto::SystemSharedMemoryUnregisterRequest { name } = read(message)?;
            shared_memory::unregister(shared, access, one_or_all(&name))?;
            Ok(reply(&proto::SystemSharedMemoryUnregisterResponse {}))
        }
        "CudaSharedMemoryStatus" => Ok(reply(&proto::CudaSharedMemoryStatusResponse {})),
        "CudaSharedMemoryUnregister" => Ok(reply(&proto::CudaSharedMemoryUnregisterResponse {})),
        "CudaSharedMemoryRegister" => Err(shared_memory::register_cuda()),
        "LogSettings" => Err(logging()),
        _ => Err(trace()),
    }
}

/// gRPC says "all of them" with an empty string.
fn one_or_all(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}
