"""Describes a key's allowed values as text, from the JSON schema: for error messages and the reference page.

Must not know which documents exist.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from flyball.documents.names import NAME_PATTERN, NAME_WORDS

if TYPE_CHECKING:
    from collections.abc import Iterable

Schema = dict[str, Any]

_FOUND_CHARACTERS_MAX = 60
_PATTERNS = {
    r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$": (
        "1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit"
    ),
    NAME_PATTERN: NAME_WORDS,
}


def schema_at(root: Schema, location: Iterable[str | int]) -> Schema | None:
    """The schema at a path of a document; None if there is none."""
    here: Schema | None = _followed(root, root)
    for part in location:
        if here is None:
            return None
        inner = here.get("items") if isinstance(part, int) else here.get("properties", {}).get(part)
        here = None if inner is None else _followed(inner, root)
    return here


def keys(schema: Schema) -> list[str]:
    """The keys of an object schema; empty for other types."""
    return list(schema.get("properties", ()))


def in_words(schema: Schema) -> str:
    """The allowed values as text."""
    message = _one(schema)
    return f"null, or {message}" if schema.get("nullable") else message


def shown(value: object) -> str:
    """A found value as JSON, shortened."""
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= _FOUND_CHARACTERS_MAX else text[: _FOUND_CHARACTERS_MAX - 1] + "…"


def _followed(schema: Schema, root: Schema) -> Schema:
    """Resolve references, and turn `X | None` into a `nullable` X."""
    if "anyOf" in schema:
        (inner,) = [option for option in schema["anyOf"] if option.get("type") != "null"]
        return {**_followed(inner, root), "nullable": True}
    if "$ref" in schema:
        found: Schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
        return found
    return schema


def _one(schema: Schema) -> str:
    if "enum" in schema:
        *most, last = schema["enum"]
        return f"{', '.join(most)} or {last}"
    match schema["type"]:
        case "object":
            return f"an object of {', '.join(keys(schema))}"
        case "array":
            return f"a list, each {_one(schema['items'])}"
        case "boolean":
            return "true or false"
        case "string":
            return _PATTERNS[schema["pattern"]] if "pattern" in schema else "text"
        case "integer":
            return f"a whole number{_range(schema)}"
        case _:
            return f"a number{_range(schema)}"


def _range(schema: Schema) -> str:
    match schema:
        case {"minimum": low, "maximum": high}:
            return f", {_figure(low)} to {_figure(high)}"
        case {"minimum": low, "exclusiveMaximum": below}:
            return f", {_figure(low)} to below {_figure(below)}"
        case {"exclusiveMinimum": above, "maximum": high}:
            return f" above {_figure(above)}, to {_figure(high)}"
        case {"exclusiveMinimum": above, "exclusiveMaximum": below}:
            return f" above {_figure(above)}, below {_figure(below)}"
        case {"minimum": low}:
            return f", {_figure(low)} or more"
        case _:
            return ""


def _figure(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)
