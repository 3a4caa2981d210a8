//! Seals on request: all records so far are in sealed segments under a signed checkpoint.

use super::fault::why;
use super::{ROUND_RECORDS, Writer};
use crate::ring::RING_RECORDS;
use flyball_core::Unavailable;

/// How far the log is sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The last sealed segment; zero: there are no records.
    pub segment: u64,
    /// The signed note over it.
    pub checkpoint: String,
}

/// The callback on the writer's thread, which must not block.
pub(crate) type SealCallback = Box<dyn FnOnce(Result<Sealed, Unavailable>) + Send>;

impl Writer {
    pub(super) fn seal(&mut self) -> Result<Sealed, Unavailable> {
        // Includes what a lane offered before the request, up to one ring: lanes do not stop.
        for _ in 0..RING_RECORDS.div_ceil(ROUND_RECORDS) {
            if self.take_rings() < ROUND_RECORDS {
                break;
            }
        }
        // Twice: after a disk failure, the first attempt only moved the records to another segment.
        for _ in 0..2 {
            if !self.segment.is_empty() && self.fault.given_up.is_none() {
                self.rotate();
            }
        }
        if !self.segment.is_empty() || self.fault.given_up.is_some() {
            return Err(self.fault.given_up.or(self.fault.rotation).unwrap_or(Unavailable::Broken));
        }
        self.checkpoints.due = false;
        let checkpoint = self.write_checkpoint().map_err(|error| {
            tracing::error!(%error, "cannot write a checkpoint of the journal");
            why(&error)
        })?;
        Ok(Sealed { segment: self.segment.header.segment - 1, checkpoint })
    }
}
