"""Common types of a spec's parts: unknown keys are errors, texts are bounded, one-item lists may be scalars.

Must not know the parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from flyball.decision.spec.shorthand import not_allowed
from flyball.documents.faults import Allowed

ITEMS_MAX = 65_536
NAME_ALLOWED = "1 to 64 of A-Z a-z 0-9 _, not starting with a digit: rules use it as an identifier"
_SCALAR_ALLOWED = "a text, a finite number, true or false"


class Part(BaseModel):
    """A part of a spec. Values are strict: no text for a number."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


def _scalar(value: object) -> object:
    if isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise not_allowed(_SCALAR_ALLOWED)


def _listed(value: object) -> object:
    """Wrap a scalar in a list."""
    return [value] if isinstance(value, bool | int | float | str) else value


Scalar = Annotated[Any, BeforeValidator(_scalar)]
"""A field's value, as in JSON."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"), Allowed(NAME_ALLOWED)]
Key = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"),
    Allowed("1 to 128 of A-Z a-z 0-9 . _ -, not starting with a dot"),
]
Text = Annotated[str, Field(min_length=1, max_length=1024), Allowed("a text of 1 to 1024 characters")]
Path = Annotated[str, Field(min_length=1, max_length=4096), Allowed("the path of a file, relative to this one's folder")]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$"), Allowed('"sha256:" and 64 lower-case hex digits')]
Number = Annotated[float, Field(allow_inf_nan=False), Allowed("a finite number")]
Switch = Annotated[bool, Allowed("true or false")]
Texts = Annotated[
    list[str],
    BeforeValidator(_listed),
    Field(max_length=ITEMS_MAX),
    Allowed("a text, or a list of texts (in quotes where YAML would read a number)"),
]
Numbers = Annotated[
    list[Annotated[float, Field(allow_inf_nan=False)]],
    BeforeValidator(_listed),
    Field(max_length=ITEMS_MAX),
    Allowed("a finite number, or a list of them"),
]
Columns = Annotated[
    list[str], BeforeValidator(_listed), Field(min_length=1, max_length=4096), Allowed("a column, or a list of columns")
]


def from_text(read: Callable[[str], dict[str, Any]]) -> Any:
    """A validator that expands a text with `read`, and returns other values unchanged."""

    def expand(value: Any) -> Any:
        return read(value) if isinstance(value, str) else value

    return model_validator(mode="before")(expand)


def optional(description: str, **more: Any) -> Any:
    """An optional key, with its description for the reference page."""
    return Field(default=None, description=description, **more)
