"""Sources of `flyball serve`: model files, decisions, a snapshot, a model repository or a registry.

Must not know servers: it returns bundles, and paths of snapshots.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.cli.repository import show_or_log
from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flyball.cli.follow import Follower
    from flyball.documents.snapshot import Bundle, Terms


@dataclass(frozen=True, slots=True)
class Source:
    """What to serve. Model files are read once; other sources can be read again."""

    read: Callable[[], Bundle]
    can_change: bool = True
    on_load: Callable[[str], Path | None] | None = None
    """Returns the index of the newest snapshot with a model, for clients that load it; None if there is none."""
    follower: Follower | None = None
    """With a registry: applies its changes."""


def source_of(
    models: list[str] | None,
    snapshot: Path | None,
    repository: Path | None,
    terms: Terms | None,
    decisions: list[Path] | None = None,
    follower: Follower | None = None,
) -> Source:
    """The source that the command line names; decisions can be combined with models."""
    if [bool(models or decisions), bool(snapshot), bool(repository), bool(follower)].count(True) != 1:
        raise UsageError(
            "give one source to serve: models and decisions, a snapshot, a model repository or a registry",
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


def _refuse_terms(terms: Terms | None, source: str) -> None:
    if terms is not None:
        raise UsageError(
            f"flags for models do not apply to {source}: its deployments define deadline, batch and queue",
            next_step="remove them, or compile a snapshot with them:  flyball snapshot --help",
        )


def _repository(repository: Path, terms: Terms | None) -> Source:
    from flyball.triton.live import LiveRepository

    live = LiveRepository(repository, terms)

    def read() -> Bundle:
        bundle, report = live.read()
        show_or_log(report)
        return bundle

    return Source(read, on_load=lambda name: live.rescan(name, _folder()))


@cache
def _folder() -> Path:
    """A directory for snapshots of client-requested loads; removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="flyball-repository-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
