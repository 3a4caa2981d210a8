"""Parses the shorthands of specs: durations, rates, ranges, windows, output elements.

Each parser returns a plain value, or raises with what is allowed. Must not know the document.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError, core_schema

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue

_UNITS_MS = {"us": 0.001, "µs": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}
_WRITTEN = ("d", "h", "m", "s", "ms", "us")
_DURATION_MS_MAX = 366 * 86_400_000.0
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|µs|ms|s|m|h|d)\s*", re.ASCII)
_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*s\s*", re.ASCII)
_RANGE = re.compile(rf"\s*({_NUMBER})?\s*\.\.\s*({_NUMBER})?\s*", re.ASCII)
_BOUND = re.compile(rf"\s*(<|>=)\s*({_NUMBER})\s*", re.ASCII)
_WINDOW = re.compile(
    r"\s*(\w+)\s*\(\s*(\w*)\s*\)\s+by\s+(\w+)\s+last\s+(\S+)(?:\s+(excluding|including)\s+current)?(?:\s+in\s+([\w.-]+))?\s*"
)
_ELEMENT = re.compile(r"\s*([^\[\]]+?)\s*(?:\[\s*(\d{1,9})\s*\])?\s*", re.ASCII)

_DURATION_ALLOWED = 'a duration of at most 366 days with its unit, such as "20ms", "1.5s", "10m", "1h" or "7d"'
RANGE_ALLOWED = 'a range with its lower end first, such as "0..1", "0.." or "..1"'
BAND_ALLOWED = 'a range of scores, "< 0.30", ">= 0.80" or "0.30..0.80" (including the lower end, excluding the upper)'
WINDOW_ALLOWED = (
    '"count() by KEY last 1h", or sum, mean or distinct of a field: "sum(amount) by card_id last 1h"; '
    '"excluding current" may follow, and "in SOURCE"'
)
ELEMENT_ALLOWED = 'an output of the model and the element that is the score, such as "probabilities[1]"'


def not_allowed(allowed: str) -> PydanticCustomError:
    """An error that `flyball.documents.faults` reports as `allowed: …`."""
    return PydanticCustomError("not_allowed", "{allowed}", {"allowed": allowed})


def says(text: str, key: str | None = None) -> PydanticCustomError:
    """An error whose whole text is given; `key` is the key that it is about, inside the part that raises it."""
    return PydanticCustomError("says", "{text}", {"text": text, **({"key": key} if key else {})})


class _Figure(float):
    """A number written with its unit."""

    ALLOWED = ""

    @classmethod
    def read(cls, value: object) -> Any:
        raise NotImplementedError

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        del source, handler
        return core_schema.no_info_plain_validator_function(cls.read)

    @classmethod
    def __get_pydantic_json_schema__(cls, core: core_schema.CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        del core, handler
        return {"type": "string", "description": cls.ALLOWED}


class Duration(_Figure):
    """A time in milliseconds, written "10m"."""

    ALLOWED = _DURATION_ALLOWED

    @classmethod
    def read(cls, value: object) -> Duration:
        """Parse text or a `timedelta`; a bare number has no unit and is refused."""
        if isinstance(value, Duration):
            return value
        if isinstance(value, timedelta):
            length_ms = value / timedelta(milliseconds=1)
        elif isinstance(value, str) and (match := _DURATION.fullmatch(value)):
            length_ms = float(match[1]) * _UNITS_MS[match[2]]
        else:
            raise not_allowed(cls.ALLOWED)
        if not 0 < length_ms <= _DURATION_MS_MAX:
            raise not_allowed(cls.ALLOWED)
        return cls(length_ms)

    def __str__(self) -> str:
        """In the largest unit in which it is a whole number."""
        for unit in _WRITTEN:
            count = float(self) / _UNITS_MS[unit]
            if abs(count - round(count)) < 1e-9 and round(count) > 0:
                return f"{round(count)}{unit}"
        return f"{float(self)!r}ms"

    __repr__ = __str__


class WholeMs(Duration):
    """A duration in whole milliseconds, at least 1."""

    ALLOWED = f"{_DURATION_ALLOWED}; at least 1ms, and whole milliseconds"

    @classmethod
    def read(cls, value: object) -> WholeMs:
        """Parse like `Duration`."""
        length_ms = round(super().read(value), 6)
        if length_ms < 1 or length_ms != int(length_ms):
            raise not_allowed(cls.ALLOWED)
        return cls(length_ms)

    @property
    def ms(self) -> int:
        """Whole milliseconds."""
        return int(self)


class Rate(_Figure):
    """Requests per second, written "2000/s"."""

    ALLOWED = 'requests per second, above 0, such as "2000/s"'

    @classmethod
    def read(cls, value: object) -> Rate:
        """Parse text; a bare number has no unit and is refused."""
        if isinstance(value, Rate):
            return value
        match = _RATE.fullmatch(value) if isinstance(value, str) else None
        if match is None or not 0 < float(match[1]) <= 1e9:
            raise not_allowed(cls.ALLOWED)
        return cls(float(match[1]))

    def __str__(self) -> str:
        """With its unit."""
        return f"{float(self):g}/s" if float(f"{float(self):g}") == self else f"{float(self)!r}/s"

    __repr__ = __str__


def read_range(text: str) -> dict[str, float]:
    """Parse `0..1` as {"min": 0, "max": 1}; either end may be omitted."""
    return _ends(text, "min", "max", RANGE_ALLOWED)


def read_band(text: str) -> dict[str, float]:
    """Parse `< 0.30` as {"below": 0.3}, `>= 0.80` as {"at_least": 0.8}, `0.3..0.8` as both."""
    if match := _BOUND.fullmatch(text):
        return {"below" if match[1] == "<" else "at_least": float(match[2])}
    return _ends(text, "at_least", "below", BAND_ALLOWED)


def _ends(text: str, low: str, high: str, allowed: str) -> dict[str, float]:
    match = _RANGE.fullmatch(text)
    if match is None or not (match[1] or match[2]):
        raise not_allowed(allowed)
    return {key: float(end) for key, end in ((low, match[1]), (high, match[2])) if end is not None}


def read_window(text: str) -> dict[str, object]:
    """Parse `sum(amount) by card_id last 1h excluding current` into its parts."""
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise not_allowed(WINDOW_ALLOWED)
    parts: dict[str, object] = {"op": match[1], "by": match[3], "last": match[4], "current": match[5] != "excluding"}
    if match[2]:
        parts["of"] = match[2]
    if match[6]:
        parts["source"] = match[6]
    return parts


def read_element(text: str) -> dict[str, object]:
    """Parse `probabilities[1]` as {"output": "probabilities", "element": 1}."""
    match = _ELEMENT.fullmatch(text)
    if match is None:
        raise not_allowed(ELEMENT_ALLOWED)
    return {"output": match[1], "element": int(match[2] or 0)}
