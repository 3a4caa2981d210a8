//! Reports of an unclean log, as records of the journal itself.

use crate::counts::InternalKind;
use crate::disk::Disk;
use crate::payload;
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Debug)]
pub(crate) enum Report {
    Recovered(Cut),
    Quarantined { segment: u64, why: String },
}

/// A tail that was cut or is about to be.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Cut {
    pub(crate) segment: u64,
    pub(crate) kept_frames: u64,
    pub(crate) cut_bytes: u64,
}

impl Cut {
    pub(super) fn read(disk: &dyn Disk, path: &Path) -> Option<Cut> {
        serde_json::from_slice(&disk.read(path).ok()?).ok()
    }

    pub(super) fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("three numbers are JSON")
    }
}

impl Report {
    pub(crate) fn record(&self, unix_ns: i64) -> (InternalKind, Vec<u8>) {
        let mut out = Vec::new();
        match self {
            Report::Recovered(Cut { segment, kept_frames, cut_bytes }) => {
                payload::own(&mut out, InternalKind::Recovered, 4, |map| {
                    map.str("at")?.i64(unix_ns)?.str("segment")?.u64(*segment)?;
                    map.str("kept_frames")?.u64(*kept_frames)?.str("cut_bytes")?.u64(*cut_bytes)?;
                    Ok(())
                });
                (InternalKind::Recovered, out)
            }
            Report::Quarantined { segment, why } => {
                payload::own(&mut out, InternalKind::Quarantined, 3, |map| {
                    map.str("at")?.i64(unix_ns)?.str("segment")?.u64(*segment)?.str("why")?.str(why)?;
                    Ok(())
                });
                (InternalKind::Quarantined, out)
            }
        }
    }
}
