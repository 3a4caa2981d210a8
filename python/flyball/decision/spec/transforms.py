"""Transforms of a spec: each is one key with the step's name, and its parameters.

`- log1p: amount` is short for `- log1p: {of: [amount]}`. Omitted parameters come from the fitted file. Must not know
that file.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field as Attr
from pydantic import model_validator

from flyball.decision.spec.parts import ITEMS_MAX, Columns, Number, Numbers, Part, Scalar, Switch, Texts, optional
from flyball.decision.spec.shorthand import not_allowed
from flyball.documents.faults import Allowed

_VALUES_ALLOWED = "a list of texts for one column, or a list of such lists, one for each column"


class Step(Part):
    """Keys of every step: its input columns."""

    EACH: ClassVar[tuple[str, ...]] = ()
    """Keys with one value for each column: all of them are given, or none."""

    of: Columns = Attr(description="its input columns; the result replaces them")

    @model_validator(mode="before")
    @classmethod
    def _columns_alone(cls, value: Any) -> Any:
        return {"of": value} if isinstance(value, str | list | tuple) else value

    @model_validator(mode="after")
    def _each_column_has_all(self) -> Self:
        given = [getattr(self, key) for key in self.EACH]
        if any(values is not None and len(values) != len(self.of) for values in given):
            raise not_allowed(f"one parameter for each of the {len(self.of)} columns")
        if 0 < given.count(None) < len(given):
            raise not_allowed(f"{' and '.join(self.EACH)}, or neither")
        return self


class _Categories(Step):
    EACH = ("values",)
    values: Annotated[list[Texts], Attr(max_length=4096)] | None = optional(
        "the values of each column, in order; by default the fitted ones, else those of its field"
    )

    @model_validator(mode="before")
    @classmethod
    def _values_of_one_column(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(given := value.get("values"), list) and given:
            if all(isinstance(item, str) for item in given):
                return {**value, "values": [given]}
            if not all(isinstance(item, list) for item in given):
                raise not_allowed(_VALUES_ALLOWED)
        return value


class Impute(Step):
    """Replaces missing values."""

    EACH = ("values",)
    values: Annotated[list[Scalar], Attr(max_length=4096)] | None = optional(
        "the value of each column; by default the fitted ones"
    )
    indicator: Switch = Attr(default=False, description="add a column `x=missing`, 0 or 1")
    by: Annotated[Literal["mean", "median", "most_frequent"], Allowed("mean, median or most_frequent")] | None = optional(
        "how `flyball fit` finds them; by default median, of texts most_frequent"
    )

    @model_validator(mode="before")
    @classmethod
    def _value_of_one_column(cls, value: Any) -> Any:
        if isinstance(value, dict) and "values" in value and not isinstance(value["values"], list | tuple | None):
            return {**value, "values": [value["values"]]}
        return value


class Cast(Step):
    """Converts to another type."""

    to: Annotated[Literal["float", "int", "bool", "text"], Allowed("float, int, bool or text")] = Attr(
        description="the type; int rounds towards zero"
    )


class Scale(Step):
    """x × factor + offset, as MinMaxScaler does it."""

    EACH = ("factor", "offset")
    factor: Numbers | None = optional("for each column; by default the fitted ones")
    offset: Numbers | None = optional("for each column; by default the fitted ones")
    range: Annotated[Numbers, Attr(min_length=2, max_length=2)] | None = optional(
        "what `flyball fit` scales to; by default [0, 1]"
    )


class Standardize(Step):
    """(x − mean) / scale, as StandardScaler does it."""

    EACH = ("mean", "scale")
    mean: Numbers | None = optional("for each column; by default the fitted ones")
    scale: Numbers | None = optional("for each column; by default the fitted ones")


class Log(Step):
    """The natural logarithm."""


class Log1p(Step):
    """The natural logarithm of 1 + x."""


class Clip(Step):
    """Limits values at both ends, or one."""

    min: Number | None = optional("least value")
    max: Number | None = optional("largest value")

    @model_validator(mode="after")
    def _some_end(self) -> Clip:
        if self.min is None and self.max is None:
            raise not_allowed("min, max or both")
        return self


class Bucket(Step):
    """How many edges are at or below x, as `numpy.digitize` counts."""

    edges: Numbers | None = optional("rising; by default the fitted ones")
    quantiles: Annotated[int, Attr(ge=2, le=1000), Allowed("a whole number, 2 to 1000")] | None = optional(
        "into how many equal parts `flyball fit` cuts"
    )


class OneHot(_Categories):
    """A column `x=value` for each value, 0 or 1."""


class Ordinal(_Categories):
    """The position among the values."""

    unknown: Number = Attr(default=-1.0, description="for other values")


class Hash(Step):
    """MurmurHash3 of the text, modulo the buckets."""

    buckets: Annotated[int, Attr(ge=1, le=2**31 - 1), Allowed("a whole number, 1 to 2147483647")] = Attr(
        description="how many there are"
    )


_Map = Annotated[dict[str, Number], Attr(max_length=ITEMS_MAX)]


class Encode(Step):
    """A number for each string: target and frequency encoding."""

    EACH = ("maps", "default")
    maps: Annotated[list[_Map], Attr(max_length=4096)] | None = optional("for each column; by default the fitted ones")
    default: Numbers | None = optional("for other texts, for each column; by default the fitted ones")
    by: Annotated[Literal["target", "frequency"], Allowed("target or frequency")] | None = optional(
        "what `flyball fit` encodes"
    )
    smoothing: Annotated[Number, Attr(ge=0), Allowed("a number, 0 or more")] | None = optional(
        "rows of the mean that `flyball fit` adds to each text; by default 20"
    )

    @model_validator(mode="before")
    @classmethod
    def _map_of_one_column(cls, value: Any) -> Any:
        return (
            {**value, "maps": [value["maps"]]} if isinstance(value, dict) and isinstance(value.get("maps"), dict) else value
        )


class Cross(Step):
    """Numbers: their product. Strings: joined by '|'. A new column; the input columns stay."""

    into: Annotated[str, Attr(min_length=1, max_length=256), Allowed("a column's name")] = Attr(description="its name")


class DateParts(Step):
    """Columns `x.hour` and so on, in UTC."""

    parts: Annotated[
        list[Literal["year", "month", "day", "hour", "minute", "weekday", "weekend"]],
        Attr(min_length=1, max_length=7),
        Allowed("a list of year, month, day, hour, minute, weekday (Monday is 0) and weekend"),
    ] = Attr(description="which parts")


class Transform(Part):
    """One step. Exactly one of the keys."""

    impute: Impute | None = optional("replaces missing values")
    cast: Cast | None = optional("converts to another type")
    scale: Scale | None = optional("x × factor + offset")
    standardize: Standardize | None = optional("(x − mean) / scale")
    log: Log | None = optional("the natural logarithm")
    log1p: Log1p | None = optional("the natural logarithm of 1 + x")
    clip: Clip | None = optional("limits values at the ends")
    bucket: Bucket | None = optional("the position between edges")
    one_hot: OneHot | None = optional("a column for each value")
    ordinal: Ordinal | None = optional("the position among the values")
    hash: Hash | None = optional("a bucket by hash")
    encode: Encode | None = optional("a number for each string")
    cross: Cross | None = optional("columns joined to one")
    date_parts: DateParts | None = optional("parts of a time")

    @model_validator(mode="after")
    def _one_step(self) -> Transform:
        if len(self.model_fields_set) != 1 or self.step is None:
            raise not_allowed("exactly one step, such as  - log1p: amount")
        return self

    @property
    def op(self) -> str:
        """The step's name."""
        return next(iter(self.model_fields_set))

    @property
    def step(self) -> Step | None:
        """The step."""
        found: Step | None = getattr(self, self.op)
        return found
