//! The settings of a journal: its directory and limits. Knows nothing of configuration files.

use crate::keys::KekSource;
use flyball_core::WallClock;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct JournalSettings {
    pub folder: PathBuf,
    /// Each lane has its own ring.
    pub lanes: usize,
    /// Maximum fsync delay for buffered records.
    pub sync: Duration,
    /// The journal rejects records while one older than this is not on disk.
    pub loss_max: Duration,
    pub segment_bytes: u64,
    pub segment_age: Duration,
    pub checkpoint_every: Duration,
    /// The seed file of the signing key; none: in the directory.
    pub key: Option<PathBuf>,
    /// The source of the key-encryption key; none: in the directory.
    pub kek: Option<KekSource>,
    pub wall: WallClock,
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
            wall: WallClock::system(),
        }
    }
}
