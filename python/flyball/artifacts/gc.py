"""Finds blobs that no event references, and removes them after a grace period.

Registration puts its blobs first and appends its event last. Therefore blobs within the grace are kept, and events are
read only after the cutoff time was fixed. Must not know events: their references are a parameter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from flyball.artifacts.packages import needed_by
from flyball.errors import ArtifactRefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from flyball.artifacts.blobs import Blob, Store

GRACE = timedelta(days=1)
GRACE_MIN = timedelta(hours=1)
"""Below this a slow registration, or clock skew with the store, could lose new blobs."""

_HEX = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


@dataclass(slots=True)
class References:
    """Digests that events refer to."""

    blobs: set[str] = field(default_factory=set)
    """Every digest in any event, whether the store has it or not."""
    manifests: set[str] = field(default_factory=set)
    """Those that are package manifests: what they reference is needed too."""


@dataclass(slots=True)
class Sweep:
    """The result of a garbage collection."""

    needed: int = 0
    young: int = 0
    """Unreferenced, but put within the grace."""
    removable: list[Blob] = field(default_factory=list)
    removed: list[Blob] = field(default_factory=list)
    """Empty in a dry run."""


def references_of(bodies: Iterable[Mapping[str, Any]]) -> References:
    """Every digest in the bodies of events, anywhere: better to keep too much than too little."""
    found = References()
    for body in bodies:
        _walk(body, "", found)
    return found


def collect(
    store: Store,
    references: Callable[[], References],
    *,
    grace: timedelta = GRACE,
    now: datetime | None = None,
    remove: bool = False,
) -> Sweep:
    """Find unreferenced blobs, and remove them unless it is a dry run. `references` is called once, after the cutoff."""
    if grace < GRACE_MIN:
        raise UsageError(
            f"a grace of {grace} is too short: a registration in progress could lose its files",
            next_step=f"use at least {GRACE_MIN}",
        )
    before = (now or datetime.now(UTC)) - grace
    needed = _needed(store, references())
    sweep = Sweep()
    for blob in store.blobs():
        if blob.digest in needed:
            sweep.needed += 1
        elif blob.touched is None or blob.touched >= before:
            sweep.young += 1
        else:
            sweep.removable.append(blob)
    sweep.removable.sort(key=lambda blob: blob.digest)
    if remove:
        sweep.removed = store.remove([blob.digest for blob in sweep.removable], untouched_since=before)
    return sweep


def _needed(store: Store, references: References) -> set[str]:
    """All referenced digests. An unreadable manifest stops the collection: its files are unknown."""
    needed = set(references.blobs)
    for manifest in references.manifests:
        try:
            needed.update(needed_by(store, manifest))
        except ArtifactRefusedError as error:
            raise ArtifactRefusedError(
                f"nothing was removed: cannot read a package that an event references: {error.message}",
                code=error.code,
                next_step="list what else is missing:  flyball registry verify",
            ) from error
    return needed


def _walk(value: Any, key: str, found: References) -> None:
    """Event bodies are our own and at most 256 KiB, so recursion is not deep."""
    if isinstance(value, str):
        match = _HEX.fullmatch(value)
        if match:
            digest = f"sha256:{match[1]}"
            found.blobs.add(digest)
            if key == "manifest":
                found.manifests.add(digest)
    elif isinstance(value, dict):
        for name, part in value.items():
            _walk(part, name, found)
    elif isinstance(value, list | tuple):
        for part in value:
            _walk(part, key, found)
