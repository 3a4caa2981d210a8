"""Documents, packages and releases verified by the data plane's own code."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal, NamedTuple

from flyball.errors import Fault
from flyball.native.boundary import boundary, native

if TYPE_CHECKING:
    from pathlib import Path


class Refusal(NamedTuple):
    """Why something signed is not taken: a reason of the closed list, and words."""

    reason: str
    words: str


def check_snapshot(kind: Literal["index", "deployment"], document: bytes) -> list[Fault]:
    """All faults of a document, by the native reader."""
    with boundary():
        return [Fault.from_document(item) for item in json.loads(native.check_snapshot(kind, document))]


def verify_package(folder: Path, bundle: bytes, trust: bytes, root: str, now: int) -> Refusal | None:
    """Whether the data plane would take a folder by this bundle and this trust policy; `root`: public keys in PEM."""
    with boundary():
        refused = native.verify_package(str(folder), bundle, trust, root, now)
    return None if refused is None else Refusal(*refused)


def verify_release(release: bytes, trust: bytes, root: str, now: int, environment: str) -> Refusal | None:
    """Whether the data plane would take a release, in this environment."""
    with boundary():
        refused = native.verify_release(release, trust, root, now, environment)
    return None if refused is None else Refusal(*refused)
