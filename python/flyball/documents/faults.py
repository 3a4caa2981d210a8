"""Converts pydantic's errors to faults: path, value found, and allowed values.

The path grammar is shared with the Rust reader, and golden files test both: dotted keys, `[i]` for list items, unknown and
missing keys by their own path, "" for the whole document. Must not know which documents exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from flyball.errors import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel, GetCoreSchemaHandler, ValidationError
    from pydantic.fields import FieldInfo
    from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class Allowed:
    """Annotation of a field: the allowed values, used as the message of every fault.

    Pydantic's own messages name only one violated limit ("greater than or equal to 1"); readers want the whole range.
    """

    text: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import PydanticCustomError, ValidationError, core_schema

        def check(value: object, inner: core_schema.ValidatorFunctionWrapHandler) -> object:
            try:
                return inner(value)
            except ValidationError as error:
                raise PydanticCustomError("not_allowed", "{allowed}", {"allowed": self.text}) from error

        return core_schema.no_info_wrap_validator_function(check, handler(source))


def path_of(location: Iterable[str | int]) -> str:
    """Convert pydantic's location to a path: ("versions", 0, "version") is versions[0].version."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
    return path


def faults_of(error: ValidationError, model: type[BaseModel]) -> list[Fault]:
    """All faults, sorted by path."""
    faults = []
    for item in error.errors(include_url=False):
        location = item["loc"]
        missing = item["type"] == "missing"
        found = None if missing else item["input"]
        faults.append(Fault(path_of(location), found, _allowed(item, model, location)))
    return sorted(faults, key=lambda fault: fault.path)


def _allowed(item: Any, model: type[BaseModel], location: tuple[str | int, ...]) -> str:
    kind = item["type"]
    if kind == "not_allowed":
        return str(item["ctx"]["allowed"])
    if kind == "extra_forbidden":
        owner = _model_at(model, location[:-1])
        keys = ", ".join(owner.model_fields) if owner else "none"
        return f"no such key; keys are {keys}"
    if kind == "missing":
        owner = _model_at(model, location[:-1])
        field = owner.model_fields.get(str(location[-1])) if owner else None
        return f"required: {_words(field)}" if field else "required"
    if kind == "literal_error":
        return f"one of {item['ctx']['expected'].replace(' or ', ', ').replace(chr(39), '')}"
    if kind in ("model_type", "dict_type"):
        return "an object"
    if kind == "list_type":
        return "a list"
    if kind in ("too_long", "too_short"):
        field = _field_at(model, location)
        return _words(field) if field else str(item["msg"]).lower()
    return str(item["msg"]).lower()


def _words(field: FieldInfo) -> str:
    for mark in field.metadata:
        if isinstance(mark, Allowed):
            return mark.text
    return field.description or "a value"


def _field_at(model: type[BaseModel], location: tuple[str | int, ...]) -> FieldInfo | None:
    owner = _model_at(model, location[:-1])
    return owner.model_fields.get(str(location[-1])) if owner and location else None


def _model_at(model: type[BaseModel], location: tuple[str | int, ...]) -> type[BaseModel] | None:
    """The model at a location, or None."""
    here: Any = model
    for part in location:
        if isinstance(part, int):
            inner = get_args(here)
            here = inner[0] if inner else None
        else:
            field = getattr(here, "model_fields", {}).get(part)
            here = field.annotation if field else None
        here = _without_none(here)
    return here if hasattr(here, "model_fields") else None


def _without_none(annotation: Any) -> Any:
    """X for `X | None`: a value that contains a fault is not null."""
    if get_origin(annotation) not in (Union, UnionType):
        return annotation
    choices = [choice for choice in get_args(annotation) if choice is not NoneType]
    return choices[0] if len(choices) == 1 else annotation
