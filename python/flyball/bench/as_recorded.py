"""What authors write, read back from a record: as it was, whatever is allowed today.

A record outlives the rules that it was made under. A newer flyball may write keys that this one does not know, and an older
one may have allowed what is refused now; neither makes a measurement unreadable. Types and required keys still count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

# Faults of a value that has the right type: limits, and rules that join keys.
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
    """Annotation of a document inside a record: unknown keys are left out, and limits are not asked."""

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
    """A document without the keys that this version does not know."""
    known = {}
    for key, field in kind.model_fields.items():
        if key in document:
            value, inner = document[key], _model_in(field.annotation)
            known[key] = _known(inner, value) if inner and isinstance(value, dict) else value
    return known


def _built(kind: type[BaseModel], document: dict[str, Any]) -> BaseModel:
    """The object without a check; what is missing has its default."""
    values: dict[str, Any] = {}
    for key, value in document.items():
        inner = _model_in(kind.model_fields[key].annotation)
        values[key] = _built(inner, value) if inner and isinstance(value, dict) else value
    return kind.model_construct(**values)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model of a field, which may be optional; lists of models are in no such document."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None
