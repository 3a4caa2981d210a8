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
        let (kind, segment) = match self {
            Report::Recovered(cut) => (InternalKind::Recovered, cut.segment),
            Report::Quarantined { segment, .. } => (InternalKind::Quarantined, *segment),
        };
        let payload = payload::own(kind, |pairs| {
            pairs.key("at")?.i64(unix_ns)?;
            pairs.key("segment")?.u64(segment)?;
            match self {
                Report::Recovered(cut) => {
                    pairs.key("kept_frames")?.u64(cut.kept_frames)?;
                    pairs.key("cut_bytes")?.u64(cut.cut_bytes)?.ok()
                }
                Report::Quarantined { why, .. } => pairs.text("why", Some(why)),
            }
        });
        (kind, payload)
    }
}
