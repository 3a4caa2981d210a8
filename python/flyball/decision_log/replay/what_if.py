"""A decision with other values: first as it was, so that it is known to come out the same, then with the change.

Features that were looked up or counted stay as they were used; those that are computed follow. Must not know the terminal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.decision_log.replay.batches import Target, decided_again
from flyball.decision_log.replay.compare import TOLERANCE, Class, Compared, compare
from flyball.decision_log.replay.deployments import CannotError
from flyball.decision_log.replay.rows import AgainRow, Unready, again, is_declared
from flyball.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.client import Decided
    from flyball.decision_log.replay.deployments import Deployment, Deployments

    Json = dict[str, Any]

_NUMBERS = ("float", "int")


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The record, how it stands to the same row today, and the decision with the change."""

    record: Json
    before: Compared
    decided: Decided
    changes: dict[str, Any]
    notes: list[str]


def what_if(record: Json, settings: Sequence[str], deployments: Deployments, tolerance: float = TOLERANCE) -> WhatIf:
    """Decide a record again with NAME=VALUE settings; raises where it cannot be decided at all."""
    try:
        deployment = deployments.of(record)
        client = deployments.running(deployment).client
    except CannotError as why:
        raise _refused(str(why)) from why
    row = again(record, deployment.features)
    if isinstance(row, Unready):
        raise _refused("its subject was erased" if row.erased else row.why)
    changes = changed(deployment, settings)
    other = AgainRow({**row.values, **changes}, None if is_declared(record) else row.way, row.explain)
    target = Target(deployment.digest, deployment.name, client)
    (_, before), (_, after) = decided_again([(record, row, target), (record, other, target)])
    if isinstance(after, Unready):
        raise _refused(after.why)
    compared = Compared(Class.CANNOT, (before.why,)) if isinstance(before, Unready) else compare(record, before, tolerance)
    return WhatIf(record, compared, after, changes, _notes(deployment, changes))


def changed(deployment: Deployment, settings: Sequence[str]) -> dict[str, Any]:
    """The values of NAME=VALUE settings, as the types of fields and features have them; an empty one is missing."""
    types = {str(item["name"]): str(item["type"]) for item in deployment.decision["input"]}
    types |= {name: str(feature["type"]) for name, feature in deployment.features.items()}
    found: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise UsageError(f"{setting!r} sets nothing", next_step="write  --set NAME=VALUE")
        if name not in types:
            near = ", ".join(sorted(types))
            raise UsageError(
                f"{name!r} is neither a field nor a feature of {deployment.name}", next_step=f"those are: {near}"
            )
        found[name] = _value(name, types[name], text)
    return found


def _value(name: str, kind: str, text: str) -> Any:
    if text in ("", "null"):
        return None
    if kind in _NUMBERS or kind == "bool":
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        fits = isinstance(value, bool) if kind == "bool" else isinstance(value, int | float) and not isinstance(value, bool)
        if not fits:
            allowed = "true or false" if kind == "bool" else "a number"
            raise UsageError(f"{name!r} is {text!r}; allowed: {allowed}")
        return value
    return text


def _notes(deployment: Deployment, changes: Mapping[str, Any]) -> list[str]:
    """What a change does not carry along by itself."""
    notes = []
    for name, feature in deployment.features.items():
        window, lookup = feature.get("window") or {}, feature.get("lookup") or {}
        of = [str(key) for key in (window.get("of"), window.get("by"), lookup.get("key")) if key in changes]
        if of and name not in changes:
            notes.append(f"{name} depends on {', '.join(of)} and stays as it was used; set it too:  --set {name}=…")
    return notes


def _refused(why: str) -> RefusedError:
    return RefusedError(f"cannot: {why}", code="cannot_replay")
