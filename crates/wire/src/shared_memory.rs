//! The system shared memory extension: registered regions, and requests to register one.
//!
//! In JSON and as a message. The regions themselves are in `regions.rs`.

use crate::body;
use crate::metadata::json;
use crate::proto::inference as proto;
use crate::proto::inference::system_shared_memory_status_response::RegionStatus as RegionMessage;
use crate::regions::RegionStatus;
use bytes::Bytes;
use flyball_core::Fault;
use serde::Deserialize;

/// The response of `/v2/systemsharedmemory/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status(pub Vec<RegionStatus>);

impl Status {
    pub fn to_json(&self) -> Bytes {
        json(&self.0)
    }

    pub fn to_message(&self) -> proto::SystemSharedMemoryStatusResponse {
        let region = |region: &RegionStatus| {
            let RegionStatus { name, key, offset, byte_size } = region.clone();
            (region.name.clone(), RegionMessage { name, key, offset, byte_size })
        };
        proto::SystemSharedMemoryStatusResponse { regions: self.0.iter().map(region).collect() }
    }
}

/// A region to register, without its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterRequest {
    pub key: String,
    pub offset: u64,
    pub byte_size: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RegisterBody {
    key: Option<String>,
    offset: u64,
    byte_size: Option<u64>,
}

impl RegisterRequest {
    pub fn from_json(body: &[u8]) -> Result<RegisterRequest, Fault> {
        let RegisterBody { key, offset, byte_size } = body::read(body, "a region to register")?;
        let missing = |what: &str| Fault::malformed(format!("a region to register needs '{what}'"));
        let key = key.ok_or_else(|| missing("key"))?;
        Ok(RegisterRequest { key, offset, byte_size: byte_size.ok_or_else(|| missing("byte_size"))? })
    }

    pub fn from_message(message: proto::SystemSharedMemoryRegisterRequest) -> RegisterRequest {
        RegisterRequest { key: message.key, offset: message.offset, byte_size: message.byte_size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_lists_each_region_in_both_forms() {
        let region = RegionStatus { name: "r".into(), key: "/k".into(), offset: 8, byte_size: 64 };
        let status = Status(vec![region]);
        assert_eq!(status.to_json(), r#"[{"name":"r","key":"/k","offset":8,"byte_size":64}]"#);
        let message = status.to_message();
        assert_eq!((message.regions["r"].key.as_str(), message.regions["r"].byte_size), ("/k", 64));
        assert_eq!(Status::default().to_json(), "[]");
    }

    #[test]
    fn a_region_without_key_or_size_is_refused_with_what_it_lacks() {
        let whole = RegisterRequest::from_json(br#"{"key": "/k", "byte_size": 64}"#).unwrap();
        assert_eq!(whole, RegisterRequest { key: "/k".into(), offset: 0, byte_size: 64 });
        for (body, text) in [
            (r#"{"byte_size": 64}"#, "a region to register needs 'key'"),
            (r#"{"key": "/k", "offset": 1}"#, "a region to register needs 'byte_size'"),
            ("", "a region to register needs 'key'"),
            (r#"{"key": "/k", "byte_size": -1}"#, "the body is not a region to register: "),
            (r#"{"key": 7, "byte_size": 1}"#, "the body is not a region to register: "),
        ] {
            let fault = RegisterRequest::from_json(body.as_bytes()).unwrap_err();
            assert!(fault.text.starts_with(text), "{body}: {fault}");
        }
    }
}
