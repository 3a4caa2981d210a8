//! Stops a run from another thread.
//!
//! ONNX Runtime checks the flag before each operator, in the bodies of loops too. It does not interrupt an
//! operator: requested a third into a matrix product of 370 ms, the run still took 330 ms, and succeeded,
//! because nothing came after it (1.31; four such products in a row ended after the second).

use crate::RunError;
use crate::refusal::one_line;
use ort::session::RunOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A runner's stop flag.
pub(crate) struct Stop {
    pub(crate) options: RunOptions,
    asked: AtomicBool,
}

impl Stop {
    pub(crate) fn new() -> ort::Result<Arc<Stop>> {
        Ok(Arc::new(Stop { options: RunOptions::new()?, asked: AtomicBool::new(false) }))
    }

    /// Returns at once; the run ends after its current operator.
    pub(crate) fn request(&self) {
        self.asked.store(true, Ordering::SeqCst);
        // It sets a flag and cannot fail.
        let _ = self.options.terminate();
    }

    /// Whether the run that was started last is to end.
    pub(crate) fn requested(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Starts a run: earlier requests to stop were not meant for it.
    pub(crate) fn forget(&self) -> ort::Result<()> {
        self.asked.store(false, Ordering::SeqCst);
        self.options.unterminate()
    }

    /// Interprets a run's error. The text of a stopped run only names where it stopped.
    pub(crate) fn error(&self, error: &ort::Error) -> RunError {
        if self.asked.load(Ordering::SeqCst) {
            RunError::Stopped
        } else {
            RunError::Failed(one_line(error.message()))
        }
    }
}
