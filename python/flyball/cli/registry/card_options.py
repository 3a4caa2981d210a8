"""Options of `flyball register` that say what a version is for and where it comes from, and how they become a card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from flyball.errors import InvalidInputError, UsageError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from flyball.registry.packages.meta import Card, LatencyContract, Lineage

_CARD = "What its card says"
_LINEAGE = "Where it comes from"
_FILE_BYTES_MAX = 1 << 20
_Model = TypeVar("_Model", bound="BaseModel")


def _option(panel: str, metavar: str, words: str) -> Any:
    return typer.Option(metavar=metavar, help=words, show_default=False, rich_help_panel=panel)


CardFile = Annotated[
    Path | None, typer.Option("--card", metavar="FILE", help="The card in YAML; options win over it.", rich_help_panel=_CARD)
]
Owner = Annotated[str | None, _option(_CARD, "TEXT", "Who answers for it.")]
Purpose = Annotated[str | None, _option(_CARD, "TEXT", "What it is for.")]
Tier = Annotated[str | None, _option(_CARD, "low|standard|high", "How much hangs on it: 0, 1 (standard) or 2 must approve.")]
Limits = Annotated[str | None, _option(_CARD, "TEXT", "What it is not for.")]
Validated = Annotated[str | None, _option(_CARD, "DAY", "When it was last validated, 2026-11-16.")]
ValidationDue = Annotated[str | None, _option(_CARD, "DAY", "By when it must be again; overdue is not promoted.")]
Metric = Annotated[list[str] | None, _option(_LINEAGE, "NAME=NUMBER", "Such as auc=0.91; may be repeated.")]
Data = Annotated[str | None, _option(_LINEAGE, "TEXT", "Digest of the training data.")]
Code = Annotated[str | None, _option(_LINEAGE, "TEXT", "Commit of the training's code.")]
Parameter = Annotated[list[str] | None, _option(_LINEAGE, "NAME=VALUE", "Of the training; may be repeated.")]
Notes = Annotated[str, _option(_LINEAGE, "TEXT", "Anything else.")]


def card_of(file: Path | None, said: dict[str, str | None]) -> Card:
    """The card: what the file says, and above it what the options say."""
    from flyball.registry.packages.meta import Card

    written = {} if file is None else _read(file)
    return _checked(Card, {**written, **{key: value for key, value in said.items() if value is not None}}, "the card")


def contract_of(file: Path | None) -> LatencyContract | None:
    """The latency contract of a file."""
    from flyball.registry.packages.meta import LatencyContract

    return None if file is None else _checked(LatencyContract, _read(file), f"the contract {file}")


def lineage_of(data: str | None, code: str | None, parameters: list[str] | None) -> Lineage:
    """Where it comes from."""
    from flyball.registry.packages.meta import Lineage

    pairs = {name: _plain(value) for name, value in map(_pair, parameters or [])}
    return _checked(Lineage, {"data": data, "code": code, "parameters": pairs}, "the lineage")


def metrics_of(told: list[str] | None) -> dict[str, float | int | str]:
    """Numbers by name."""
    return {name: _number(value, name) for name, value in map(_pair, told or [])}


def _read(file: Path) -> dict[str, Any]:
    """A small file of people, in YAML, of which JSON is a part."""
    import yaml

    try:
        with file.open("rb") as opened:
            content = opened.read(_FILE_BYTES_MAX + 1)
        document = yaml.safe_load(content)
    except OSError as error:
        raise InvalidInputError(f"cannot read {file}: {error.strerror}", next_step="name a file that can be read") from error
    except yaml.YAMLError as error:
        raise InvalidInputError(f"{file} is no YAML: {' '.join(str(error).split())}") from error
    if len(content) > _FILE_BYTES_MAX or not isinstance(document, dict):
        raise InvalidInputError(f"{file} has no keys with values", next_step="write  key: value  lines")
    # YAML reads days as dates; the package keeps them as they are written.
    return {str(key): value.isoformat() if hasattr(value, "isoformat") else value for key, value in document.items()}


def _checked(model: type[_Model], document: dict[str, Any], what: str) -> _Model:
    from pydantic import ValidationError

    from flyball.documents.faults import faults_of

    try:
        return model.model_validate(document)
    except ValidationError as error:
        found = faults_of(error, model)
        raise UsageError(f"{what} cannot be taken", faults=found, next_step="flyball register --help") from error


def _pair(told: str) -> tuple[str, str]:
    name, equals, value = told.partition("=")
    if not name or not equals:
        raise UsageError(f"{told!r} is no NAME=VALUE", next_step="such as  --metric auc=0.91")
    return name, value


def _number(value: str, name: str) -> float | int:
    found = _plain(value)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise UsageError(f"the metric {name} is {value!r}, and a number is wanted", next_step="such as  --metric auc=0.91")
    return found


def _plain(value: str) -> Any:
    """A number where it is one, else the text."""
    try:
        found = json.loads(value)
    except ValueError:
        return value
    return found if isinstance(found, int | float | bool) else value
