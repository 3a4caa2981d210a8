//! The parameters of a request that change how it is served, the same over HTTP and gRPC.

use flyball_core::{Fault, Priority};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use std::time::Duration;

/// A parameter that must be a whole number, 0 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Whole(u64),
    /// Anything else. It is refused by name, once the request has been read.
    Other,
}

/// `timeout`: microseconds; 0 is none.
pub(super) fn timeout(given: Option<Number>) -> Result<Option<Duration>, Fault> {
    match given {
        None | Some(Number::Whole(0)) => Ok(None),
        Some(Number::Whole(micros)) => Ok(Some(Duration::from_micros(micros))),
        Some(Number::Other) => Err(Fault::malformed(
            "parameter 'timeout' must be a whole number of microseconds, 0 or more; 0 is no timeout",
        )),
    }
}

pub(super) fn priority(given: Option<Number>) -> Result<Priority, Fault> {
    match given {
        None => Ok(Priority::default()),
        Some(Number::Whole(level)) => Ok(Priority::from_v2(level)),
        Some(Number::Other) => Err(Fault::malformed(
            "parameter 'priority' must be a whole number, 0 or more; 1 is the most urgent, 0 the default",
        )),
    }
}

impl<'t> Deserialize<'t> for Number {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Number, D::Error> {
        deserializer.deserialize_any(NumberVisitor)
    }
}

struct NumberVisitor;

impl<'t> Visitor<'t> for NumberVisitor {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
        Ok(Number::Whole(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
        Ok(u64::try_from(number).map_or(Number::Other, Number::Whole))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Number, E> {
        Ok(Number::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Number, E> {
        Ok(Number::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<Number, E> {
        Ok(Number::Other)
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut list: A) -> Result<Number, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Number::Other)
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<Number, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Number::Other)
    }
}
