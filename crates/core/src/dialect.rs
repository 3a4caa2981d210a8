//! The seam between the walk and the protocols: a request in neutral form, an answer in neutral form, and the trait
//! by which each protocol turns bytes into the one and the other into its reply.
//!
//! The walk is written once against `Dialect`; what is particular to JSON or protobuf lives in the `wire` crate.

use crate::{Fault, Priority, RequestLimits, Tensor};
use bytes::{Bytes, BytesMut};
use bytestring::ByteString;
use smallvec::SmallVec;
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

/// One output that the caller asked for, and whether as raw bytes (where the protocol leaves the choice).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedOutput {
    pub name: ByteString,
    pub binary: Option<bool>,
}

/// A parsed inference request, free of its protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct InferRequest {
    pub model: ModelRef,
    pub id: Option<ByteString>,
    pub inputs: Vec<Tensor>,
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
    /// Which of the outputs the caller gets, in this order, and whether raw.
    pub places: &'a [(usize, bool)],
}

impl<'a> Answer<'a> {
    /// The outputs that the caller gets, in order, and whether raw. A place without an output gives none.
    pub fn each(&self) -> impl Iterator<Item = (&'a Tensor, bool)> + Clone {
        let outputs = self.outputs;
        self.places.iter().filter_map(move |&(place, raw)| Some((outputs.get(place)?, raw)))
    }
}

/// A protocol's grammar. Implementations hold what the request's head said (path, lengths) and nothing else.
pub trait Dialect {
    type Reply;

    /// The model, where the head already names it; a body that cannot be parsed is then counted under it.
    fn model(&self) -> Option<&ModelRef>;

    /// Whether the body may have this request parameter, as far as a glance tells: a request that is refused by its head is
    /// not parsed.
    fn mentions(&self, body: &Bytes, parameter: &str) -> bool;

    /// Reads a request. `spare` is empty; the inputs go into it, so that its capacity is used again.
    fn parse(&self, body: &Bytes, limits: &RequestLimits, spare: Vec<Tensor>) -> Result<InferRequest, Fault>;

    /// Writes an answer into `out`, which is empty, and takes what it wrote: the rest of its capacity is used again.
    /// It may still fail: JSON has no NaN.
    fn answer(&self, answer: &Answer<'_>, out: &mut BytesMut) -> Result<Self::Reply, Fault>;

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
        let places = [(2, true), (0, false), (7, true)];
        let answer = Answer { model: "m", version: "1", id: None, outputs: &outputs, places: &places };
        let each: Vec<_> = answer.each().map(|(tensor, raw)| (&*tensor.name, raw)).collect();
        assert_eq!(each, [("c", true), ("a", false)]);
    }
}
