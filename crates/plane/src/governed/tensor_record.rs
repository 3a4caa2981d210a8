//! The record of tensors that were sent past a decision to its model, where its document says `expose: tensors`.
//!
//! Tensors do not say which of their values are personal, so no value is recorded: a digest of the inputs is, and that is
//! encrypted as personal data are. Such a call is never answered without a place for its record.

use super::entry::{Pairs, Written, never};
use super::record::fault;
use crate::walk::Walk;
use crate::{Decision, Lane, Model};
use flyball_core::{Digest, Fault, JournalRecord, LaneRecorder, RecordKind, Sink, Stage, Tensor, TensorData};
use minicbor::Encoder;
use std::sync::Arc;

pub(crate) struct TensorRecord<'a, S: Sink> {
    lane: &'a Lane<S>,
    recorder: &'a dyn LaneRecorder,
    decision: Arc<Decision<S::Model>>,
    inputs: Digest,
    held: bool,
}

impl<'a, S: Sink> TensorRecord<'a, S> {
    /// Holds a place for the record; none where there is no decision, or nobody who keeps records.
    pub(crate) fn hold(
        lane: &'a Lane<S>,
        decision: Option<Arc<Decision<S::Model>>>,
    ) -> Result<Option<TensorRecord<'a, S>>, Fault> {
        let (Some(decision), Some(recorder)) = (decision, lane.desk.recorder.as_deref()) else {
            return Ok(None);
        };
        recorder.reserve(1).map_err(|why| fault(Stage::Admit, why))?;
        Ok(Some(TensorRecord { lane, recorder, decision, inputs: Digest::of(b""), held: true }))
    }

    /// Takes what is sent down, before the model has it.
    pub(crate) fn of(mut self, inputs: &[Tensor]) -> TensorRecord<'a, S> {
        self.inputs = digest(inputs);
        self
    }

    /// The model has answered.
    pub(crate) fn keep(mut self, model: &Model<S::Model>, walk: &Walk<S>) {
        let means = &self.lane.plane.means;
        let mut entry = self.recorder.blank();
        entry.kind = RecordKind::Tensors;
        entry.id = self.lane.desk.ids.id(means.wall.now_ms());
        never(self.write(model, walk, means.wall.now_ns(), &mut entry));
        self.held = false;
        self.recorder.offer(entry);
    }

    fn write(
        &self,
        model: &Model<S::Model>,
        walk: &Walk<S>,
        at_ns: i64,
        entry: &mut JournalRecord,
    ) -> Written {
        let mut pairs = Pairs::new(&mut entry.pairs);
        pairs.key("at")?.i64(at_ns)?;
        pairs.text("decision", Some(&self.decision.name))?;
        let by = self.decision.by.iter().find(|by| by.version == model.version);
        let out = pairs.key("models")?.array(by.iter().len() as u64)?;
        if let Some(by) = by {
            out.array(3)?.str(&by.model)?.str(&by.version)?.bytes(by.digest.bytes())?;
        }
        pairs.text("protocol", Some(walk.protocol.label()))?;
        pairs.text("caller", walk.caller_name().map(|name| &**name))?;
        pairs.text("trace", walk.trace())?;
        pairs.key("rows")?.u64(walk.rows as u64)?;
        entry.pairs_count = pairs.count;
        let personal = &mut Encoder::new(&mut entry.personal);
        personal.map(1)?.str("input")?.map(1)?.str("tensors")?.bytes(self.inputs.bytes())?.ok()
    }
}

impl<S: Sink> Drop for TensorRecord<'_, S> {
    fn drop(&mut self) {
        if self.held {
            self.recorder.release(1);
        }
    }
}

/// Over names, types, shapes and elements, in the model's order.
fn digest(inputs: &[Tensor]) -> Digest {
    Digest::of_parts(|part| {
        for Tensor { name, datatype, shape, data } in inputs {
            part(name.as_bytes());
            part(datatype.name().as_bytes());
            shape.iter().for_each(|axis| part(&axis.to_le_bytes()));
            match data {
                TensorData::Fixed(bytes) => part(bytes),
                TensorData::Strings(strings) => strings.iter().for_each(|text| part(text.as_bytes())),
            }
        }
    })
}
