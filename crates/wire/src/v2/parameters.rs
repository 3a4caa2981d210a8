//! Request and tensor parameters that affect serving, equal for HTTP and gRPC.

use flyball_core::{Fault, Priority, triton_texts};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// A parameter's value, in the types that known parameters use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Parameter<'t> {
    Whole(u64),
    Flag(bool),
    Text(Cow<'t, str>),
    /// Anything else. Rejected by name, once the request is parsed.
    Other,
}

/// The known parameters of a whole request.
#[derive(Debug, Default)]
pub(super) struct Known<'t> {
    pub(super) timeout: Option<Parameter<'t>>,
    pub(super) priority: Option<Parameter<'t>>,
    /// `sequence_id`, `sequence_start` or `sequence_end` has a value.
    pub(super) in_sequence: bool,
    /// The first parameter whose name is reserved.
    pub(super) reserved: Option<Cow<'t, str>>,
}

/// The one reserved parameter that a request over gRPC may have: it asks streams for an empty last response.
pub(super) const EMPTY_FINAL: &str = "triton_enable_empty_final_response";

/// Whether Triton keeps this name for itself.
pub(super) fn is_reserved(name: &str) -> bool {
    name.starts_with(triton_texts::RESERVED_PREFIX)
}

impl Known<'_> {
    /// The caller's timeout and the request's priority.
    pub(super) fn check(&self) -> Result<(Option<Duration>, Priority), Fault> {
        if let Some(name) = &self.reserved {
            return Err(Fault::malformed(triton_texts::reserved_parameter(name)));
        }
        if self.in_sequence {
            return Err(Fault::not_offered(
                "flyball serves stateless models, and has no sequences; send requests without sequence_id, \
                 sequence_start and sequence_end",
            ));
        }
        Ok((timeout(self.timeout.as_ref())?, priority(self.priority.as_ref())?))
    }
}

impl Parameter<'_> {
    /// 0, false or an empty text: what clients send for no value.
    pub(super) fn is_nothing(&self) -> bool {
        match self {
            Parameter::Whole(number) => *number == 0,
            Parameter::Flag(flag) => !flag,
            Parameter::Text(text) => text.is_empty(),
            Parameter::Other => false,
        }
    }
}

/// `timeout`: microseconds; 0 is none.
fn timeout(given: Option<&Parameter<'_>>) -> Result<Option<Duration>, Fault> {
    match given {
        None | Some(Parameter::Whole(0)) => Ok(None),
        Some(Parameter::Whole(micros)) => Ok(Some(Duration::from_micros(*micros))),
        Some(_) => Err(Fault::malformed(
            "parameter 'timeout' must be a whole number of microseconds, 0 or more; 0 is no timeout",
        )),
    }
}

fn priority(given: Option<&Parameter<'_>>) -> Result<Priority, Fault> {
    match given {
        None => Ok(Priority::default()),
        Some(Parameter::Whole(level)) => Ok(Priority::from_v2(*level)),
        Some(_) => Err(Fault::malformed(
            "parameter 'priority' must be a whole number, 0 or more; 1 is the most urgent, 0 the default",
        )),
    }
}

/// `classification` of an output: the number of classes; 0 is the tensor itself.
pub(super) fn classes(output: &str, given: Option<&Parameter<'_>>) -> Result<u32, Fault> {
    match given {
        None => Ok(0),
        // No tensor has more, and there are never more classes than elements.
        Some(Parameter::Whole(classes)) => Ok(u32::try_from(*classes).unwrap_or(u32::MAX)),
        Some(_) => Err(Fault::malformed(format!(
            "output '{output}': classification must be a whole number, 0 or more: how many classes to give"
        ))),
    }
}

impl<'d: 't, 't> Deserialize<'d> for Parameter<'t> {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Parameter<'t>, D::Error> {
        deserializer.deserialize_any(ParameterVisitor)
    }
}

struct ParameterVisitor;

impl<'t> Visitor<'t> for ParameterVisitor {
    type Value = Parameter<'t>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a parameter")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Parameter<'t>, E> {
        Ok(Parameter::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Parameter<'t>, E> {
        Ok(u64::try_from(number).map_or(Parameter::Other, Parameter::Whole))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Parameter<'t>, E> {
        Ok(Parameter::Other)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Parameter<'t>, E> {
        Ok(Parameter::Flag(flag))
    }

    fn visit_borrowed_str<E>(self, text: &'t str) -> Result<Parameter<'t>, E> {
        Ok(Parameter::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Parameter<'t>, E> {
        Ok(Parameter::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut list: A) -> Result<Parameter<'t>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Parameter::Other)
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Parameter<'t>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Parameter::Other)
    }
}
