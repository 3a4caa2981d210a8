"""Converts a decision's fields to the types that both transports support."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from flyball.errors import InvalidInputError

Plain = None | bool | int | float | str


def plain_row(row: object) -> dict[str, Plain]:
    """Convert a row's fields to plain values; raises for a field with an unsupported type."""
    if not isinstance(row, Mapping):
        raise InvalidInputError(
            f"a row is a mapping of fields, not {type(row).__name__}", next_step="for several rows:  client.decide_rows(…)"
        )
    return {str(name): _plain(str(name), value) for name, value in row.items()}


def _plain(name: str, value: object) -> Plain:
    item = getattr(value, "item", None)
    scalar = item() if callable(item) else value  # NumPy's scalars
    match scalar:
        case str():
            return _sendable(name, scalar)
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
    raise InvalidInputError(f"field {name!r} has the unsupported type {type(value).__name__}")


def _sendable(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"field {name!r} is not valid Unicode: {error.reason}") from error
    return text
