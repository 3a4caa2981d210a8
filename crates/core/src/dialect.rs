//! The boundary between the walk and the protocols.
//!
//! A protocol implements `Dialect`: it parses bytes into a neutral request and encodes a neutral response.
//! The walk is written once against that trait; JSON and protobuf details live in the `wire` crate.

use crate::{Decisions, Fault, Priority, RegionSpan, RequestLimits, RowSink, Tensor};
use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::time::Duration;

/// A model as the caller names it. Without a version, the deployment's route selects one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRef {
    pub name: ByteString,
    pub version: Option<ByteString>,
}

crate::labelled! {
    /// The protocol of a request; a bounded metric label.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Protocol {
        Http => "http",
        Grpc => "grpc",
    }
}

/// One requested output and its encoding.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedOutput {
    pub name: ByteString,
    /// Whether to send raw bytes, if the protocol leaves the choice.
    pub binary: Option<bool>,
    /// Return this many top scores with their classes instead of the tensor; 0 returns the tensor.
    pub classes: u32,
    /// The shared-memory destination of the tensor, instead of the response.
    pub region: Option<RegionSpan>,
}

/// A parsed inference request, independent of its protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct InferRequest {
    pub model: ModelRef,
    pub id: Option<ByteString>,
    pub inputs: Vec<Tensor>,
    /// A raw binary request: the whole body is the model's only input, and `inputs` is empty.
    ///
    /// Only the model knows the input's name, type and shape.
    pub whole: Option<Bytes>,
    /// Empty means all outputs, in the model's order.
    pub outputs: SmallVec<[RequestedOutput; 4]>,
    /// The default for outputs that do not specify an encoding.
    pub binary_outputs: bool,
    /// The caller's timeout, from the request's arrival; none means no limit.
    pub timeout: Option<Duration>,
    pub priority: Priority,
    /// Where inputs were copied from. Held until the request ends: a region in use stays registered.
    pub input_spans: Vec<RegionSpan>,
}

/// A model's outputs, before a protocol encodes them.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    pub model: &'a str,
    pub version: &'a str,
    pub id: Option<&'a str>,
    pub outputs: &'a [Tensor],
    /// The outputs to return, in this order.
    pub places: &'a [OutputSlot],
}

/// One output of a response: its index in the model and its encoding.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputSlot {
    pub output: usize,
    pub raw: bool,
    /// The region that the dialect writes the tensor to. The response then contains only its header.
    pub region: Option<RegionSpan>,
}

impl<'a> Answer<'a> {
    /// The outputs to return, in order. Skips a slot without an output.
    pub fn each(&self) -> impl Iterator<Item = (&'a Tensor, &'a OutputSlot)> + Clone {
        let outputs = self.outputs;
        self.places.iter().filter_map(move |place| Some((outputs.get(place.output)?, place)))
    }
}

/// A protocol's grammar. Implementations hold only facts from the request's head (path, lengths).
pub trait Dialect {
    type Reply;

    /// The requested model, if the head or a quick look at the body reveals it.
    ///
    /// The walk can then reject a request before parsing it, and counts it under its model in any case. If
    /// this returns a model, `parse` must return the same one.
    fn model(&self, body: &Bytes) -> Option<Cow<'_, ModelRef>>;

    /// Whether the body may contain this parameter, judging by a quick search.
    ///
    /// Used for requests that are rejected by their head and therefore never parsed.
    fn mentions(&self, body: &Bytes, parameter: &str) -> bool;

    /// Parses a request. `spare` is empty; it receives the inputs, so that its capacity is reused.
    fn parse(&self, body: &Bytes, limits: &RequestLimits, spare: Vec<Tensor>) -> Result<InferRequest, Fault>;

    /// The maximum size of a response in bytes, known before it is encoded.
    fn size_max(&self, answer: &Answer<'_>) -> usize;

    /// Encodes a response into `out`, which is empty, and splits off what it wrote.
    ///
    /// The remaining capacity is reused. Encoding may fail: JSON has no NaN.
    fn answer(&self, answer: &Answer<'_>, out: &mut BytesMut) -> Result<Self::Reply, Fault>;

    fn refuse(&self, fault: &Fault) -> Self::Reply;
}

/// The options of a decision request, without its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowsOptions {
    /// A single row, not a list: the response is its decision.
    pub single: bool,
    /// Return reasons for every outcome.
    pub explain: bool,
    pub timings: bool,
    /// A retry with the same key returns the same decision.
    pub idempotency_key: Option<ByteString>,
    /// The caller's timeout, from the request's arrival; none means no limit.
    pub timeout: Option<Duration>,
    pub priority: Priority,
}

/// A protocol's grammar for decisions. Like `Dialect`, it holds only facts from the request's head.
pub trait DecisionDialect {
    type Reply;

    /// The requested decision, taken from the head.
    fn decision(&self) -> &str;

    /// Whether the head has an idempotency key: the response may exist already.
    fn keyed(&self) -> bool;

    /// Parses the rows and passes them to `take` one by one.
    ///
    /// `take` stores field faults with their row. The fault returned here concerns the whole request.
    fn rows(
        &self,
        body: &Bytes,
        limits: &RequestLimits,
        take: &mut dyn RowSink,
    ) -> Result<RowsOptions, Fault>;

    /// Encodes a response into `out`, which is empty, and splits off what it wrote. The remaining capacity is
    /// reused.
    fn answer(&self, decisions: &Decisions, out: &mut BytesMut) -> Result<Self::Reply, Fault>;

    fn refuse(&self, fault: &Fault) -> Self::Reply;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataType, Shape, TensorData};

    #[test]
    fn an_answer_has_its_outputs_in_the_order_of_their_places() {
        let data = TensorData::Fixed(Bytes::new());
        let outputs = ["a", "b", "c"].map(|name| Tensor {
            name: ByteString::from_static(name),
            datatype: DataType::Fp32,
            shape: Shape::from_slice(&[0]),
            data: data.clone(),
        });
        let places =
            [(2, true), (0, false), (7, true)].map(|(output, raw)| OutputSlot { output, raw, region: None });
        let answer = Answer { model: "m", version: "1", id: None, outputs: &outputs, places: &places };
        let each: Vec<_> = answer.each().map(|(tensor, place)| (&*tensor.name, place.raw)).collect();
        assert_eq!(each, [("c", true), ("a", false)]);
    }
}
