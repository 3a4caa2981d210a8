"""Compares heads stored elsewhere with the chain, to detect a truncated or rewritten log.

`verify` proves that a chain is consistent; only a head stored elsewhere proves that it is still the same one. Must not know
where heads are stored, nor whether the registry is on this machine.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from flyball.errors import UsageError
from flyball.registry.events.event import Head

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from flyball.registry.acts.interface import Acting

_HEAD = re.compile(r"([0-9]{1,18}):(?:sha256:)?([0-9a-f]{64})")


def read_head(text: str) -> Head:
    """Parse SEQUENCE:HASH."""
    found = _HEAD.fullmatch(text)
    if found is None:
        raise UsageError(f"{text!r} is not a head", next_step="write SEQUENCE:HASH, as flyball registry verify shows it")
    return Head(int(found[1]), found[2])


def heads_of(records: Iterable[Mapping[str, Any]]) -> set[Head]:
    """The heads in a journal's `registry` records."""
    return {Head(int(record["sequence"]), str(record["hash"]).removeprefix("sha256:")) for record in records}


def unlike(registry: Acting, heads: Iterable[Head]) -> Iterator[str]:
    """A message for each head that is not in the registry's chain."""
    for head in sorted(set(heads), key=lambda one: one.sequence):
        if head.sequence == 0:
            continue  # the head of an empty registry: every chain starts there
        found = registry.history(after=head.sequence - 1, limit=1)
        if not found:
            yield f"event {head.sequence}: is missing; its hash was stored elsewhere, and the chain ends before it"
        elif (found[0].sequence, found[0].hash) != (head.sequence, head.hash):
            yield f"event {head.sequence}: has another hash than the one stored elsewhere ({head.hash[:12]}…)"
