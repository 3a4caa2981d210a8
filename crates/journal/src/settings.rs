//! How a journal is to be kept: its folder and its limits. Knows nothing of where they were configured.

use crate::keys::KekPlace;
use flyball_core::Wall;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct JournalSettings {
    pub folder: PathBuf,
    /// Each has a ring of its own.
    pub lanes: usize,
    /// What nobody waits for is on the disk after so long.
    pub sync: Duration,
    /// Nothing more is taken while something older than this is not on the disk.
    pub loss_max: Duration,
    pub segment_bytes: u64,
    pub segment_age: Duration,
    pub checkpoint_every: Duration,
    /// Where the seed of the key that signs is; none: in the folder.
    pub key: Option<PathBuf>,
    /// Where the key is that subjects' keys are encrypted under; none: in the folder.
    pub kek: Option<KekPlace>,
    pub wall: Wall,
}

impl JournalSettings {
    pub fn new(folder: impl Into<PathBuf>, lanes: usize) -> JournalSettings {
        JournalSettings {
            folder: folder.into(),
            lanes,
            sync: Duration::from_millis(200),
            loss_max: Duration::from_secs(2),
            segment_bytes: 64 << 20,
            segment_age: Duration::from_secs(3600),
            checkpoint_every: Duration::from_secs(60),
            key: None,
            kek: None,
            wall: Wall::system(),
        }
    }
}
