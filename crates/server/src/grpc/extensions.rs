//! Triton's extensions over gRPC: decodes requests and encodes responses.
//!
//! `crate::extensions` computes them.

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

/// The reply to an extension's method; `None` if there is no such method.
pub(super) async fn answer(
    shared: &Shared,
    access: &Access,
    method: &str,
    message: &Bytes,
) -> Result<Option<Reply>, Fault> {
    let answered = match method {
        "ModelConfig" => {
            let proto::ModelConfigRequest { name, version } = read(message)?;
            reply(&configuration::of(shared, access, &named(name, version))?.to_message())
        }
        "ModelStatistics" => {
            let proto::ModelStatisticsRequest { name, version } = read(message)?;
            let wanted = (!name.is_empty()).then(|| named(name, version));
            let frame = |statistics: &Statistics| frame::encode_message(&statistics.to_message());
            framed(statistics::of(shared, access, wanted, frame).await?)
        }
        "RepositoryIndex" => {
            let request = IndexRequest::from_message(&read(message)?);
            let frame = |index: &Index| frame::encode_message(&index.to_message());
            framed(repository::index(shared, access, request, frame).await?)
        }
        "RepositoryModelLoad" => {
            let mut request: proto::RepositoryModelLoadRequest = read(message)?;
            let model = std::mem::take(&mut request.model_name);
            repository::load(shared, access, &model, ControlRequest::from_message(request)?).await?;
            reply(&proto::RepositoryModelLoadResponse {})
        }
        "RepositoryModelUnload" => {
            let request: proto::RepositoryModelUnloadRequest = read(message)?;
            repository::unload(shared, access, &request.model_name).await?;
            reply(&proto::RepositoryModelUnloadResponse {})
        }
        "SystemSharedMemoryStatus" => {
            let proto::SystemSharedMemoryStatusRequest { name } = read(message)?;
            reply(&shared_memory::status(shared, access, one_or_all(&name))?.to_message())
        }
        "SystemSharedMemoryRegister" => {
            let request: proto::SystemSharedMemoryRegisterRequest = read(message)?;
            let name = request.name.clone();
            let request = RegisterRequest::from_message(request);
            shared_memory::register(shared, access, &name, request).await?;
            reply(&proto::SystemSharedMemoryRegisterResponse {})
        }
        "SystemSharedMemoryUnregister" => {
            let proto::SystemSharedMemoryUnregisterRequest { name } = read(message)?;
            shared_memory::unregister(shared, access, one_or_all(&name))?;
            reply(&proto::SystemSharedMemoryUnregisterResponse {})
        }
        "CudaSharedMemoryStatus" => reply(&proto::CudaSharedMemoryStatusResponse {}),
        "CudaSharedMemoryUnregister" => reply(&proto::CudaSharedMemoryUnregisterResponse {}),
        "CudaSharedMemoryRegister" => return Err(shared_memory::register_cuda()),
        "LogSettings" => return Err(logging()),
        "TraceSetting" => return Err(trace()),
        _ => return Ok(None),
    };
    Ok(Some(answered))
}

/// In gRPC an empty string means "all of them".
fn one_or_all(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}
