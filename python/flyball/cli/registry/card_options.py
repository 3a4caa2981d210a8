"""Options of `flyball register` for a version's card and lineage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from flyball.cli.flag_faults import FlagFault, refused
from flyball.cli.option import option
from flyball.errors import InvalidInputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from flyball.registry.packages.meta import Card, LatencyContract, Lineage

_CARD = "Model card"
_LINEAGE = "Lineage"
_FILE_BYTES_MAX = 1 << 20
_Model = TypeVar("_Model", bound="BaseModel")


def _option(panel: str, metavar: str, text: str, kind: Any = str) -> Any:
    return Annotated[kind | None, option(text, metavar=metavar, panel=panel)]


CardFile = Annotated[Path | None, option("The card, in YAML; options override it.", "--card", metavar="FILE", panel=_CARD)]
CARD_OPTIONS: dict[str, Any] = {
    "owner": _option(_CARD, "TEXT", "The owner."),
    "purpose": _option(_CARD, "TEXT", "The intended purpose."),
    "tier": _option(_CARD, "low|standard|high", "Risk tier: needs 0, 1 (standard) or 2 approvals."),
}
MORE_CARD_OPTIONS: dict[str, Any] = {
    "limits": _option(_CARD, "TEXT", "Known limits and unsuitable uses."),
    "validated": _option(_CARD, "DAY", "Date of the last validation, 2026-11-16."),
    "validation_due": _option(_CARD, "DAY", "Date of the next validation; overdue versions are not promoted."),
}
LINEAGE_OPTIONS: dict[str, Any] = {
    "metric": _option(_LINEAGE, "NAME=NUMBER", "A metric, such as auc=0.91; may be repeated.", list[str]),
    "data_digest": _option(_LINEAGE, "TEXT", "Digest of the training data."),
    "code_commit": _option(_LINEAGE, "TEXT", "Commit of the training code."),
    "parameter": _option(_LINEAGE, "NAME=VALUE", "A training parameter; may be repeated.", list[str]),
    "notes": _option(_LINEAGE, "TEXT", "Free-text notes."),
}


def card_of(file: Path | None, flags: dict[str, Any]) -> Card:
    """Build the card from the file; options override it."""
    from flyball.registry.packages.meta import Card

    written = {} if file is None else _read(file)
    given = {key: value for key in CARD_OPTIONS | MORE_CARD_OPTIONS if (value := flags.get(key)) is not None}
    return _checked(Card, {**written, **given}, "the card", {key: f"--{key}" for key in given})


def contract_of(file: Path | None) -> LatencyContract | None:
    """Read the latency contract from a file."""
    from flyball.registry.packages.meta import LatencyContract

    return None if file is None else _checked(LatencyContract, _read(file), f"the contract {file}")


def lineage_of(data: str | None, code: str | None, parameters: list[str] | None) -> Lineage:
    """Build the lineage from the options."""
    from flyball.registry.packages.meta import Lineage

    pairs = {name: _plain(value) for name, value in map(_pair, parameters or [])}
    flags = {"data": "--data-digest", "code": "--code-commit", "parameters": "--parameter"}
    return _checked(Lineage, {"data": data, "code": code, "parameters": pairs}, "the lineage", flags)


def metrics_of(given: list[str] | None) -> dict[str, float | int | str]:
    """Parse NAME=NUMBER pairs."""
    return {name: _number(value, name) for name, value in map(_pair, given or [])}


def _read(file: Path) -> dict[str, Any]:
    """Read a small YAML or JSON file."""
    import yaml

    try:
        with file.open("rb") as opened:
            content = opened.read(_FILE_BYTES_MAX + 1)
        document = yaml.safe_load(content)
    except OSError as error:
        raise InvalidInputError(f"cannot read {file}: {error.strerror}", next_step="give a readable file") from error
    except yaml.YAMLError as error:
        raise InvalidInputError(f"{file} is not YAML: {' '.join(str(error).split())}") from error
    if len(content) > _FILE_BYTES_MAX or not isinstance(document, dict):
        raise InvalidInputError(f"{file} is not a mapping of at most 1 MiB", next_step="write  key: value  lines")
    # YAML parses dates; the package stores them as written.
    return {str(key): value.isoformat() if hasattr(value, "isoformat") else value for key, value in document.items()}


def _checked(model: type[_Model], document: dict[str, Any], what: str, flags: Mapping[str, str] | None = None) -> _Model:
    """Validate the document; `flags` are the keys that were given as flags."""
    from pydantic import ValidationError

    from flyball.documents.faults import faults_of

    try:
        return model.model_validate(document)
    except ValidationError as error:
        found = faults_of(error, model)
        step = "see the usage:  flyball register --help"
        flagged = [(flags or {}).get(fault.path.partition(".")[0], "").replace("_", "-") for fault in found]
        if all(flagged):
            faults = [FlagFault(flag, one.found, one.allowed) for flag, one in zip(flagged, found, strict=True)]
            raise refused(faults, step) from error
        raise UsageError(f"{what} is not valid", faults=found, next_step=step) from error


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise UsageError(f"{text!r} is not NAME=VALUE", next_step="for example  --metric auc=0.91")
    return name, value


def _number(value: str, name: str) -> float | int:
    found = _plain(value)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise UsageError(f"--metric: {name} is {value!r}, not a number", next_step="for example  --metric auc=0.91")
    return found


def _plain(value: str) -> Any:
    """Parse a number or boolean; all else is text."""
    try:
        found = json.loads(value)
    except ValueError:
        return value
    return found if isinstance(found, int | float | bool) else value
