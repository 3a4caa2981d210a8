//! Reads a body's rows into the request's buffers and checks them against the schema. Faults stay with their row.

use crate::row_buffers::RowBuffers;
use crate::{Decision, Lane};
use bytes::Bytes;
use flyball_core::{DecisionDialect, Fault, RowsOptions, Sink};

pub(crate) fn parse<S: Sink, D: DecisionDialect>(
    lane: &Lane<S>,
    dialect: &D,
    decision: &Decision<S::Model>,
    body: &Bytes,
    buffers: &mut RowBuffers,
) -> Result<RowsOptions, Fault> {
    let program = &decision.program;
    program.begin(&mut buffers.rows);
    let mut reader = if lane.plane.services.offline {
        program.reader_of_features(&mut buffers.rows)
    } else {
        program.reader(&mut buffers.rows)
    };
    let ask = dialect.rows(body, &lane.plane.limits.request, &mut reader)?;
    reader.finish();
    if buffers.rows.is_empty() {
        return Err(Fault::malformed("the request has no rows; send at least one"));
    }
    Ok(ask)
}
