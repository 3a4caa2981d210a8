"""Converts a decision's fields to the types that both transports support. Must not know where rows come from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from flyball.errors import InvalidInputError
from flyball.rows.casts import is_missing

Plain = None | bool | int | float | str


def plain_row(row: Mapping[str, object]) -> dict[str, Plain]:
    """Convert a row's fields to plain values; raises for a field with an unsupported type."""
    return {str(name): plain(str(name), value) for name, value in row.items()}


def plain(name: str, value: object) -> Plain:
    """Convert one field's value. Every missing value is None, which the server reads as a missing field."""
    if is_missing(value):
        return None
    item = getattr(value, "item", None)
    scalar = item() if callable(item) else value  # NumPy's scalars
    match scalar:
        case str():
            return _sendable(name, scalar)
        case float() if not math.isfinite(scalar):
            raise InvalidInputError(f"field {name!r} is {scalar}; allowed: a finite number, or NaN for a missing value")
        case None | bool() | int() | float():
            return scalar
        case Decimal():
            return float(scalar)
        case datetime() if scalar.tzinfo is None:
            raise InvalidInputError(
                f"field {name!r}: the time has no time zone",
                next_step="add one:  datetime.now(tz=UTC), or .replace(tzinfo=…)",
            )
        case datetime():
            return scalar.isoformat()
    if name == "input" and isinstance(value, Mapping):
        raise InvalidInputError(
            'the row is wrapped in "input", which only the HTTP API needs',
            next_step="pass the object under it:  {'amount': 12.5}",
        )
    raise InvalidInputError(
        f"field {name!r} has the unsupported type {type(value).__name__}",
        next_step="pass a number, a text, a bool, an aware datetime or None",
    )


def _sendable(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"field {name!r} is not valid Unicode: {error.reason}") from error
    return text
