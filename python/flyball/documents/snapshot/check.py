"""Finds all faults of a snapshot document at once, in the path grammar that Rust shares.

Field faults never hide each other; duplicates and routes are judged only among parts that are valid by themselves.
Must not touch files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal, overload

from pydantic import ValidationError

from flyball.documents.faults import faults_of
from flyball.documents.snapshot.models import (
    FORMAT,
    Deployment,
    FirstDeployment,
    FirstIndex,
    FourthDeployment,
    Index,
    Limits,
    SecondDeployment,
    ThirdDeployment,
)
from flyball.errors import Fault, SnapshotRefusedError

if TYPE_CHECKING:
    from collections.abc import Collection

    from pydantic import BaseModel

Kind = Literal["index", "deployment"]

_MODELS: dict[str, type[Index | Deployment]] = {"index": Index, "deployment": Deployment}
_OLDER: dict[str, dict[int, type[FirstIndex | FirstDeployment]]] = {
    "index": dict.fromkeys(range(1, 5), FirstIndex),
    "deployment": {1: FirstDeployment, 2: SecondDeployment, 3: ThirdDeployment, 4: FourthDeployment},
}


def check(kind: Kind, document: bytes | object) -> list[Fault]:
    """All faults of a document, sorted by path; an empty list means that it is good."""
    if isinstance(document, bytes):
        try:
            document = _load(document)
        except (ValueError, RecursionError) as error:
            return [Fault("", None, f"a JSON document ({error})")]
    model: type[BaseModel] = _OLDER[kind].get(_format(document), _MODELS[kind])
    try:
        model.model_validate(document)
        faults = []
    except ValidationError as error:
        faults = faults_of(error, model)
    faulty = {fault.path for fault in faults}
    if isinstance(document, dict):
        faults += _index_faults(document, faulty) if kind == "index" else _deployment_faults(document, faulty)
    return sorted(faults, key=lambda fault: fault.path)


@overload
def parse(kind: Literal["index"], document: bytes) -> Index: ...
@overload
def parse(kind: Literal["deployment"], document: bytes) -> Deployment: ...
def parse(kind: Kind, document: bytes) -> Index | Deployment:
    """The checked document; raises with all of its faults."""
    faults = check(kind, document)
    if faults:
        count = f"{len(faults)} fault{'s' * (len(faults) != 1)}"
        raise SnapshotRefusedError(f"the snapshot's {kind} document has {count}", faults=faults)
    return _MODELS[kind].model_validate(_load(document))


def _format(document: object) -> int:
    """A format that is a fault itself is judged as the newest: its keys would only be told as faults once more."""
    stated = document.get("format") if isinstance(document, dict) else None
    return stated if type(stated) is int else FORMAT  # JSON's true equals 1 in Python


def _index_faults(document: dict[str, Any], faulty: set[str]) -> list[Fault]:
    return _duplicates(document, "deployments", "name", faulty)


def _deployment_faults(document: dict[str, Any], faulty: set[str]) -> list[Fault]:
    faults = _duplicates(document, "versions", "version", faulty)
    if document.get("versions") == [] and "versions" not in faulty and not isinstance(document.get("decision"), dict):
        faults.append(Fault("versions", [], "a list of 1 to 16 versions; only a decision may do without a model"))
    known = [text for _, text in _sound(document, "versions", "version", faulty)]
    if known and not faulty & {"route", "route.version"}:
        wanted = document["route"]["version"]
        if wanted not in known:
            faults.append(Fault("route.version", wanted, f"one of the versions: {', '.join(known)}"))
    return faults + _candidate_faults(document, known, faulty) + batch_faults(document, faulty)


def _candidate_faults(document: dict[str, Any], taken: list[str], faulty: set[str]) -> list[Fault]:
    """Its versions are loaded beside the deployment's: no number may stand in both lists."""
    candidate = document.get("candidate")
    if not isinstance(candidate, dict) or "candidate" in faulty:
        return []
    within = {path.removeprefix("candidate.") for path in faulty}
    faults = _duplicates(candidate, "versions", "version", within, taken=taken)
    return [Fault(f"candidate.{fault.path}", fault.found, fault.allowed) for fault in faults]


def batch_faults(document: dict[str, Any], faulty: Collection[str] = ()) -> list[Fault]:
    """A batch of more rows than a run may have: every request would wait for the whole window."""
    batch = document.get("batch")
    if batch is None or not {"batch", "batch.size", "limits", "limits.batch_rows_max"}.isdisjoint(faulty):
        return []
    rows_max = document.get("limits", {}).get("batch_rows_max", Limits().batch_rows_max)
    if batch["size"] <= rows_max:
        return []
    return [Fault("batch.size", batch["size"], f"at most limits.batch_rows_max, which is {rows_max}")]


def _duplicates(
    document: dict[str, Any], items: str, key: str, faulty: set[str], *, taken: Collection[str] = ()
) -> list[Fault]:
    seen = set(taken)
    faults = []
    for path, text in _sound(document, items, key, faulty):
        if text in seen:
            faults.append(Fault(path, text, f"a {key} that no other entry has"))
        seen.add(text)
    return faults


def _sound(document: dict[str, Any], items: str, key: str, faulty: set[str]) -> list[tuple[str, str]]:
    """Path and text of each entry's key that has no fault of its own."""
    if items in faulty:
        return []
    paths = [(f"{items}[{place}]", f"{items}[{place}].{key}", item) for place, item in enumerate(document[items])]
    return [(path, item[key]) for entry, path, item in paths if not faulty & {entry, path}]


def _load(document: bytes) -> object:
    """JSON as Rust reads it: no NaN, and no key twice, where Python's reader would keep the last one silently."""
    return json.loads(document.decode("utf-8"), object_pairs_hook=_object, parse_constant=_constant)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise ValueError(f"the key {twice!r} stands twice")
    return dict(pairs)


def _constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
