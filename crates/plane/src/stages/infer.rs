//! The result of a run: scores for its rows, and notes for their records.

use crate::batch::Ran;
use crate::decision_walk::DecisionWalk;
use crate::plan::ModelStep;
use flyball_core::{Fault, Sink};
use flyball_decision::row_numbers;
use flyball_journal::record_codec::ModelRun;

/// Maximum numbers of one output in a row's record.
const NUMBERS_MAX: usize = 16;

impl<S: Sink> DecisionWalk<'_, S> {
    pub(crate) fn scores(&mut self, step: &ModelStep, rows: &[usize], ran: Ran) -> Result<(), Fault> {
        let (program, buffers) = (&self.decision.program, &mut *self.buffers);
        let scored = program.scores(step.model, &ran.outputs, rows, &mut buffers.scores);
        if self.lane.services.recorder.is_some() {
            let (states, outputs) = (&buffers.states, &ran.outputs);
            let run = ModelRun {
                model: step.model,
                rows,
                batch_rows: ran.batch.rows,
                first: ran.batch.first,
                outputs,
            };
            let whole = |row: usize| program.record.whole(states[row].id);
            let numbers = |output, position| row_numbers(output, rows.len(), position, NUMBERS_MAX);
            buffers.runs.note(&run, whole, numbers);
        }
        self.lane.keep(ran.outputs);
        scored
    }
}
