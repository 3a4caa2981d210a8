"""Sources of `flyball serve`: model files, decisions, a snapshot, a model repository or a registry.

Must not know servers: it returns bundles, and paths of snapshots.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.cli.edited_files import POLL_S as EDITS_POLL_S
from flyball.cli.edited_files import EditedFiles
from flyball.cli.model_files import models_read
from flyball.cli.repository import Control, log_report, show_or_log
from flyball.errors import ModelRefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flyball.cli.follow import Follower
    from flyball.documents.snapshot import Bundle, Terms


@dataclass(frozen=True, slots=True)
class Source:
    """What to serve. Model files are read once; other sources can be read again."""

    read: Callable[[], Bundle]
    can_change: bool = True
    on_load: Callable[[str, str | None, bool], Path | None] | None = None
    """Returns the index of the newest snapshot with a model, for clients that load it; None if there is none.

    Called with the model's name, and the configuration in JSON if the client sent one.
    """
    changed: Callable[[], Bundle | None] | None = None
    """Returns what to serve if it changed since it was last read; called every `poll_s` seconds."""
    poll_s: float = 0.0
    follower: Follower | None = None
    """With a registry: applies its changes."""


def source_of(
    models: list[str] | None,
    snapshot: Path | None,
    repositories: list[Path] | None,
    terms: Terms | None,
    decisions: list[Path] | None = None,
    follower: Follower | None = None,
    control: Control | None = None,
    *,
    reload: bool = False,
) -> Source:
    """The source that the command line names; decisions can be combined with models."""
    if [bool(models or decisions), bool(snapshot), bool(repositories), bool(follower)].count(True) != 1:
        raise UsageError(
            "give one source to serve: models and decisions, a snapshot, a model repository or a registry",
            next_step="flyball serve MODEL.onnx   or   --decision FILE   or   --snapshot FILE   or   --model-repository DIR"
            "   or   --registry HOME",
        )
    if reload and not (models or decisions):
        raise UsageError("--reload is for models and decisions", next_step=_other_reload(snapshot, repositories))
    if follower is not None:
        _refuse_terms(terms, "--registry")
        return Source(follower.read, can_change=False, follower=follower)
    if repositories:
        return _repository(repositories, terms, control or Control())
    if snapshot is not None:
        return _snapshot(snapshot, terms)
    files, specs = models or [], decisions or []
    read = partial(_decided, specs, files, terms) if specs else partial(_compiled, files, terms)
    if reload:
        edited = EditedFiles(read, files, specs)
        return Source(edited.read, changed=edited.changed, poll_s=EDITS_POLL_S)
    return Source(read, can_change=bool(specs))


def _other_reload(snapshot: Path | None, repositories: list[Path] | None) -> str:
    """How the other sources follow changes."""
    if snapshot is not None:
        return "write  --watch"
    return "write  --model-control-mode poll" if repositories else "a registry's changes are followed without it"


def _compiled(models: list[str], terms: Terms | None) -> Bundle:
    from flyball.documents.snapshot import compile_models

    with models_read(models, "serve"):
        return compile_models(models, terms=terms)


def _decided(decisions: list[Path], models: list[str], terms: Terms | None) -> Bundle:
    from flyball.decision.compile.bundle import bundle_of
    from flyball.decision.decision import Decision

    compiled = [Decision.load(path).check().compiled for path in decisions]
    with models_read(models, "serve"):
        return bundle_of(compiled, models, terms=terms)


def _snapshot(snapshot: Path, terms: Terms | None) -> Source:
    _refuse_terms(terms, "--snapshot")
    from flyball.documents.snapshot import read

    def on_load(_: str, config: str | None, _serves: bool) -> Path:
        if config is not None:
            raise ModelRefusedError("config: only models of --model-repository can be loaded with a configuration")
        return snapshot

    return Source(lambda: read(snapshot), on_load=on_load)


def _refuse_terms(terms: Terms | None, source: str) -> None:
    if terms is not None:
        raise UsageError(
            f"flags for models do not apply to {source}: its deployments define deadline, batch and queue",
            next_step="remove them, or compile a snapshot with them:  flyball snapshot --help",
        )


def _repository(repositories: list[Path], terms: Terms | None, control: Control) -> Source:
    from flyball.triton.live import ALL, LiveRepository

    load = (ALL,) if control.load is None else control.load
    may_be_empty = control.load is not None or control.poll_s is not None
    live = LiveRepository(repositories, terms, load=load, may_be_empty=may_be_empty, config_name=control.config_name)

    def read() -> Bundle:
        bundle, report = live.read()
        show_or_log(report)
        return bundle

    def changed() -> Bundle | None:
        found = live.changed()
        if found is None:
            return None
        log_report(found[1])
        return found[0]

    return Source(
        read,
        on_load=lambda name, config, serves: live.rescan(name, _folder(), config, serves=serves),
        changed=changed if control.poll_s is not None else None,
        poll_s=control.poll_s or 0.0,
    )


@cache
def _folder() -> Path:
    """A directory for snapshots of client-requested loads; removed when this process ends."""
    folder = tempfile.mkdtemp(prefix="flyball-repository-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
