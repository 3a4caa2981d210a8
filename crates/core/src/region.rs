//! A shared-memory region that a caller registered, and the spans that requests use.
//!
//! Regions are read and written as files and never mapped: a client that truncates its region gets an error,
//! where a mapping would kill the server with SIGBUS. The `wire` crate finds regions by key.

use crate::{Fault, Stage, triton_texts};
use bytes::Bytes;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A registered region: `byte_size` bytes of `file`, starting at `offset`.
///
/// It stays open while a request uses it, even after it is unregistered.
#[derive(Debug)]
pub struct Region {
    pub name: String,
    pub key: String,
    pub offset: u64,
    pub byte_size: u64,
    file: File,
}

impl Region {
    /// Rejects a range outside the file.
    pub fn new(name: &str, key: &str, offset: u64, byte_size: u64, file: File) -> Result<Region, Fault> {
        let region = Region { name: name.to_owned(), key: key.to_owned(), offset, byte_size, file };
        let has = region.file_bytes().map_err(|error| region.failed(Stage::Parse, "looked at", &error))?;
        if offset.checked_add(byte_size).is_none_or(|end| end > has) {
            return Err(Fault::invalid_input(
                Stage::Parse,
                format!(
                    "{}: {byte_size} bytes from byte {offset} on exceed '{key}', which has {has} bytes; register a \
                     range inside the file",
                    triton_texts::region_refused(name)
                ),
            ));
        }
        Ok(region)
    }

    /// A span of the region, `offset` bytes from its start.
    pub fn span(self: Arc<Region>, offset: u64, bytes: u64) -> Result<RegionSpan, Fault> {
        if offset.checked_add(bytes).is_some_and(|end| end <= self.byte_size) {
            return Ok(RegionSpan { region: self, offset, bytes });
        }
        let refused = if offset >= self.byte_size {
            triton_texts::invalid_offset(&self.name)
        } else if offset.checked_add(bytes).is_none() {
            triton_texts::range_overflow(&self.name, offset, bytes)
        } else {
            triton_texts::invalid_range(&self.name)
        };
        let has = self.byte_size;
        let text = format!("{refused}; it has {has} bytes, and {bytes} from byte {offset} on are not in it");
        Err(Fault::invalid_input(Stage::Parse, text))
    }

    fn file_bytes(&self) -> Result<u64, Error> {
        Ok(self.file.metadata()?.len())
    }

    fn failed(&self, stage: Stage, done: &str, error: &Error) -> Fault {
        let why = match error.kind() {
            ErrorKind::UnexpectedEof => {
                "the file is shorter than when it was registered; do not truncate it".into()
            }
            _ => error.to_string(),
        };
        let text = format!("shared memory region '{}' cannot be {done}: {why}", self.name);
        Fault::invalid_input(stage, text)
    }
}

/// A span of a region that one tensor uses. Always within the region's bounds.
#[derive(Clone, Debug)]
pub struct RegionSpan {
    region: Arc<Region>,
    offset: u64,
    bytes: u64,
}

impl RegionSpan {
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// Bytes from the region's start.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Copies the current contents.
    pub fn read(&self) -> Result<Bytes, Fault> {
        let too_long = |_| self.region.failed(Stage::Parse, "read", &ErrorKind::OutOfMemory.into());
        let mut bytes = vec![0; usize::try_from(self.bytes).map_err(too_long)?];
        let read = self.region.file.read_exact_at(&mut bytes, self.start());
        read.map_err(|error| self.region.failed(Stage::Parse, "read", &error))?;
        Ok(bytes.into())
    }

    /// Writes `bytes` at the start of the span. If they do not fit, returns an error and writes nothing.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Fault> {
        let failed = |error| self.region.failed(Stage::Respond, "written", &error);
        if bytes.len() as u64 > self.bytes {
            let text = format!(
                "{} bytes do not fit into the {} of shared memory region '{}' that the request gives",
                bytes.len(),
                self.bytes,
                self.region.name
            );
            return Err(Fault::invalid_input(Stage::Respond, text));
        }
        // A write past the end would extend the file, which its owner did not request.
        if self.start() + bytes.len() as u64 > self.region.file_bytes().map_err(failed)? {
            return Err(failed(ErrorKind::UnexpectedEof.into()));
        }
        self.region.file.write_all_at(bytes, self.start()).map_err(failed)
    }

    /// The offset in the file. Cannot overflow: the region is inside a file, and the span inside the region.
    fn start(&self) -> u64 {
        self.region.offset + self.offset
    }
}

/// Equal if both are the same bytes of the same registration.
impl PartialEq for RegionSpan {
    fn eq(&self, other: &RegionSpan) -> bool {
        Arc::ptr_eq(&self.region, &other.region) && (self.offset, self.bytes) == (other.offset, other.bytes)
    }
}

#[cfg(test)]
mod tests;
