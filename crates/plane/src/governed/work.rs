//! The memory of one request for decisions, lent out by its lane and used again.

use super::places::Untold;
use super::ran::RanRows;
use crate::stages::reasons::{Explaining, Reasons};
use flyball_core::{DecisionId, Fault, Remedied};
use flyball_decision::{Rows, Scores, Scratch, Verdict};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// As many as a lane may have requests under way, in all sense; more are given back to the allocator.
const KEPT_MAX: usize = 256;
/// Those that grew for a list of many rows are kept only while there are few.
const LARGE_KEPT_MAX: usize = 4;
const ROWS_USUAL: usize = 64;

#[derive(Default)]
pub(crate) struct Work {
    pub(crate) rows: Rows,
    pub(crate) scores: Scores,
    pub(crate) scratch: Scratch,
    pub(crate) explaining: Explaining,
    pub(crate) ran: RanRows,
    /// Decisions that are recorded and not answered, taken out for as long.
    pub(crate) untold: Untold,
    /// What is known of each row.
    pub(crate) lines: Vec<Line>,
    /// Rows that are run together, taken out while they are.
    pub(crate) which: Vec<usize>,
}

/// Lets others of the lane have their turn, where so many rows of a list are done; one row pays nothing for it.
pub(crate) async fn set_idle_policy(done: usize) {
    if done > 0 && done.is_multiple_of(ROWS_USUAL) {
        tokio::task::yield_now().await;
    }
}

/// One row on its way to a decision.
pub(crate) struct Line {
    pub(crate) id: DecisionId,
    pub(crate) variant: usize,
    pub(crate) state: State,
    /// What was done instead, once something had failed.
    pub(crate) remedy: Option<Remedied>,
    pub(crate) reasons: Reasons,
    /// Its record is on its way.
    pub(crate) offered: bool,
}

pub(crate) enum State {
    Open,
    /// `score`: none where the rules alone decided.
    Judged {
        verdict: Verdict,
        score: Option<f64>,
    },
    Failed(Fault),
}

impl Work {
    /// Takes out the rows for which `wanted` holds. Give the vector back with [`Work::done_with`].
    pub(crate) fn rows_where(&mut self, wanted: impl Fn(&Line) -> bool) -> Vec<usize> {
        let mut which = std::mem::take(&mut self.which);
        which.clear();
        which.extend(self.lines.iter().enumerate().filter(|(_, line)| wanted(line)).map(|(row, _)| row));
        which
    }

    pub(crate) fn done_with(&mut self, which: Vec<usize>) {
        self.which = which;
    }

    /// The same fault for each of these rows.
    pub(crate) fn fail(&mut self, which: &[usize], fault: &Fault) {
        for &row in which {
            self.lines[row].state = State::Failed(fault.clone());
        }
    }
}

impl Line {
    pub(crate) fn new(id: DecisionId, variant: usize, state: State) -> Line {
        Line { id, variant, state, remedy: None, reasons: Reasons::new(), offered: false }
    }

    pub(crate) fn open(&self) -> bool {
        matches!(self.state, State::Open)
    }
}

#[derive(Default)]
#[expect(clippy::vec_box, reason = "they are large, and move in and out with every request")]
pub(crate) struct Works(RefCell<Vec<Box<Work>>>);

impl Works {
    pub(crate) fn lend(self: &Rc<Works>) -> Lent {
        let work = self.0.borrow_mut().pop().unwrap_or_default();
        Lent { work: Some(work), works: Rc::clone(self) }
    }
}

/// Comes back to its lane by itself.
pub(crate) struct Lent {
    work: Option<Box<Work>>,
    works: Rc<Works>,
}

impl Deref for Lent {
    type Target = Work;

    fn deref(&self) -> &Work {
        self.work.as_ref().expect("it is lent until it is dropped")
    }
}

impl DerefMut for Lent {
    fn deref_mut(&mut self) -> &mut Work {
        self.work.as_mut().expect("it is lent until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut kept = self.works.0.borrow_mut();
        let large = self.work.as_ref().is_some_and(|work| work.lines.capacity() > ROWS_USUAL);
        if kept.len() < if large { LARGE_KEPT_MAX } else { KEPT_MAX } {
            kept.extend(self.work.take());
        }
    }
}
