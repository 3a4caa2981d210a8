//! The seam between the walk and the protocols: a request in neutral form, an answer in neutral form, and the trait
//! by which each protocol turns bytes into the one and the other into its reply.
//!
//! The walk is written once against `Dialect`; what is particular to JSON or protobuf lives in the `wire` crate.

use crate::{Decisions, Fault, Priority, RegionSpan, RequestLimits, TakeRows, Tensor};
use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::time::Duration;

/// A model as a caller names it. Without a version, the deployment's route decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRef {
    pub name: ByteString,
    pub version: Option<ByteString>,
}

/// How a request came in; a bounded metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http,
    Grpc,
}

impl Protocol {
    pub const ALL: [Protocol; 2] = [Protocol::Http, Protocol::Grpc];

    pub const fn label(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Grpc => "grpc",
        }
    }

    pub const fn index(self) -> usize {
        self as usize
    }
}

/// One output that the caller asked for, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestedOutput {
    pub name: ByteString,
    /// Whether as raw bytes, where the protocol leaves the choice.
    pub binary: Option<bool>,
    /// So many of the highest scores with their classes, instead of the tensor; 0: the tensor.
    pub classes: u32,
    /// Where the tensor is to be put, instead of into the answer.
    pub region: Option<RegionSpan>,
}

/// A parsed inference request, free of its protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct InferRequest {
    pub model: ModelRef,
    pub id: Option<ByteString>,
    pub inputs: Vec<Tensor>,
    /// A raw binary request: the whole body is the model's only input, and `inputs` is empty. Only the model knows what its
    /// name, type and shape are.
    pub whole: Option<Bytes>,
    /// Empty means all outputs, in the model's order.
    pub outputs: SmallVec<[RequestedOutput; 4]>,
    /// The default for outputs that do not say.
    pub binary_outputs: bool,
    /// How long the caller waits, from the request's arrival; none: as long as it takes.
    pub timeout: Option<Duration>,
    pub priority: Priority,
}

/// What the model gave, before it is written in the caller's protocol.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    pub model: &'a str,
    pub version: &'a str,
    pub id: Option<&'a str>,
    pub outputs: &'a [Tensor],
    /// Which of the outputs the caller gets, in this order.
    pub places: &'a [Place],
}

/// One output of an answer: which of the model's, and how it goes back.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    pub output: usize,
    pub raw: bool,
    /// Where the dialect writes it; the answer then has its head only.
    pub region: Option<RegionSpan>,
}

impl<'a> Answer<'a> {
    /// The outputs that the caller gets, in order. A place without an output gives none.
    pub fn each(&self) -> impl Iterator<Item = (&'a Tensor, &'a Place)> + Clone {
        let outputs = self.outputs;
        self.places.iter().filter_map(move |place| Some((outputs.get(place.output)?, place)))
    }
}

/// A protocol's grammar. Implementations hold what the request's head said (path, lengths) and nothing else.
pub trait Dialect {
    type Reply;

    /// The model that is asked for, where the head or a glance at the body tells: a request that cannot be served is then
    /// refused before it is parsed, and is counted under its model whatever becomes of it. Where it names a model, it is the
    /// one that `parse` finds.
    fn model(&self, body: &Bytes) -> Option<Cow<'_, ModelRef>>;

    /// Whether the body may have this request parameter, as far as a glance tells: a request that is refused by its head is
    /// not parsed.
    fn mentions(&self, body: &Bytes, parameter: &str) -> bool;

    /// Reads a request. `spare` is empty; the inputs go into it, so that its capacity is used again.
    fn parse(&self, body: &Bytes, limits: &RequestLimits, spare: Vec<Tensor>) -> Result<InferRequest, Fault>;

    /// Bytes that an answer takes at most, known before any of them is written.
    fn size_max(&self, answer: &Answer<'_>) -> usize;

    /// Writes an answer into `out`, which is empty, and takes what it wrote: the rest of its capacity is used again.
    /// It may still fail: JSON has no NaN.
    fn answer(&self, answer: &Answer<'_>, out: &mut BytesMut) -> Result<Self::Reply, Fault>;

    fn refuse(&self, fault: &Fault) -> Self::Reply;
}

/// What a request for decisions says beside its rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowsAsk {
    /// One row, and not a list: its decision is the answer.
    pub single: bool,
    /// Reasons are wanted, whatever the outcome.
    pub explain: bool,
    pub timings: bool,
    /// A retry with the same key gets the same decision.
    pub idempotency_key: Option<ByteString>,
    /// How long the caller waits, from the request's arrival; none: as long as it takes.
    pub timeout: Option<Duration>,
    pub priority: Priority,
}

/// A protocol's grammar for decisions. Like `Dialect`: what the request's head said, and nothing else.
pub trait DecisionDialect {
    type Reply;

    /// The decision that is asked for, by the head.
    fn decision(&self) -> &str;

    /// Whether the head has an idempotency key: the answer may be there already.
    fn keyed(&self) -> bool;

    /// Reads the rows and hands them over one by one. What is wrong with a field is its row's fault and the reader's to
    /// keep; the fault that is given here is one of the whole request.
    fn rows(&self, body: &Bytes, limits: &RequestLimits, take: &mut dyn TakeRows) -> Result<RowsAsk, Fault>;

    /// Writes an answer into `out`, which is empty, and takes what it wrote: the rest of its capacity is used again.
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
            [(2, true), (0, false), (7, true)].map(|(output, raw)| Place { output, raw, region: None });
        let answer = Answer { model: "m", version: "1", id: None, outputs: &outputs, places: &places };
        let each: Vec<_> = answer.each().map(|(tensor, place)| (&*tensor.name, place.raw)).collect();
        assert_eq!(each, [("c", true), ("a", false)]);
    }
}
