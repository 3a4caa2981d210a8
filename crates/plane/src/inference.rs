//! A request for a model, in a dialect of the Open Inference Protocol: tensors in, tensors out.
//!
//! The frame and stages are those of a decision, without features and policy. The call is recorded only if the model serves a
//! decision.

#[cfg(test)]
mod tests;

use crate::classification::classify;
use crate::request::Request;
use crate::stages::admit::{Demand, admit};
use crate::stages::queue::{RunTicket, queue};
use crate::stages::route::{TensorTarget, tensor_target};
use crate::stages::tensor::tensor;
use crate::tensor_record::TensorRecord;
use crate::walk::Walk;
use crate::{Lane, Model, batch};
use bytes::Bytes;
use flyball_core::{Answer, Dialect, Fault, ModelRef, Sink, Stage};
use std::sync::Arc;

pub struct Inference<'d, D>(pub &'d D);

impl<S: Sink, D: Dialect> Request<S> for Inference<'_, D> {
    type Reply = D::Reply;
    type Target = TensorTarget<S::Model>;

    fn target(&self, lane: &Lane<S>, walk: &Walk<S>, body: &Bytes) -> Option<Result<Self::Target, Fault>> {
        self.0.model(body).map(|named| find(lane, walk, &named))
    }

    fn first_model(target: &Self::Target) -> (&Arc<S::Model>, Option<&Model<S::Model>>) {
        (&target.model.meter, Some(&target.model))
    }

    /// A deadline in the body can only be earlier than the head's, but it may be later than the deployment's.
    fn may_still_answer(&self, _: &Self::Target, _: &Fault, body: &Bytes, walk: &Walk<S>) -> bool {
        let may_be_later = walk.deadline.is_none() && self.0.mentions(body, "timeout");
        may_be_later || self.0.mentions(body, "priority")
    }

    async fn stages(
        &self,
        lane: &Lane<S>,
        target: Option<Self::Target>,
        body: Bytes,
        walk: &mut Walk<S>,
    ) -> Result<D::Reply, Fault> {
        let request = self.0.parse(&body, &lane.plane.limits.request, lane.spare());
        let mut request = walk.stage(Stage::Parse, request)?;
        let target = match target {
            Some(target) => Ok(target),
            None => find(lane, walk, &request.model).inspect(|target| walk.routed(&target.model.meter)),
        };
        let TensorTarget { model, decision } = walk.stage(Stage::Route, target)?;
        walk.due(request.timeout, model.terms.deadline);
        let demand =
            Demand { rows: model.rows_asked(&request), priority: request.priority, deadline: walk.deadline };
        let admitted = admit(lane, &model, demand)
            .and_then(|permit| Ok((permit, TensorRecord::reserve(lane, decision)?)));
        let (permit, record) = walk.stage(Stage::Admit, admitted)?;
        walk.pass(Stage::Features);
        let (inputs, selected) = walk.stage(Stage::Tensor, tensor(&mut request, &model))?;
        walk.rows = batch::rows(&inputs);
        let record = record.map(|record| record.with_inputs(&inputs));
        let ticket = RunTicket::new(permit, request.priority, walk.deadline);
        let mut outputs = walk.ran(queue(lane, &model, inputs, ticket).await)?.0.outputs;
        walk.pass(Stage::Policy);
        if let Some(shapes) = &model.client_shapes {
            shapes.to_client(&mut outputs)?;
        }
        classify(&mut outputs, &request.outputs, &model)?;
        match record {
            Some(record) => {
                record.offer(&model, walk);
                walk.stage(Stage::Record, ());
            }
            None => walk.pass(Stage::Record),
        }
        let id = request.id.as_deref();
        let answer =
            Answer { model: &model.name, version: &model.version, id, outputs: &outputs, places: &selected };
        let reply = lane.write(self.0.size_max(&answer), |out| self.0.answer(&answer, out));
        lane.keep(outputs);
        walk.stage(Stage::Respond, reply)
    }

    fn refuse(&self, fault: &Fault) -> D::Reply {
        self.0.refuse(fault)
    }
}

fn find<S: Sink>(lane: &Lane<S>, walk: &Walk<S>, named: &ModelRef) -> Result<TensorTarget<S::Model>, Fault> {
    tensor_target(&lane.plane.routes.load(), &walk.access, named, walk.draw)
}
