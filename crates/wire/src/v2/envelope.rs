//! The JSON part of a request as it stands in the text. Tensor data stays raw here: its datatype may come after it,
//! so it is read in a second pass. Keys may come in any order; unknown keys and parameters are ignored.

use flyball_core::{RequestLimits, Shape};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Axes that are kept at most. The configured limit is far below; this one only bounds what a hostile shape costs.
const AXES_KEPT_MAX: usize = 64;

#[derive(Debug)]
pub(super) struct Envelope<'t> {
    pub(super) id: Option<String>,
    pub(super) binary_outputs: bool,
    pub(super) inputs: Vec<Input<'t>>,
    pub(super) outputs: Vec<Output>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Input<'t> {
    pub(super) name: String,
    #[serde(borrow)]
    pub(super) datatype: Cow<'t, str>,
    pub(super) shape: Axes,
    #[serde(default)]
    pub(super) parameters: Option<InputParameters>,
    #[serde(borrow, default)]
    pub(super) data: Option<&'t RawValue>,
}

#[derive(Debug, Deserialize)]
pub(super) struct InputParameters {
    pub(super) binary_data_size: Option<usize>,
    pub(super) shared_memory_region: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Output {
    pub(super) name: String,
    #[serde(default)]
    pub(super) parameters: Option<OutputParameters>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OutputParameters {
    pub(super) binary_data: Option<bool>,
    pub(super) shared_memory_region: Option<IgnoredAny>,
    pub(super) classification: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct RequestParameters {
    binary_data_output: Option<bool>,
}

/// A shape: how many axes were written, and as many of them as are kept.
#[derive(Debug, Default)]
pub(super) struct Axes {
    pub(super) rank: usize,
    pub(super) kept: Shape,
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
    pub(super) fn read(text: &'t str, limits: &RequestLimits) -> serde_json::Result<Envelope<'t>> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let envelope = EnvelopeSeed { limits }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(envelope)
    }
}

struct EnvelopeSeed<'l> {
    limits: &'l RequestLimits,
}

impl<'t> DeserializeSeed<'t> for EnvelopeSeed<'_> {
    type Value = Envelope<'t>;

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<Envelope<'t>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'t> Visitor<'t> for EnvelopeSeed<'_> {
    type Value = Envelope<'t>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a V2 inference request, which is an object with 'inputs'")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Envelope<'t>, A::Error> {
        let max = self.limits.tensors_max;
        let (mut id, mut parameters, mut inputs, mut outputs) = (None, None, None, None);
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::Id => once("id", &mut id, map.next_value::<Option<String>>()?)?,
                Key::Parameters => {
                    once("parameters", &mut parameters, map.next_value::<Option<RequestParameters>>()?)?;
                }
                Key::Inputs => once("inputs", &mut inputs, map.next_value_seed(list("inputs", max))?)?,
                Key::Outputs => once("outputs", &mut outputs, map.next_value_seed(list("outputs", max))?)?,
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let asked = parameters.flatten().and_then(|parameters| parameters.binary_data_output);
        Ok(Envelope {
            id: id.flatten(),
            binary_outputs: asked.unwrap_or(false),
            inputs: inputs.ok_or_else(|| A::Error::missing_field("inputs"))?,
            outputs: outputs.unwrap_or_default(),
        })
    }
}

fn once<T, E: Error>(key: &'static str, slot: &mut Option<T>, value: T) -> Result<(), E> {
    if slot.replace(value).is_some() { Err(E::duplicate_field(key)) } else { Ok(()) }
}

/// A list that stops at its limit, before the items beyond it take memory.
struct List<T> {
    what: &'static str,
    max: usize,
    items: PhantomData<T>,
}

fn list<T>(what: &'static str, max: usize) -> List<T> {
    List { what, max, items: PhantomData }
}

impl<'t, T: Deserialize<'t>> DeserializeSeed<'t> for List<T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'t, T: Deserialize<'t>> Visitor<'t> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' to be a list of objects", self.what)
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut sequence: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            if items.len() == self.max {
                return Err(A::Error::custom(format_args!(
                    "more {} than the {} that are allowed",
                    self.what, self.max
                )));
            }
            items.push(item);
        }
        Ok(items)
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
                    axes.rank += 1;
                    if axes.rank <= AXES_KEPT_MAX {
                        axes.kept.push(axis);
                    }
                }
                Ok(axes)
            }
        }

        deserializer.deserialize_seq(AxesVisitor)
    }
}
