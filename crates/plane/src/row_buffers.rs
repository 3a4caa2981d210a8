//! The memory of one decision request: its rows, scores and row states. Lent by the lane and reused, so that a request in
//! steady state allocates nothing.

use crate::journal_slots::Offered;
use crate::reasons::{Explaining, Reasons};
use flyball_core::{DecisionId, Fault, Remedied};
use flyball_decision::{Rows, Scores, Scratch, Verdict};
use flyball_journal::record_codec::RunNotes;
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// More than the usual number of requests in flight; further buffers are freed.
const KEPT_MAX: usize = 256;
/// Maximum kept buffers that grew for a long list of rows.
const LARGE_KEPT_MAX: usize = 4;
const ROWS_USUAL: usize = 64;

#[derive(Default)]
pub(crate) struct RowBuffers {
    pub(crate) rows: Rows,
    pub(crate) scores: Scores,
    pub(crate) scratch: Scratch,
    pub(crate) explaining: Explaining,
    pub(crate) runs: RunNotes,
    /// Decisions that are recorded but not yet answered; taken out during the walk.
    pub(crate) undelivered: Vec<Offered>,
    pub(crate) states: Vec<RowState>,
    /// Indices of the rows that one step works on; taken out during the step.
    pub(crate) which: Vec<usize>,
}

/// Yields to other requests of the lane after every 64 rows of a list; a single row pays nothing.
pub(crate) async fn yield_between_rows(done: usize) {
    if done > 0 && done.is_multiple_of(ROWS_USUAL) {
        tokio::task::yield_now().await;
    }
}

/// One row on its way to a decision.
pub(crate) struct RowState {
    pub(crate) id: DecisionId,
    pub(crate) variant: usize,
    pub(crate) progress: Progress,
    /// The remedy that was applied after a fault.
    pub(crate) remedy: Option<Remedied>,
    pub(crate) reasons: Reasons,
    /// Its record was passed to the journal.
    pub(crate) offered: bool,
}

pub(crate) enum Progress {
    Open,
    /// `score` is none if rules alone decided.
    Decided {
        verdict: Verdict,
        score: Option<f64>,
    },
    Failed(Fault),
}

impl RowBuffers {
    /// The rows for which `wanted` holds. Return the vector with [`RowBuffers::done_with`].
    pub(crate) fn rows_where(&mut self, wanted: impl Fn(&RowState) -> bool) -> Vec<usize> {
        let mut which = std::mem::take(&mut self.which);
        which.clear();
        which.extend(self.states.iter().enumerate().filter(|(_, state)| wanted(state)).map(|(row, _)| row));
        which
    }

    pub(crate) fn done_with(&mut self, which: Vec<usize>) {
        self.which = which;
    }

    /// Whether some of these rows lack a model's score.
    pub(crate) fn unscored(&self, rows: &[usize], model: usize) -> bool {
        rows.iter().any(|&row| self.scores.get(row, model).is_nan())
    }

    /// Fails each of these rows.
    pub(crate) fn fail(&mut self, which: &[usize], fault: &Fault) {
        for &row in which {
            self.states[row].progress = Progress::Failed(fault.clone());
        }
    }
}

impl RowState {
    pub(crate) fn new(id: DecisionId, variant: usize, progress: Progress) -> RowState {
        RowState { id, variant, progress, remedy: None, reasons: Reasons::new(), offered: false }
    }

    pub(crate) fn open(&self) -> bool {
        matches!(self.progress, Progress::Open)
    }
}

#[derive(Default)]
#[expect(clippy::vec_box, reason = "they are large, and move in and out with every request")]
pub(crate) struct BufferPool(RefCell<Vec<Box<RowBuffers>>>);

impl BufferPool {
    pub(crate) fn lend(self: &Rc<BufferPool>) -> LentBuffers {
        let buffers = self.0.borrow_mut().pop().unwrap_or_default();
        LentBuffers { buffers: Some(buffers), pool: Rc::clone(self) }
    }
}

/// Returns the buffers to the pool when dropped.
pub(crate) struct LentBuffers {
    buffers: Option<Box<RowBuffers>>,
    pool: Rc<BufferPool>,
}

impl Deref for LentBuffers {
    type Target = RowBuffers;

    fn deref(&self) -> &RowBuffers {
        self.buffers.as_ref().expect("present until it is dropped")
    }
}

impl DerefMut for LentBuffers {
    fn deref_mut(&mut self) -> &mut RowBuffers {
        self.buffers.as_mut().expect("present until it is dropped")
    }
}

impl Drop for LentBuffers {
    fn drop(&mut self) {
        let mut kept = self.pool.0.borrow_mut();
        let large = self.buffers.as_ref().is_some_and(|buffers| buffers.states.capacity() > ROWS_USUAL);
        if kept.len() < if large { LARGE_KEPT_MAX } else { KEPT_MAX } {
            kept.extend(self.buffers.take());
        }
    }
}
