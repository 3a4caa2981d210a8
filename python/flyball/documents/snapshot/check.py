"""Validates snapshot documents with the server's own check. Must not touch files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, overload

from flyball.documents.snapshot.models import Deployment, Index
from flyball.errors import SnapshotRefusedError
from flyball.native.checks import check_snapshot

if TYPE_CHECKING:
    from flyball.errors import Fault

_MODELS: dict[str, type[Index | Deployment]] = {"index": Index, "deployment": Deployment}


def check(kind: Literal["index", "deployment", "terms"], document: bytes | object) -> list[Fault]:
    """All faults of a document, sorted by path; empty if it is valid."""
    return check_snapshot(kind, document if isinstance(document, bytes) else json.dumps(document).encode())


@overload
def parse(kind: Literal["index"], document: bytes) -> Index: ...
@overload
def parse(kind: Literal["deployment"], document: bytes) -> Deployment: ...
def parse(kind: Literal["index", "deployment"], document: bytes) -> Index | Deployment:
    """Validate and parse a document; raises with all faults."""
    faults = check(kind, document)
    if faults:
        count = f"{len(faults)} fault{'s' * (len(faults) != 1)}"
        raise SnapshotRefusedError(f"the snapshot's {kind} document has {count}", faults=faults)
    return _MODELS[kind].model_validate_json(document)
