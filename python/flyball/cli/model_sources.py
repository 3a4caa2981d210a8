"""Where `flyball serve` has its models from: files, decisions, a snapshot, a model repository or a registry.

Must not know servers: it gives bundles, and paths of snapshots.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flyball.cli.follow import Follower
    from flyball.documents.snapshot import Bundle, Terms


@dataclass(frozen=True, slots=True)
class Source:
    """What is served. Models that were named one by one are read once; the others can be read again."""

    read: Callable[[], Bundle]
    can_change: bool = True
    on_load: Callable[[str], Path | None] | None = None
    """The index of the newest snapshot that has a model, for a client that wants it loaded; None where it is not there."""
    follower: Follower | None = None
    """Where a registry is followed: it applies what changes by itself."""


def source_of(
    models: list[str] | None,
    snapshot: Path | None,
    repository: Path | None,
    terms: Terms | None,
    decisions: list[Path] | None = None,
    follower: Follower | None = None,
) -> Source:
    """The one that the command line names; decisions may stand beside models."""
    if [bool(models or decisions), bool(snapshot), bool(repository), bool(follower)].count(True) != 1:
        raise UsageError(
            "name either models, a snapshot, a model repository or a registry to serve; decisions may stand beside models",
            next_step="flyball serve MODEL.onnx   or   --decision FILE   or   --snapshot FILE   or   --model-repository DIR"
            "   or   --registry HOME",
        )
    if follower is not None:
        _refuse_terms(terms, "--registry")
        return Source(follower.read, can_change=False, follower=follower)
    if repository is not None:
        return _repository(repository, terms)
    if snapshot is not None:
        return _snapshot(snapshot, terms)
    if decisions:
        return Source(lambda: _decided(decisions, models or [], terms))
    from flyball.documents.snapshot import compile_models

    return Source(lambda: compile_models(models or [], terms=terms), can_change=False)


def _decided(decisions: list[Path], models: list[str], terms: Terms | None) -> Bundle:
    from flyball.decision.compile.bundle import bundle_of
    from flyball.decision.decision import Decision

    return bundle_of([Decision.load(path).check().compiled for path in decisions], models, terms=terms)


def _snapshot(snapshot: Path, terms: Terms | None) -> Source:
    _refuse_terms(terms, "--snapshot")
    from flyball.documents.snapshot import read

    return Source(lambda: read(snapshot), on_load=lambda _: snapshot)


def _refuse_terms(terms: Terms | None, beside: str) -> None:
    if terms is not None:
        raise UsageError(
            f"flags for models beside {beside}: its deployments say deadline, batch and queue themselves",
            next_step="leave them out, or compile the snapshot with them:  flyball snapshot --help",
        )


def _repository(repository: Path, terms: Terms | None) -> Source:
    from flyball.cli.repository import tell
    from flyball.triton.live import LiveRepository

    live = LiveRepository(repository, terms)

    def read() -> Bundle:
        bundle, report = live.read()
        tell(report)
        return bundle

    return Source(read, on_load=lambda name: live.rescan(name, _folder()))


@cache
def _folder() -> Path:
    """Where the snapshots of loads lie, for as long as this process lives."""
    folder = tempfile.mkdtemp(prefix="flyball-repository-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
