"""Which blobs no event needs, and their removal once they have been left alone for a while.

A register puts its blobs first and appends its event last. So the rule is: what was put within the grace is kept, and the
events are read only after the age that counts was fixed. Must not know events: it is given what they refer to.
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
"""Below this a slow register, or a clock that differs from the store's, could lose what it just put."""

_HEX = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


@dataclass(slots=True)
class References:
    """What events refer to."""

    blobs: set[str] = field(default_factory=set)
    """Every digest that stands anywhere in an event, whether the store has it or not."""
    manifests: set[str] = field(default_factory=set)
    """Those that are packages: what they name is needed too."""


@dataclass(slots=True)
class Sweep:
    """What a collection found, and did."""

    needed: int = 0
    young: int = 0
    """Not needed, but put within the grace."""
    removable: list[Blob] = field(default_factory=list)
    removed: list[Blob] = field(default_factory=list)
    """Empty in a dry run."""


def references_of(bodies: Iterable[Mapping[str, Any]]) -> References:
    """Every digest in the bodies of events, wherever it stands: too much is kept rather than too little."""
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
    """Finds what no event needs, and removes it if told so. `references` is called once, after the age was fixed."""
    if grace < GRACE_MIN:
        raise UsageError(
            f"a grace of {grace} is too short: a register under way could lose its files",
            next_step=f"wait for {GRACE_MIN} at least",
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
    """All that is needed. A manifest that cannot be read ends it: its files are needed, and nobody can say which."""
    needed = set(references.blobs)
    for manifest in references.manifests:
        try:
            needed.update(needed_by(store, manifest))
        except ArtifactRefusedError as error:
            raise ArtifactRefusedError(
                f"nothing was removed: a package that an event needs cannot be read: {error.message}",
                code=error.code,
                next_step="see what else is missing:  flyball registry verify",
            ) from error
    return needed


def _walk(value: Any, key: str, found: References) -> None:
    """Bodies are our own and at most 256 KiB, so they are not deep."""
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
