"""Served model repositories: read at start, and again on request or when they change, whole or one model.

A model that can no longer be served keeps its last good state, like a snapshot's deployment. Must not know servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from flyball.documents.snapshot import Bundle, Terms, compile_models
from flyball.documents.snapshot.models import FORMAT
from flyball.documents.snapshot.store import canonical, digest_of
from flyball.errors import ModelRefusedError, UsageError
from flyball.triton.compile import Repository, named, read_models, refuse_if_empty, refuse_if_none_is_served
from flyball.triton.configurations import Configurations
from flyball.triton.layout import config_stamp, scan, stamp
from flyball.triton.report import RepositoryReport

ALL = "*"
"""In `load`: every model."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A configuration that a client sent, and the stamps of the model's configuration file at that time."""

    text: str
    stamps: list[object]


class LiveRepository:
    """The repositories at `paths`; `flags` override their configurations.

    `load` names the models to serve at start, and clients load others. Without it every model is served, and a start
    without any is refused; `may_be_empty` allows that too, for repositories that are polled.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        flags: Terms | None = None,
        *,
        load: Sequence[str] = (ALL,),
        may_be_empty: bool = False,
        config_name: str | None = None,
    ) -> None:
        self._paths = paths
        self._flags = flags
        self._named = frozenset(load)
        self._load = set(load)  # and those that clients loaded, whose folders may be removed
        self._may_be_empty = may_be_empty
        self._config_name = config_name
        self._sent: dict[str, _Sent] = {}
        self._generation = 0
        self._documents: dict[str, bytes] = {}
        self._refusals: dict[str, str] = {}
        self._stamps: dict[str, object] = {}
        self._lock = Lock()  # clients' loads run on a server thread, SIGHUP on the main one

    def read(self) -> tuple[Bundle, RepositoryReport]:
        """Read every model that should serve; raises if none can. Removed folders are dropped."""
        with self._lock:
            folders = scan(self._paths)
            if missing := sorted(self._named - {ALL, *folders}):
                raise UsageError(
                    f"--load-model: {named(self._paths)} has no model '{missing[0]}'",
                    next_step=f"it has {', '.join(folders) or 'none'}",
                )
            self._stamps = _stamps(folders)
            self._sent = self._unchanged(folders)
            found = self._read(folders, self._to_serve(folders), self._sent)
            if not (self._documents or self._may_be_empty):
                refuse_if_empty(folders, self._paths)
                refuse_if_none_is_served(found.report)
            return self._bundle(), found.report

    def changed(self) -> tuple[Bundle, RepositoryReport] | None:
        """Read the models whose files changed since they were last read; None if there are none."""
        with self._lock:
            folders = scan(self._paths)
            before, self._stamps = self._stamps, _stamps(folders)
            if self._stamps == before:
                return None
            changed = {name: paths for name, paths in folders.items() if self._stamps[name] != before.get(name)}
            self._sent = self._unchanged(folders)
            found = self._read(folders, self._to_serve(changed), self._sent)
            return self._bundle(), found.report

    def rescan(self, name: str, out: Path, config: str | None = None, *, serves: bool = True) -> Path | None:
        """Read one model again, write the snapshot to `out` with all others unchanged, and return its index.

        `config`, in JSON, replaces the model's configuration file until that file changes, another one is sent,
        or the model is loaded again after it was unloaded (`serves` is false then).
        None if the repositories have no such model. Raises with the reason if it cannot be served.
        """
        with self._lock:
            folders = scan(self._paths)
            if name not in folders:
                return None
            self._sent = self._unchanged(folders)
            sent = {other: one for other, one in self._sent.items() if serves or other != name}
            if config is not None:
                sent = sent | {name: _Sent(config, self._config_stamps(folders[name]))}
            found = self._read(folders, {name: folders[name]}, sent)
            for refused in found.report.refused:
                reason = refused.refusal or ""
                # Triton's words where it is the repository that cannot be read; the server has those for models.
                unread = len(folders[name]) > 1 or reason.startswith("config: ")
                raise ModelRefusedError(f"failed to load '{name}': {reason}" if unread else reason)
            self._load.add(name)
            self._sent = sent
            return self._bundle().write(out)

    def _to_serve(self, folders: dict[str, list[Path]]) -> dict[str, list[Path]]:
        return {name: paths for name, paths in folders.items() if ALL in self._load or name in self._load}

    def _unchanged(self, folders: dict[str, list[Path]]) -> dict[str, _Sent]:
        """The clients' configurations of models whose configuration files have not changed since."""
        return {
            name: sent
            for name, sent in self._sent.items()
            if name in folders and self._config_stamps(folders[name]) == sent.stamps
        }

    def _config_stamps(self, paths: list[Path]) -> list[object]:
        return [config_stamp(path, self._config_name) for path in paths]

    def _read(self, folders: dict[str, list[Path]], chosen: dict[str, list[Path]], sent: Mapping[str, _Sent]) -> Repository:
        """Read the `chosen` models among the folders; all others stay as they were."""
        configurations = Configurations(self._config_name, {name: one.text for name, one in sent.items()})
        found = read_models(self._paths, chosen, self._flags, configurations)
        documents = _documents(found)
        kept = {name: document for name, document in self._documents.items() if name in folders}
        refusals = {model.name: model.refusal or "" for model in found.report.refused}
        before = {name: self._refusals.get(name, "") for name in folders if name not in chosen}
        self._documents = kept | documents
        self._refusals = {name: reason for name, reason in (before | refusals).items() if name not in self._documents}
        return found

    def _bundle(self) -> Bundle:
        self._generation += 1
        entries = [{"name": name, "digest": digest_of(document)} for name, document in sorted(self._documents.items())]
        unavailable = [{"name": name, "reason": reason} for name, reason in sorted(self._refusals.items())]
        parts = {"format": FORMAT, "generation": self._generation, "deployments": entries, "unavailable": unavailable}
        return Bundle(canonical(parts), tuple(document for _, document in sorted(self._documents.items())))


def _stamps(folders: dict[str, list[Path]]) -> dict[str, object]:
    return {name: stamp(paths) for name, paths in folders.items()}


def _documents(found: Repository) -> dict[str, bytes]:
    bundle = compile_models(found.sources, read=found.files.__getitem__)
    return {source.name: document for source, document in zip(found.sources, bundle.documents, strict=True)}
