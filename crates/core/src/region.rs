//! A piece of shared memory that a caller registered, and the parts of it that requests read and write.
//!
//! It is read and written as the file that it is, and never mapped: a client that truncates its region gets an error, where a
//! mapping would end the server. How a region is found by its key is the `wire` crate's.

use crate::{Fault, Stage};
use bytes::Bytes;
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A registered region: `byte_size` bytes of `file`, from `offset` on. It lives for as long as a request uses it, also when
/// it is no longer registered.
#[derive(Debug)]
pub struct Region {
    pub name: String,
    pub key: String,
    pub offset: u64,
    pub byte_size: u64,
    file: File,
}

impl Region {
    /// Refuses what does not lie in the file.
    pub fn new(name: &str, key: &str, offset: u64, byte_size: u64, file: File) -> Result<Region, Fault> {
        let region = Region { name: name.to_owned(), key: key.to_owned(), offset, byte_size, file };
        let has = region.file_bytes().map_err(|error| region.failed(Stage::Parse, "looked at", &error))?;
        if offset.checked_add(byte_size).is_none_or(|end| end > has) {
            return Err(Fault::invalid_input(
                Stage::Parse,
                format!(
                    "shared memory region '{name}': {byte_size} bytes from byte {offset} on are not in '{key}', which \
                     has {has}; register no more than there is"
                ),
            ));
        }
        Ok(region)
    }

    /// A part of the region, `offset` bytes from its start.
    pub fn span(self: Arc<Region>, offset: u64, bytes: u64) -> Result<RegionSpan, Fault> {
        if offset.checked_add(bytes).is_some_and(|end| end <= self.byte_size) {
            return Ok(RegionSpan { region: self, offset, bytes });
        }
        Err(Fault::invalid_input(
            Stage::Parse,
            format!(
                "shared memory region '{}' has {} bytes; {bytes} from byte {offset} on are not in it",
                self.name, self.byte_size
            ),
        ))
    }

    fn file_bytes(&self) -> Result<u64, Error> {
        Ok(self.file.metadata()?.len())
    }

    fn failed(&self, stage: Stage, done: &str, error: &Error) -> Fault {
        let why = match error.kind() {
            ErrorKind::UnexpectedEof => {
                "it is shorter than it was when it was registered; do not truncate it".into()
            }
            _ => error.to_string(),
        };
        let text = format!("shared memory region '{}' cannot be {done}: {why}", self.name);
        Fault::invalid_input(stage, text)
    }
}

/// A part of a region that one tensor of a request uses. Always within the region's bounds.
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

    /// A copy of what lies here now.
    pub fn read(&self) -> Result<Bytes, Fault> {
        let too_long = |_| self.region.failed(Stage::Parse, "read", &ErrorKind::OutOfMemory.into());
        let mut bytes = vec![0; usize::try_from(self.bytes).map_err(too_long)?];
        let read = self.region.file.read_exact_at(&mut bytes, self.start());
        read.map_err(|error| self.region.failed(Stage::Parse, "read", &error))?;
        Ok(bytes.into())
    }

    /// Puts `bytes` at the start of this part; what does not fit is refused and nothing is written.
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
        // A write past the end of the file would make it longer again, which its owner did not ask for.
        if self.start() + bytes.len() as u64 > self.region.file_bytes().map_err(failed)? {
            return Err(failed(ErrorKind::UnexpectedEof.into()));
        }
        self.region.file.write_all_at(bytes, self.start()).map_err(failed)
    }

    /// In the file. Cannot overflow: the region lies in a file, and this part in the region.
    fn start(&self) -> u64 {
        self.region.offset + self.offset
    }
}

/// The same bytes of the same registration.
impl PartialEq for RegionSpan {
    fn eq(&self, other: &RegionSpan) -> bool {
        Arc::ptr_eq(&self.region, &other.region) && (self.offset, self.bytes) == (other.offset, other.bytes)
    }
}

#[cfg(test)]
mod tests;
