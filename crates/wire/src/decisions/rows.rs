//! Parses a JSON body of one or many rows in one pass.
//!
//! Each field is passed on as it is read. Keys may come in any order; an unknown or duplicate key rejects the
//! request.

use flyball_core::{RequestLimits, RowRoute, RowSink, RowsOptions, Scalar};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;

/// Parses the body into its options; `take` receives the rows.
pub(super) fn read(
    text: &str,
    limits: &RequestLimits,
    take: &mut dyn RowSink,
) -> Result<RowsOptions, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let ask = deserializer.deserialize_map(Body { limits, take })?;
    deserializer.end()?;
    Ok(ask)
}

const KEYS: &str = "input, rows, explain, timings";
const ROW_KEYS: &str = "id, input";
const ROW_KEYS_WITH_WAYS: &str = "id, input, as";
/// Maximum unknown keys named in an error, and their maximum length.
const NAMED_MAX: usize = 8;
const NAME_BYTES_MAX: usize = 64;

#[derive(Deserialize)]
#[serde(transparent)]
struct Name<'t>(#[serde(borrow)] Cow<'t, str>);

struct Body<'s> {
    limits: &'s RequestLimits,
    take: &'s mut dyn RowSink,
}

impl<'t> Visitor<'t> for Body<'_> {
    type Value = RowsOptions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a decision request, which is an object with 'input' or 'rows'")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<RowsOptions, A::Error> {
        let Body { limits, take } = self;
        let (mut input, mut rows): (Option<()>, Option<()>) = (None, None);
        let (mut explain, mut timings): (Option<bool>, Option<bool>) = (None, None);
        let mut unknown = Unknown::default();
        while let Some(Name(key)) = map.next_key()? {
            match &*key {
                "input" if rows.is_some() => return Err(both()),
                "rows" if input.is_some() => return Err(both()),
                "input" => {
                    once("input", &mut input)?;
                    take.row(None);
                    map.next_value_seed(Fields(take))?;
                }
                "rows" => {
                    once("rows", &mut rows)?;
                    map.next_value_seed(Rows { limits, take })?;
                }
                "explain" => {
                    once("explain", &mut explain)?;
                    explain = Some(map.next_value_seed(Flag("explain"))?);
                }
                "timings" => {
                    once("timings", &mut timings)?;
                    timings = Some(map.next_value_seed(Flag("timings"))?);
                }
                _ => {
                    unknown.note(key);
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        if input.is_none() && rows.is_none() {
            unknown.refuse_outside_input()?;
            return Err(A::Error::custom(
                "the request has neither 'input', for one row, nor 'rows', for many",
            ));
        }
        unknown.refuse("the request", KEYS)?;
        let (explain, timings) = (explain.unwrap_or(false), timings.unwrap_or(false));
        Ok(RowsOptions { single: input.is_some(), explain, timings, ..RowsOptions::default() })
    }
}

fn both<E: Error>() -> E {
    E::custom("the request has both 'input' and 'rows'; give 'input' for one row or 'rows' for many")
}

/// Marks a key as seen.
fn once<T: Default, E: Error>(key: &'static str, slot: &mut Option<T>) -> Result<(), E> {
    if slot.replace(T::default()).is_some() { Err(E::duplicate_field(key)) } else { Ok(()) }
}

/// Unknown keys, collected to report all at once.
#[derive(Default)]
struct Unknown<'t>(SmallVec<[Cow<'t, str>; 0]>);

impl<'t> Unknown<'t> {
    fn note(&mut self, key: Cow<'t, str>) {
        if self.0.len() < NAMED_MAX {
            self.0.push(key);
        }
    }

    fn refuse<E: Error>(self, what: &str, known: &str) -> Result<(), E> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(E::custom(format_args!("{what} has no key {}; its keys are {known}", self.names())))
    }

    /// The first mistake of many callers: the row itself as the request.
    fn refuse_outside_input<E: Error>(&self) -> Result<(), E> {
        let field = match self.0.len() {
            0 => return Ok(()),
            1 => "field",
            _ => "fields",
        };
        Err(E::custom(format_args!("{field} {} must be inside \"input\"", self.names())))
    }

    fn names(&self) -> String {
        let short = |key: &Cow<'_, str>| format!("'{}'", &key[..key.floor_char_boundary(NAME_BYTES_MAX)]);
        self.0.iter().map(short).collect::<Vec<_>>().join(", ")
    }
}

/// `true` or `false`.
struct Flag(&'static str);

impl<'t> DeserializeSeed<'t> for Flag {
    type Value = bool;

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_bool(self)
    }
}

impl Visitor<'_> for Flag {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' to be true or false", self.0)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<bool, E> {
        Ok(value)
    }
}

/// A list of rows, each passed on as soon as it is read.
struct Rows<'s> {
    limits: &'s RequestLimits,
    take: &'s mut dyn RowSink,
}

impl<'t> DeserializeSeed<'t> for Rows<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'t> Visitor<'t> for Rows<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("'rows' to be a list of objects with 'id' and 'input'")
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut rows: A) -> Result<(), A::Error> {
        let Rows { limits, take } = self;
        let most = limits.decision_rows_max;
        let mut count = 0;
        while rows.next_element_seed(Row { limits, take: &mut *take, room: count < most })?.is_some() {
            count += 1;
        }
        if count == 0 {
            return Err(A::Error::custom(format_args!("'rows' is empty; it has 1 to {most} rows")));
        }
        Ok(())
    }
}

struct Row<'s> {
    limits: &'s RequestLimits,
    take: &'s mut dyn RowSink,
    room: bool,
}

impl<'t> DeserializeSeed<'t> for Row<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'t> Visitor<'t> for Row<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a row to be an object with 'id' and 'input'")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        let Row { limits, take, room } = self;
        if !room {
            let most = limits.decision_rows_max;
            return Err(A::Error::custom(format_args!(
                "more rows than the limit of {most}; send several requests"
            )));
        }
        let (mut id, mut input): (Option<Option<Name<'t>>>, Option<()>) = (None, None);
        // Fields before their row's id wait as raw text.
        let mut waiting: Option<&'t RawValue> = None;
        let mut chosen: Option<Chosen<'t>> = None;
        let mut unknown = Unknown::default();
        while let Some(Name(key)) = map.next_key()? {
            match &*key {
                "id" => {
                    once("id", &mut id)?;
                    let given = map.next_value::<Option<Name<'t>>>()?;
                    check_id(given.as_ref(), limits)?;
                    id = Some(given);
                }
                "input" => {
                    once("input", &mut input)?;
                    if let Some(id) = &id {
                        take.row(id.as_ref().map(|name| &*name.0));
                        map.next_value_seed(Fields(&mut *take))?;
                    } else {
                        waiting = Some(map.next_value()?);
                    }
                }
                "as" if take.accepts_routes() => {
                    if chosen.replace(map.next_value()?).is_some() {
                        return Err(A::Error::duplicate_field("as"));
                    }
                }
                _ => {
                    unknown.note(key);
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        unknown.refuse("a row", if take.accepts_routes() { ROW_KEYS_WITH_WAYS } else { ROW_KEYS })?;
        input.ok_or_else(|| A::Error::missing_field("input"))?;
        if let Some(fields) = waiting {
            take.row(id.flatten().as_ref().map(|name| &*name.0));
            let mut fields = serde_json::Deserializer::from_str(fields.get());
            fields.deserialize_map(Fields(&mut *take)).map_err(A::Error::custom)?;
        }
        if let Some(chosen) = chosen {
            take.route(chosen.route()?);
        }
        Ok(())
    }
}

/// The route of a row: `{"variant": NAME}` or `{"rules": true}`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Chosen<'t> {
    #[serde(borrow)]
    variant: Option<Cow<'t, str>>,
    rules: bool,
}

impl Chosen<'_> {
    fn route<E: Error>(&self) -> Result<RowRoute<'_>, E> {
        match (&self.variant, self.rules) {
            (Some(variant), false) => Ok(RowRoute::Variant(variant)),
            (None, true) => Ok(RowRoute::Rules),
            _ => Err(E::custom(r#"a row's 'as' is {"variant": NAME} or {"rules": true}"#)),
        }
    }
}

fn check_id<E: Error>(id: Option<&Name<'_>>, limits: &RequestLimits) -> Result<(), E> {
    let (length, most) = (id.map_or(0, |id| id.0.len()), limits.name_bytes_max);
    if length <= most {
        return Ok(());
    }
    Err(E::custom(format_args!("a row's 'id' has {length} bytes; at most {most} are allowed")))
}

/// The fields of one row.
struct Fields<'s>(&'s mut dyn RowSink);

impl<'t> DeserializeSeed<'t> for Fields<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'t> Visitor<'t> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("'input' to be an object of fields")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Name(name)) = map.next_key()? {
            map.next_value_seed(Field { name: &name, take: &mut *self.0 })?;
        }
        Ok(())
    }
}

struct Field<'s> {
    name: &'s str,
    take: &'s mut dyn RowSink,
}

impl Field<'_> {
    fn give<E>(self, value: Scalar<'_>) -> Result<(), E> {
        self.take.field(self.name, value);
        Ok(())
    }
}

impl<'t> DeserializeSeed<'t> for Field<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'t> Visitor<'t> for Field<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.give(Scalar::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.give(Scalar::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.give(Scalar::Int(value))
    }

    /// An unsigned number beyond i64 is still a number: the nearest double.
    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.give(i64::try_from(value).map_or(Scalar::Float(value as f64), Scalar::Int))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.give(Scalar::Float(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.give(Scalar::Text(value))
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        self.give(Scalar::Other("a list"))
    }

    fn visit_map<A: MapAccess<'t>>(self, mut entries: A) -> Result<(), A::Error> {
        while entries.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.give(Scalar::Other("an object"))
    }
}
