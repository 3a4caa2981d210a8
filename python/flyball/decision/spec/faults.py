"""Faults of a decision at the author's lines, with the nearest valid name.

Faults come from the pydantic models (structure), from compiling (files, fitted parameters) and from the data plane's
checks; all become `LineFault`s here. Must not know what is checked.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from flyball.documents.faults import path_of
from flyball.errors import Fault, LineFault, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pydantic import BaseModel, ValidationError
    from pydantic.fields import FieldInfo

    from flyball.documents.yaml_lines import Marked, Place

_FOUND_CHARACTERS_MAX = 60
_CLOSE = 0.5
_PARTS = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_PAGE = "see docs/reference/decision-spec.md for every key"


class DecisionRefusedError(RefusedError):
    """An invalid decision; `faults` has all its faults."""

    code = "decision_refused"


@dataclass(frozen=True, slots=True)
class Origin:
    """A decision's file and lines; a decision made in Python has neither."""

    path: Path | None = None
    marked: Marked | None = None

    def __str__(self) -> str:
        return str(self.path) if self.path else "the decision"

    def at(self, place: Place) -> str:
        """File and line of a place, or of the nearest part around it."""
        if self.path is None or self.marked is None:
            return "decision"
        return f"{self.path}:{self.marked.line(self._written(place))}"

    def _written(self, place: Place) -> Place:
        """The place in the author's file: compiled lists may be objects there, and shorthands have no keys."""
        here: Any = self.marked.value if self.marked else None
        found: list[str | int] = []
        for part in place:
            if isinstance(here, dict) and part in here:
                key: str | int = part
            elif isinstance(here, dict) and isinstance(part, int) and part < len(here):
                key = list(here)[part]
            elif isinstance(here, list) and isinstance(part, int) and part < len(here):
                key = part
            else:
                break
            found.append(key)
            here = here[key]
        return tuple(found)


def refusal(origin: Origin, faults: Sequence[LineFault]) -> DecisionRefusedError:
    """The error with all faults, in line order."""
    ordered = sorted(faults, key=lambda fault: (_line(fault.at), fault.path))
    step = _PAGE if origin.path is None else f"check it again:  flyball check {shlex.quote(str(origin.path))}"
    count = f"{len(faults)} fault{'s' * (len(faults) != 1)}"
    return DecisionRefusedError(f"{origin} has {count}", faults=list(ordered), next_step=step)


def fault_at(origin: Origin, place: Place, found: object, allowed: str, text: str | None = None) -> LineFault:
    """One fault at a place of the author's document."""
    text = text or (f"is {_shown(found)}; allowed: {allowed}" if found is not None else allowed)
    return LineFault(path_of(place), _plain(found), allowed, origin.at(place), text)


def shape_faults(origin: Origin, error: ValidationError, root: type[BaseModel]) -> list[LineFault]:
    """Convert pydantic's errors."""
    items = [dict(item) for item in error.errors(include_url=False, include_context=True)]
    meant = {(*_place(item)[:-1], *_meant(item, root)) for item in items if item["type"] == "extra_forbidden"}
    # A misspelled key is one mistake: the right one is not also reported as missing.
    return [_shape_fault(origin, item, root) for item in items if item["type"] != "missing" or _place(item) not in meant]


def _place(item: dict[str, Any]) -> Place:
    return tuple(part for part in item["loc"] if part != "[key]")


def _meant(item: dict[str, Any], root: type[BaseModel]) -> list[str]:
    """The known key that an unknown one was probably meant to be."""
    place = _place(item)
    return difflib.get_close_matches(str(place[-1]), _keys(_model_at(root, place[:-1])), n=1, cutoff=_CLOSE)


def _shape_fault(origin: Origin, item: dict[str, Any], root: type[BaseModel]) -> LineFault:
    kind, place = item["type"], _place(item)
    if kind == "says":
        place = (*place, item["ctx"]["key"]) if "key" in item["ctx"] else place
        return fault_at(origin, place, item["input"], item["ctx"]["text"], item["ctx"]["text"])
    if kind == "extra_forbidden":
        known = _keys(_model_at(root, place[:-1]))
        return fault_at(
            origin, place, item["input"], f"one of {', '.join(known)}", f"unknown key; {near(str(place[-1]), known)}"
        )
    if kind == "missing":
        field = _field_at(root, place)
        allowed = (field and field.description) or "a value"
        return fault_at(origin, place, None, allowed, f"is missing: {allowed}")
    if kind == "not_allowed":
        allowed = str(item["ctx"]["allowed"])
    elif kind in ("model_type", "model_attributes_type", "dict_type"):
        allowed = _object_text(root, place)
    elif kind == "list_type":
        allowed = "a list"
    elif kind in ("too_long", "too_short"):
        allowed = str(item["msg"]).lower().removesuffix(f", not {item['ctx'].get('actual_length')}")
    else:
        allowed = str(item["msg"]).lower()
    close = difflib.get_close_matches(str(item["input"]), _choices(root, place), n=1)
    advice = f"; did you mean {close[0]}?" if close else ""
    return fault_at(origin, place, item["input"], allowed, f"is {_shown(item['input'])}; allowed: {allowed}{advice}")


def meaning_faults(
    origin: Origin, faults: Iterable[Fault], document: Mapping[str, Any], singular: str | None
) -> list[LineFault]:
    """Convert the data plane's faults to the author's lines. `singular` is the name of the only model."""
    placed = ((_authors(place_of(fault.path), document, singular), fault) for fault in faults)
    return [fault_at(origin, place, fault.found, fault.allowed) for place, fault in placed]


def _authors(place: Place, document: Mapping[str, Any], singular: str | None) -> Place:
    """Convert a place of the document to the author's form: `model` for the only one, `columns`, steps by name."""
    match place:
        case ("models", name, *rest):
            before: Place = ("model",) if name == singular else ("models", name)
            match rest:
                case ["inputs", int(), "columns", *more]:
                    return (*before, "columns", *more)
                case ["inputs", *_]:
                    return (*before, "columns")
                case ["score", *_]:
                    return (*before, "score")
                case ["explain", "path" | "digest" | "by"]:
                    return (*before, "explain")
            return (*before, *rest)
        case ("transforms", int(step), *rest) if step < len(document["transforms"]):
            return ("transforms", step, document["transforms"][step]["op"], *rest)
        case ("features", name, ("source" | "key" | "field") as key):
            return ("features", name, "lookup" if key == "source" else key)
        case ("features", name, "lookup", key):
            return ("features", name, "lookup" if key == "source" else key)
    return place


def place_of(path: str) -> Place:
    """Split `policy.rules[0].when` into its parts."""
    return tuple(int(index) if index else key for index, key in _PARTS.findall(path))


def near(wrong: str, known: Sequence[str]) -> str:
    """A suggestion: the nearest known name, or all of them."""
    close = difflib.get_close_matches(wrong, known, n=1, cutoff=_CLOSE)
    return f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}" if known else "none are defined"


def _line(at: str) -> int:
    number = at.rpartition(":")[2]
    return int(number) if number.isdecimal() else 0


def _keys(model: type[BaseModel] | None) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _field_at(root: type[BaseModel], place: Place) -> FieldInfo | None:
    owner = _model_at(root, place[:-1]) if place else None
    fields = owner.model_fields if owner else {}
    return next((field for name, field in fields.items() if place[-1] in (name, field.alias)), None)


def _choices(root: type[BaseModel], place: Place) -> list[str]:
    """The allowed words at a place; empty for other types."""
    field = _field_at(root, place)
    kind = _bare(field.annotation) if field else None
    return [str(choice) for choice in get_args(kind)] if get_origin(kind) is Literal else []


def _object_text(root: type[BaseModel], place: Place) -> str:
    keys = _keys(_model_at(root, place))
    return f"an object of {', '.join(keys)}" if keys else "an object"


def _model_at(root: type[BaseModel], place: Place) -> type[BaseModel] | None:
    """The pydantic model at a place; None if there is none."""
    here: Any = root
    for part in place:
        here = _bare(here)
        if get_origin(here) in (dict, list):
            here = get_args(here)[-1]
            continue
        fields = getattr(here, "model_fields", {})
        here = next((field.annotation for name, field in fields.items() if part in (name, field.alias)), None)
    here = _bare(here)
    return here if hasattr(here, "model_fields") else None


def _bare(annotation: Any) -> Any:
    """X for `Annotated[X, …]` and for `X | None`."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif get_origin(annotation) in (Union, UnionType):
            annotation = next(choice for choice in get_args(annotation) if choice is not NoneType)
        else:
            return annotation


def _plain(value: object) -> object:
    """The value if it is valid JSON, else its repr."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return repr(value)[:_FOUND_CHARACTERS_MAX]
    return value


def _shown(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return text if len(text) <= _FOUND_CHARACTERS_MAX else text[: _FOUND_CHARACTERS_MAX - 1] + "…"
