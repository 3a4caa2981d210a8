"""A decision's fields as callers have them, to the few forms that cross a wire; the same for both transports."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from flyball.errors import InvalidInputError

Plain = None | bool | int | float | str


def plain_row(row: object) -> dict[str, Plain]:
    """A row's fields in plain forms; a field that has none is named."""
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
                f"field {name!r} is a time without a zone, which may be any of 24 hours",
                next_step="say which:  datetime.now(tz=UTC), or .replace(tzinfo=…)",
            )
        case datetime():
            return scalar.isoformat()
    raise InvalidInputError(f"field {name!r} is of type {type(value).__name__}, which a field cannot have")


def _sendable(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"field {name!r} is no Unicode text: {error.reason}") from error
    return text
