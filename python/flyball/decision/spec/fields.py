"""Inputs of a decision: fields from the caller, and looked-up, windowed or computed features.

Must not know transforms, models or rules.
"""

from __future__ import annotations

import difflib
import math
from typing import Annotated, Any, Literal

from pydantic import Field as Attr
from pydantic import model_validator

from flyball.decision.spec.parts import Key, Name, Number, Part, Path, Scalar, Switch, Text, Texts, from_text, optional
from flyball.decision.spec.shorthand import WINDOW_ALLOWED, WholeMs, not_allowed, read_window
from flyball.documents.faults import Allowed

FieldType = Annotated[
    Literal["bool", "int", "float", "string", "category", "time"],
    Allowed("bool, int, float, string, category or time"),
]
_REACTIONS = ("missing", "use_stale", "fault")
_NO_TLS = "redis:// through a tunnel: feature sources do not support TLS (rediss://)"
_SOURCE_ALLOWED = "one of redis (its address), redis_env (the environment variable with the address) and store (a file)"


class Field(Part):
    """A field of the input. `amount: float` is short for `amount: {type: float}`."""

    type: FieldType = Attr(description="its type; `time` is an RFC 3339 string, or seconds since 1970")
    required: Switch = Attr(default=True, description="whether a caller must send it")
    default: Scalar | None = optional("replaces a missing value; `missing: -1` sets this and `required: false`")
    min: Number | None = optional("least value, of an int or float")
    max: Number | None = optional("largest value, of an int or float")
    values: Texts | None = optional("the values of a category")
    values_file: Path | None = optional("a text file with the values, one per line")
    unknown: Annotated[str, Allowed("a text")] | None = optional("replaces other values; without it they are refused")
    length_max: Annotated[int, Attr(ge=1, le=65_536), Allowed("a whole number, 1 to 65536")] = Attr(
        default=1024, description="longest string, in bytes"
    )
    key: Switch = Attr(default=False, description="identifies the subject; requests stick to a variant by it")
    pii: Switch = Attr(default=False, description="personal data: never written to logs")

    @model_validator(mode="before")
    @classmethod
    def _shorthands(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"type": value}
        if isinstance(value, dict) and "missing" in value:
            parts = dict(value)
            if "default" in parts or "required" in parts:
                raise not_allowed("either missing, or required and default: missing sets both")
            missing = parts.pop("missing")
            return {**parts, "required": False, **({} if missing is None else {"default": missing})}
        return value

    @model_validator(mode="after")
    def _one_list_of_values(self) -> Field:
        if self.values is not None and self.values_file is not None:
            raise not_allowed("values or values_file, not both")
        return self


class Window(Part):
    """Past events of a key. Written `sum(amount) by card_id last 1h`."""

    op: Annotated[Literal["count", "sum", "mean", "distinct"], Allowed("count, sum, mean or distinct")] = Attr(
        description="the aggregate"
    )
    of: Name | None = optional("the field to aggregate; none for count")
    by: Name = Attr(description="the field that is the key")
    last: WholeMs = Attr(description="how far back it looks")
    current: Switch = Attr(default=True, description="whether the present event counts")
    source: Key | None = optional("a redis source that replicas share; without it the window is this replica's own")

    _shorthand = from_text(read_window)

    @model_validator(mode="after")
    def _field_where_wanted(self) -> Window:
        if (self.op == "count") != (self.of is None):
            raise not_allowed(WINDOW_ALLOWED)
        return self


class Reaction(Part):
    """Reaction to an unavailable feature: `missing`, `use_stale`, `fault`, or a replacement value."""

    do: Literal["missing", "use_stale", "fault", "value"]
    value: Scalar | None = None

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        if isinstance(value, str) and value in _REACTIONS:
            return {"do": value}
        if isinstance(value, str) and (meant := difflib.get_close_matches(value, _REACTIONS, 1, 0.8)):
            raise not_allowed(f"{meant[0]} (did you mean that?), or {{value: {value}}} for the text itself")
        if isinstance(value, dict) and set(value) == {"value"}:
            value = value["value"]
        if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
            return {"do": "value", "value": value}
        raise not_allowed("missing, use_stale, fault, or a value ({value: missing} for the text itself)")


def _reaction(when: str) -> Any:
    words = "`missing`, `use_stale`, `fault`, or a replacement value"
    return Attr(default=Reaction.model_validate("missing"), description=f"{when}: {words}")


class Feature(Part):
    """A value that the caller does not send. Exactly one of window, lookup and compute is its source."""

    window: Window | None = optional("a windowed aggregate, `count() by card_id last 1h`")
    lookup: Key | None = optional(
        "a record of a source, by the source's name; `redis://cards` is short for a source of redis"
    )
    key: Name | None = optional("the field that is the record's key; of a lookup")
    field: Text | None = optional("the record's field; of a lookup, and by default the feature's own name")
    compute: Annotated[str, Attr(min_length=1, max_length=4096), Allowed("an expression")] | None = optional(
        "an expression over fields and features before it"
    )
    type: FieldType | None = optional(
        "its type; by default int for count and distinct, float for sum, mean and compute, string for a lookup"
    )
    values: Texts | None = optional("the values of a category")
    values_file: Path | None = optional("a text file with the values, one per line")
    unknown: Annotated[str, Allowed("a text")] | None = optional("replaces other values")
    max_age: WholeMs | None = optional("older values are stale")
    on_missing: Reaction = _reaction("if there is none")
    on_stale: Reaction = _reaction("if it is too old")
    on_error: Reaction = _reaction("if its source is down or slow")

    @model_validator(mode="before")
    @classmethod
    def _set_as_host(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("lookup"), str):
            return {**value, "lookup": value["lookup"].removeprefix("redis://").rstrip("/")}
        return value

    @model_validator(mode="after")
    def _one_origin(self) -> Feature:
        if [self.window, self.lookup, self.compute].count(None) != 2:
            raise not_allowed("exactly one of window, lookup and compute")
        if self.lookup is None and (self.key is not None or self.field is not None):
            raise not_allowed("key and field only with lookup")
        if self.lookup is not None and self.key is None:
            raise not_allowed("key with lookup: the field with the record's key")
        if self.values is not None and self.values_file is not None:
            raise not_allowed("values or values_file, not both")
        return self


class Cache(Part):
    """How long records of a source are cached."""

    ttl: WholeMs = Attr(default=WholeMs(60_000), description="how long a record is cached")
    absent_ttl: WholeMs = Attr(default=WholeMs(1000), description="the same for a missing key")
    entries_max: Annotated[int, Attr(ge=1, le=100_000_000), Allowed("a whole number, 1 to 100000000")] = Attr(
        default=100_000, description="maximum number of cached records"
    )


class Source(Part):
    """A store of features. `cards: redis://127.0.0.1:6379` is short for `cards: {redis: …}`."""

    redis: (
        Annotated[
            str,
            Attr(pattern=r"^(?:rediss?|unix|redis\+unix)://\S+$", max_length=1024),
            Allowed("redis://HOST:PORT, without a password"),
        ]
        | None
    ) = optional("address of a Redis or Valkey, without a password")
    redis_env: (
        Annotated[str, Attr(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$"), Allowed("the name of an environment variable")]
        | None
    ) = optional("the environment variable that has the address, for one with a password")
    store: Path | None = optional("a file that `flyball features push` fills")
    set: Key | None = optional("the set of records; by default the source's name")
    timeout: WholeMs = Attr(default=WholeMs(5), description="longest wait for redis")
    cache: Cache = Attr(default=Cache(), description="an object: how long records are cached")

    _address_alone = from_text(lambda text: {"redis" if "://" in text else "store": text})

    @model_validator(mode="after")
    def _one_place(self) -> Source:
        if [self.redis, self.redis_env, self.store].count(None) != 2:
            raise not_allowed(_SOURCE_ALLOWED)
        if (self.redis or "").startswith("rediss://"):
            raise not_allowed(_NO_TLS)
        return self
