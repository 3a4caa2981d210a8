"""Replays a decision with other values: first unchanged, as a check, then with the change.

Looked-up and window features keep their recorded values; computed ones follow. Must not know the terminal.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flyball.decision_log.replay.batches import Target, decided_again
from flyball.decision_log.replay.compare import TOLERANCE, Class, Compared, compare
from flyball.decision_log.replay.deployments import NotReplayableError
from flyball.decision_log.replay.rows import NotReplayable, ReplayRow, is_declared, replay_row
from flyball.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.client import Decided
    from flyball.decision_log.replay.deployments import Deployment, Deployments

    Json = dict[str, Any]

_NUMBERS = ("float", "int")


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The record, its unchanged replay compared, and the decision with the change."""

    record: Json
    before: Compared
    decided: Decided
    changes: dict[str, Any]
    notes: list[str]


def what_if(record: Json, settings: Sequence[str], deployments: Deployments, tolerance: float = TOLERANCE) -> WhatIf:
    """Replay a record with NAME=VALUE settings; raises if it cannot be replayed."""
    try:
        deployment = deployments.of(record)
        client = deployments.running(deployment).client
    except NotReplayableError as why:
        raise _refused(str(why)) from why
    row = replay_row(record, deployment.features)
    if isinstance(row, NotReplayable):
        raise _refused("its subject was erased" if row.erased else row.why)
    changes = changed(deployment, settings)
    other = ReplayRow({**row.values, **changes}, None if is_declared(record) else row.forced_route, row.explain)
    target = Target(deployment.digest, deployment.name, client)
    (_, before), (_, after) = decided_again([(record, row, target), (record, other, target)])
    if isinstance(after, NotReplayable):
        raise _refused(after.why)
    compared = (
        Compared(Class.CANNOT, (before.why,)) if isinstance(before, NotReplayable) else compare(record, before, tolerance)
    )
    return WhatIf(record, compared, after, changes, _notes(deployment, changes))


def changed(deployment: Deployment, settings: Sequence[str]) -> dict[str, Any]:
    """Parse NAME=VALUE settings by the types of fields and features; an empty value is missing."""
    types = {str(item["name"]): str(item["type"]) for item in deployment.decision["input"]}
    types |= {name: str(feature["type"]) for name, feature in deployment.features.items()}
    found: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise UsageError(f"--set: {setting!r} is not NAME=VALUE", next_step="write  --set NAME=VALUE")
        if name not in types:
            known = ", ".join(sorted(types))
            raise UsageError(f"--set: {deployment.name} has no field or feature {name!r}", next_step=f"it has: {known}")
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
            raise UsageError(f"--set: {name!r} is {text!r}; allowed: {allowed}")
        return value
    return text


def _notes(deployment: Deployment, changes: Mapping[str, Any]) -> list[str]:
    """Notes on features that the change does not update."""
    notes = []
    for name, feature in deployment.features.items():
        window, lookup = feature.get("window") or {}, feature.get("lookup") or {}
        of = [str(key) for key in (window.get("of"), window.get("by"), lookup.get("key")) if key in changes]
        if of and name not in changes:
            notes.append(f"{name} depends on {', '.join(of)} and keeps its recorded value; set it, too:  --set {name}=…")
    return notes


def _refused(why: str) -> RefusedError:
    return RefusedError(f"cannot replay: {why}", code="cannot_replay")
