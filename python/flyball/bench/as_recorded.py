"""Reads scenarios and contracts back from a record without today's limits.

A record outlives the rules it was made under. A newer flyball may write unknown keys, and an older one may have allowed
values that are refused now; neither makes a measurement unreadable. Types and required keys are still checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

# Faults of a value with the right type: limits, and rules across keys.
_RULES = {
    "greater_than",
    "greater_than_equal",
    "less_than",
    "less_than_equal",
    "string_pattern_mismatch",
    "too_long",
    "too_short",
    "value_error",
}


class AsRecorded:
    """Annotation of a document inside a record: unknown keys are dropped, limits are not checked."""

    def __get_pydantic_core_schema__(self, source: type[BaseModel], handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        def read(value: object, check: core_schema.ValidatorFunctionWrapHandler) -> object:
            if not isinstance(value, dict):
                return check(value)
            known = _known(source, value)
            try:
                return check(known)
            except ValidationError as error:
                if any(fault["type"] not in _RULES for fault in error.errors()):
                    raise
                return _built(source, known)

        return core_schema.no_info_wrap_validator_function(read, handler(source))


def _known(kind: type[BaseModel], document: dict[str, Any]) -> dict[str, Any]:
    """A document without unknown keys."""
    known = {}
    for key, field in kind.model_fields.items():
        if key in document:
            value, inner = document[key], _model_in(field.annotation)
            known[key] = _known(inner, value) if inner and isinstance(value, dict) else value
    return known


def _built(kind: type[BaseModel], document: dict[str, Any]) -> BaseModel:
    """The object without validation; missing keys get their defaults."""
    values: dict[str, Any] = {}
    for key, value in document.items():
        inner = _model_in(kind.model_fields[key].annotation)
        values[key] = _built(inner, value) if inner and isinstance(value, dict) else value
    return kind.model_construct(**values)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model class of a field, which may be optional; no such document has lists of models."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
