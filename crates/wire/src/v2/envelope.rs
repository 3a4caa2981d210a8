//! The JSON part of a request, in one pass over the text.
//!
//! Tensor data stays raw here: its datatype may come after it, so it is parsed in a second pass. Keys may
//! come in any order; unknown keys and parameters are ignored. Texts without escapes are borrowed, and each
//! tensor is passed on as soon as it is read: no list is built.

use super::check::Axes;
use super::parameters::{Known, Parameter, is_reserved};
use super::shared::Shared;
use flyball_core::{Fault, RequestLimits};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Receives the parts of a request, in text order.
pub(super) trait Parts<'t> {
    fn input(&mut self, input: Input<'t>) -> Result<(), Fault>;
    fn output(&mut self, output: Output<'t>) -> Result<(), Fault>;
}

/// Why a text is not a request: invalid JSON, or a rejected part.
pub(super) enum Unread {
    Json(serde_json::Error),
    Part(Fault),
}

/// The fields besides the parts.
#[derive(Debug)]
pub(super) struct Envelope<'t> {
    pub(super) id: Option<Text<'t>>,
    pub(super) binary_outputs: bool,
    pub(super) parameters: Known<'t>,
}

/// A separate text type, because an `Option<Cow>` would not borrow.
#[derive(Debug, Deserialize)]
pub(super) struct Text<'t>(#[serde(borrow)] pub(super) Cow<'t, str>);

#[derive(Debug, Deserialize)]
pub(super) struct Input<'t> {
    #[serde(borrow)]
    pub(super) name: Text<'t>,
    #[serde(borrow)]
    pub(super) datatype: Text<'t>,
    pub(super) shape: Axes,
    #[serde(borrow, default)]
    pub(super) parameters: Option<TensorParameters<'t>>,
    #[serde(borrow, default)]
    pub(super) data: Option<&'t RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Output<'t> {
    #[serde(borrow)]
    pub(super) name: Text<'t>,
    #[serde(borrow, default)]
    pub(super) parameters: Option<TensorParameters<'t>>,
}

/// The known parameters of inputs and outputs. Each side ignores those that do not concern it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct TensorParameters<'t> {
    pub(super) binary_data_size: Option<usize>,
    pub(super) binary_data: Option<bool>,
    #[serde(borrow)]
    pub(super) classification: Option<Parameter<'t>>,
    #[serde(borrow)]
    shared_memory_region: Option<Parameter<'t>>,
    #[serde(borrow)]
    shared_memory_offset: Option<Parameter<'t>>,
    #[serde(borrow)]
    shared_memory_byte_size: Option<Parameter<'t>>,
}

impl<'t> TensorParameters<'t> {
    pub(super) fn shared(&mut self) -> Shared<'t> {
        Shared {
            region: self.shared_memory_region.take(),
            offset: self.shared_memory_offset.take(),
            byte_size: self.shared_memory_byte_size.take(),
        }
    }
}

/// Written by hand: a name with a reserved prefix is rejected, and derived code sees whole names only.
#[derive(Default)]
struct RequestParameters<'t> {
    binary_data_output: Option<bool>,
    known: Known<'t>,
}

impl<'t> Deserialize<'t> for RequestParameters<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<RequestParameters<'t>, D::Error> {
        deserializer.deserialize_map(RequestParametersVisitor)
    }
}

struct RequestParametersVisitor;

impl<'t> Visitor<'t> for RequestParametersVisitor {
    type Value = RequestParameters<'t>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("'parameters' to be an object")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<RequestParameters<'t>, A::Error> {
        let (mut binary, mut timeout, mut priority, mut reserved) = (None, None, None, None);
        let (mut id, mut start, mut end) = (None, None, None);
        while let Some(Text(key)) = map.next_key::<Text<'t>>()? {
            match key.as_ref() {
                "binary_data_output" => once("binary_data_output", &mut binary, map.next_value()?)?,
                "timeout" => once("timeout", &mut timeout, map.next_value()?)?,
                "priority" => once("priority", &mut priority, map.next_value()?)?,
                "sequence_id" => once("sequence_id", &mut id, map.next_value()?)?,
                "sequence_start" => once("sequence_start", &mut start, map.next_value()?)?,
                "sequence_end" => once("sequence_end", &mut end, map.next_value()?)?,
                name => {
                    if is_reserved(name) {
                        reserved.get_or_insert(key);
                    }
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let sequence: [Option<Option<Parameter<'t>>>; 3] = [id, start, end];
        let in_sequence = sequence.into_iter().flatten().flatten().any(|given| !given.is_nothing());
        let known = Known { timeout: timeout.flatten(), priority: priority.flatten(), in_sequence, reserved };
        Ok(RequestParameters { binary_data_output: binary.flatten(), known })
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Key {
    Id,
    Parameters,
    Inputs,
    Outputs,
    #[serde(other)]
    Other,
}

impl<'t> Envelope<'t> {
    pub(super) fn read(
        text: &'t str,
        limits: &RequestLimits,
        parts: &mut impl Parts<'t>,
    ) -> Result<Envelope<'t>, Unread> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let mut refused = None;
        let visitor = EnvelopeVisitor { max: limits.tensors_max, parts, refused: &mut refused };
        let envelope = deserializer.deserialize_map(visitor);
        match (refused, envelope) {
            (Some(fault), _) => Err(Unread::Part(fault)),
            (None, Err(error)) => Err(Unread::Json(error)),
            (None, Ok(envelope)) => deserializer.end().map(|()| envelope).map_err(Unread::Json),
        }
    }
}

/// Serde only carries its own errors, so a part's fault waits in `refused`.
struct EnvelopeVisitor<'s, P> {
    /// Maximum inputs, and maximum outputs.
    max: usize,
    parts: &'s mut P,
    refused: &'s mut Option<Fault>,
}

impl<'t, P: Parts<'t>> Visitor<'t> for EnvelopeVisitor<'_, P> {
    type Value = Envelope<'t>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a V2 inference request, which is an object with 'inputs'")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Envelope<'t>, A::Error> {
        let EnvelopeVisitor { max, parts, refused } = self;
        let (mut id, mut parameters, mut inputs, mut outputs) = (None, None, None, None);
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Id => once("id", &mut id, map.next_value::<Option<Text<'t>>>()?)?,
                Key::Parameters => {
                    once("parameters", &mut parameters, map.next_value::<Option<RequestParameters<'t>>>()?)?;
                }
                Key::Inputs => {
                    let take = |input| parts.input(input);
                    let list = List { what: "inputs", max, refused, take, items: PhantomData };
                    once("inputs", &mut inputs, map.next_value_seed(list)?)?;
                }
                Key::Outputs => {
                    let take = |output| parts.output(output);
                    let list = List { what: "outputs", max, refused, take, items: PhantomData };
                    once("outputs", &mut outputs, map.next_value_seed(list)?)?;
                }
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        inputs.ok_or_else(|| A::Error::missing_field("inputs"))?;
        let parameters = parameters.flatten().unwrap_or_default();
        let binary_outputs = parameters.binary_data_output.unwrap_or(false);
        Ok(Envelope { id: id.flatten(), binary_outputs, parameters: parameters.known })
    }
}

fn once<T, E: Error>(key: &'static str, slot: &mut Option<T>, value: T) -> Result<(), E> {
    if slot.replace(value).is_some() { Err(E::duplicate_field(key)) } else { Ok(()) }
}

/// A list whose items are passed on one by one. It stops at its limit.
struct List<'s, T, F: FnMut(T) -> Result<(), Fault>> {
    what: &'static str,
    max: usize,
    refused: &'s mut Option<Fault>,
    take: F,
    items: PhantomData<T>,
}

impl<'t, T: Deserialize<'t>, F: FnMut(T) -> Result<(), Fault>> DeserializeSeed<'t> for List<'_, T, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'t, T: Deserialize<'t>, F: FnMut(T) -> Result<(), Fault>> Visitor<'t> for List<'_, T, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' to be a list of objects", self.what)
    }

    fn visit_seq<A: SeqAccess<'t>>(mut self, mut sequence: A) -> Result<(), A::Error> {
        let mut count = 0;
        while let Some(item) = sequence.next_element()? {
            if count == self.max {
                return Err(A::Error::custom(format_args!(
                    "more {} than the {} that are allowed",
                    self.what, self.max
                )));
            }
            count += 1;
            if let Err(fault) = (self.take)(item) {
                *self.refused = Some(fault);
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

impl<'t> Deserialize<'t> for Axes {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Axes, D::Error> {
        struct AxesVisitor;

        impl<'t> Visitor<'t> for AxesVisitor {
            type Value = Axes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("'shape' to be a list of whole numbers")
            }

            fn visit_seq<A: SeqAccess<'t>>(self, mut sequence: A) -> Result<Axes, A::Error> {
                let mut axes = Axes::default();
                while let Some(axis) = sequence.next_element()? {
                    axes.push(axis);
                }
                Ok(axes)
            }
        }

        deserializer.deserialize_seq(AxesVisitor)
    }
}
