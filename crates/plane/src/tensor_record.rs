//! The record of tensors that a caller sent directly to a decision's model (`expose: tensors`).
//!
//! Tensors do not declare which values are personal, so only a digest of the inputs is recorded, encrypted like personal
//! data. Such a call is never answered without a journal slot for its record.

use crate::stages::record::fault;
use crate::walk::Walk;
use crate::{Decision, Lane, Model};
use flyball_core::{Digest, Fault, LaneRecorder, Sink, Stage, Tensor, TensorData};
use flyball_journal::record_codec::{self, TensorFacts};
use std::sync::Arc;

pub(crate) struct TensorRecord<'a, S: Sink> {
    lane: &'a Lane<S>,
    recorder: &'a dyn LaneRecorder,
    decision: Arc<Decision<S::Model>>,
    inputs: Digest,
    reserved: bool,
}

impl<'a, S: Sink> TensorRecord<'a, S> {
    /// Reserves a slot for the record; none without a decision or a recorder.
    pub(crate) fn reserve(
        lane: &'a Lane<S>,
        decision: Option<Arc<Decision<S::Model>>>,
    ) -> Result<Option<TensorRecord<'a, S>>, Fault> {
        let (Some(decision), Some(recorder)) = (decision, lane.recorder()) else { return Ok(None) };
        recorder.reserve(1).map_err(|why| fault(Stage::Admit, why))?;
        Ok(Some(TensorRecord { lane, recorder, decision, inputs: Digest::of(b""), reserved: true }))
    }

    /// Notes the digest of the inputs, before the model takes them.
    pub(crate) fn with_inputs(mut self, inputs: &[Tensor]) -> TensorRecord<'a, S> {
        self.inputs = digest(inputs);
        self
    }

    /// Passes the record to the journal, once the model has answered.
    pub(crate) fn offer(mut self, model: &Model<S::Model>, walk: &Walk<S>) {
        let wall = &self.lane.plane.services.wall;
        let facts = TensorFacts {
            at_ns: wall.now_ns(),
            decision: &self.decision.name,
            model: self.decision.by.iter().find(|by| by.version == model.version),
            protocol: walk.protocol.label(),
            caller: walk.caller_name().map(|name| &**name),
            trace: walk.trace(),
            rows: walk.rows,
            inputs: self.inputs,
        };
        let id = self.lane.services.random.id(wall.now_ms());
        let entry = record_codec::tensors(self.recorder, id, &facts);
        self.reserved = false;
        self.recorder.offer(entry);
    }
}

impl<S: Sink> Drop for TensorRecord<'_, S> {
    fn drop(&mut self) {
        if self.reserved {
            self.recorder.release(1);
        }
    }
}

/// The digest of names, types, shapes and elements, in model order.
fn digest(inputs: &[Tensor]) -> Digest {
    Digest::of_parts(|part| {
        for Tensor { name, datatype, shape, data } in inputs {
            part(name.as_bytes());
            part(datatype.name().as_bytes());
            shape.iter().for_each(|axis| part(&axis.to_le_bytes()));
            match data {
                TensorData::Fixed(bytes) => part(bytes),
                TensorData::Strings(strings) => strings.iter().for_each(|text| part(text)),
            }
        }
    })
}
