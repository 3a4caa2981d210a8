"""A served model repository: read at start, and rescanned on request, whole or one model.

A model that can no longer be served keeps its last good state, like a snapshot's deployment. Must not know servers.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock

from flyball.documents.names import is_name
from flyball.documents.snapshot import Bundle, Terms, compile_models
from flyball.documents.snapshot.models import FORMAT
from flyball.documents.snapshot.store import canonical, digest_of
from flyball.errors import ModelRefusedError
from flyball.triton.compile import Repository, read_model, read_repository, refuse_if_none_is_served
from flyball.triton.report import RepositoryReport


class LiveRepository:
    """The repository at `path`; `flags` override its configurations."""

    def __init__(self, path: Path, flags: Terms | None = None) -> None:
        self._path = path
        self._flags = flags
        self._generation = 0
        self._documents: dict[str, bytes] = {}
        self._lock = Lock()  # clients' loads run on a server thread, SIGHUP on the main one

    def read(self) -> tuple[Bundle, RepositoryReport]:
        """Read every model; raises if none can be served. Removed folders are dropped."""
        with self._lock:
            found = read_repository(self._path, self._flags)
            refused = {model.name for model in found.report.refused}
            kept = {name: document for name, document in self._documents.items() if name in refused}
            documents = kept | _documents(found)
            if not documents:
                refuse_if_none_is_served(found.report)
            self._documents = documents
            return self._bundle(), found.report

    def rescan(self, name: str, out: Path) -> Path | None:
        """Read one model again, write the snapshot to `out` with all others unchanged, and return its index.

        None if the repository has no such model. Raises with the reason if it cannot be served.
        """
        if not is_name(name) or not (self._path / name).is_dir():
            return None
        with self._lock:
            found = read_model(self._path, name, self._flags)
            for refused in found.report.refused:
                raise ModelRefusedError(f"{name}: {refused.refusal}")
            self._documents |= _documents(found)
            return self._bundle().write(out)

    def _bundle(self) -> Bundle:
        self._generation += 1
        entries = [{"name": name, "digest": digest_of(document)} for name, document in sorted(self._documents.items())]
        index = canonical({"format": FORMAT, "generation": self._generation, "deployments": entries})
        return Bundle(index, tuple(document for _, document in sorted(self._documents.items())))


def _documents(found: Repository) -> dict[str, bytes]:
    bundle = compile_models(found.sources, read=found.files.__getitem__)
    return {source.name: document for source, document in zip(found.sources, bundle.documents, strict=True)}
