"""Steps from values to columns, as their author writes them: one key that names the step, and what it takes.

`- log1p: amount` is short for `- log1p: {of: [amount]}`. Parameters that are left out come from the fitted file.
Must not know where fitted parameters lie.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field as Words
from pydantic import model_validator

from flyball.decision.spec.parts import ITEMS_MAX, Columns, Number, Numbers, Part, Scalar, Switch, Texts, words
from flyball.decision.spec.shorthand import not_allowed
from flyball.documents.faults import Allowed

_VALUES_ALLOWED = "a list of texts for one column, or a list of such lists, one for each column"


class Step(Part):
    """What every step has: the columns that it takes."""

    of: Columns = Words(description="the columns that it takes; what it makes stands in their place")

    @model_validator(mode="before")
    @classmethod
    def _columns_alone(cls, value: Any) -> Any:
        return {"of": value} if isinstance(value, str | list | tuple) else value

    def _for_each(self, *lists: list[Any] | None) -> None:
        for given in lists:
            if given is not None and len(given) != len(self.of):
                raise not_allowed(f"as many parameters as columns, which are {len(self.of)}")


class _Categories(Step):
    values: Annotated[list[Texts], Words(max_length=4096)] | None = words(
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

    @model_validator(mode="after")
    def _each_has_values(self) -> _Categories:
        self._for_each(self.values)
        return self


class Impute(Step):
    """A value where there is none."""

    values: Annotated[list[Scalar], Words(max_length=4096)] | None = words(
        "the value of each column; by default the fitted ones"
    )
    indicator: Switch = Words(default=False, description="add a column `x=missing`, 0 or 1")
    by: Annotated[Literal["mean", "median", "most_frequent"], Allowed("mean, median or most_frequent")] | None = words(
        "how `flyball fit` finds them; by default median, of texts most_frequent"
    )

    @model_validator(mode="before")
    @classmethod
    def _value_of_one_column(cls, value: Any) -> Any:
        if isinstance(value, dict) and "values" in value and not isinstance(value["values"], list | tuple | None):
            return {**value, "values": [value["values"]]}
        return value

    @model_validator(mode="after")
    def _each_has_a_value(self) -> Impute:
        self._for_each(self.values)
        return self


class Cast(Step):
    """Another type."""

    to: Annotated[Literal["float", "int", "bool", "text"], Allowed("float, int, bool or text")] = Words(
        description="the type; int cuts towards zero"
    )


class Scale(Step):
    """x × factor + offset, as MinMaxScaler does it."""

    factor: Numbers | None = words("for each column; by default the fitted ones")
    offset: Numbers | None = words("for each column; by default the fitted ones")
    range: Annotated[Numbers, Words(min_length=2, max_length=2)] | None = words(
        "what `flyball fit` scales to; by default [0, 1]"
    )

    @model_validator(mode="after")
    def _each_has_both(self) -> Scale:
        self._for_each(self.factor, self.offset)
        if (self.factor is None) != (self.offset is None):
            raise not_allowed("factor and offset, or neither")
        return self


class Standardize(Step):
    """(x − mean) / scale, as StandardScaler does it."""

    mean: Numbers | None = words("for each column; by default the fitted ones")
    scale: Numbers | None = words("for each column; by default the fitted ones")

    @model_validator(mode="after")
    def _each_has_both(self) -> Standardize:
        self._for_each(self.mean, self.scale)
        if (self.mean is None) != (self.scale is None):
            raise not_allowed("mean and scale, or neither")
        return self


class Log(Step):
    """The natural logarithm."""


class Log1p(Step):
    """The natural logarithm of 1 + x."""


class Clip(Step):
    """Cut off at both ends, or one."""

    min: Number | None = words("least value")
    max: Number | None = words("largest value")

    @model_validator(mode="after")
    def _some_end(self) -> Clip:
        if self.min is None and self.max is None:
            raise not_allowed("min, max or both")
        return self


class Bucket(Step):
    """How many edges are at or below x, as `numpy.digitize` counts."""

    edges: Numbers | None = words("rising; by default the fitted ones")
    quantiles: Annotated[int, Words(ge=2, le=1000), Allowed("a whole number, 2 to 1000")] | None = words(
        "into how many equal parts `flyball fit` cuts"
    )


class OneHot(_Categories):
    """A column `x=value` for each value, 0 or 1."""


class Ordinal(_Categories):
    """The place among the values."""

    unknown: Number = Words(default=-1.0, description="for other values")


class Hash(Step):
    """MurmurHash3 of the text, modulo the buckets."""

    buckets: Annotated[int, Words(ge=1, le=2**31 - 1), Allowed("a whole number, 1 to 2147483647")] = Words(
        description="how many there are"
    )


_Map = Annotated[dict[str, Number], Words(max_length=ITEMS_MAX)]


class Encode(Step):
    """A number for each text: target and frequency encoding."""

    maps: Annotated[list[_Map], Words(max_length=4096)] | None = words("for each column; by default the fitted ones")
    default: Numbers | None = words("for other texts, for each column; by default the fitted ones")
    by: Annotated[Literal["target", "frequency"], Allowed("target or frequency")] | None = words(
        "what `flyball fit` encodes"
    )
    smoothing: Annotated[Number, Words(ge=0), Allowed("a number, 0 or more")] | None = words(
        "rows of the mean that `flyball fit` adds to each text; by default 20"
    )

    @model_validator(mode="before")
    @classmethod
    def _map_of_one_column(cls, value: Any) -> Any:
        return (
            {**value, "maps": [value["maps"]]} if isinstance(value, dict) and isinstance(value.get("maps"), dict) else value
        )

    @model_validator(mode="after")
    def _each_has_both(self) -> Encode:
        self._for_each(self.maps, self.default)
        if (self.maps is None) != (self.default is None):
            raise not_allowed("maps and default, or neither")
        return self


class Cross(Step):
    """Numbers: their product. Texts: joined by '|'. A new column; those that it takes stay."""

    into: Annotated[str, Words(min_length=1, max_length=256), Allowed("a column's name")] = Words(description="its name")


class DateParts(Step):
    """Columns `x.hour` and so on, in UTC."""

    parts: Annotated[
        list[Literal["year", "month", "day", "hour", "minute", "weekday", "weekend"]],
        Words(min_length=1, max_length=7),
        Allowed("a list of year, month, day, hour, minute, weekday (Monday is 0) and weekend"),
    ] = Words(description="which parts")


class Transform(Part):
    """One step. Just one of the keys."""

    impute: Impute | None = words("a value where there is none")
    cast: Cast | None = words("another type")
    scale: Scale | None = words("x × factor + offset")
    standardize: Standardize | None = words("(x − mean) / scale")
    log: Log | None = words("the natural logarithm")
    log1p: Log1p | None = words("the natural logarithm of 1 + x")
    clip: Clip | None = words("cut off at the ends")
    bucket: Bucket | None = words("the place between edges")
    one_hot: OneHot | None = words("a column for each value")
    ordinal: Ordinal | None = words("the place among the values")
    hash: Hash | None = words("a bucket by hash")
    encode: Encode | None = words("a number for each text")
    cross: Cross | None = words("columns joined to one")
    date_parts: DateParts | None = words("parts of a time")

    @model_validator(mode="after")
    def _one_step(self) -> Transform:
        if len(self.model_fields_set) != 1 or self.step is None:
            raise not_allowed("just one step, say  - log1p: amount")
        return self

    @property
    def op(self) -> str:
        """Its name."""
        return next(iter(self.model_fields_set))

    @property
    def step(self) -> Step | None:
        """What it does."""
        found: Step | None = getattr(self, self.op)
        return found
