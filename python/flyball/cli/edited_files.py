"""`flyball serve --reload`: notices that files of a model or a decision were edited. Must not know servers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flyball.documents.snapshot import Bundle

POLL_S = 0.5
# What a decision's folder may hold for it: specs, fitted values, reasons, lists of categories, models.
_KINDS = (".yaml", ".yml", ".json", ".csv", ".txt", ".onnx")


class EditedFiles:
    """Reads what to serve, and reads it again after an edit: of a model, or of a file beside a decision."""

    def __init__(self, read: Callable[[], Bundle], models: Sequence[str], decisions: Sequence[Path]) -> None:
        self._read = read
        self._models = models
        self._decisions = decisions
        self._served: list[Path] = []
        self._stamps: dict[Path, tuple[int, int]] = {}

    def read(self) -> Bundle:
        """Read the files. Those that cannot be read are tried again once they are edited again."""
        self._stamps = self._looked()
        bundle = self._read()
        self._served = [bundle.base / item.artifact.path for one in bundle.deployments() for item in one.versions]
        self._stamps = self._looked() | self._stamps  # an edit while they were read is one
        return bundle

    def changed(self) -> Bundle | None:
        """What to serve if a file was edited since the last call."""
        return None if self._looked() == self._stamps else self.read()

    def _looked(self) -> dict[Path, tuple[int, int]]:
        found = {}
        for file in self._files():
            try:
                status = file.stat()
            except OSError:
                continue  # an editor is replacing it
            found[file] = (status.st_mtime_ns, status.st_size)
        return found

    def _files(self) -> Iterator[Path]:
        from flyball.documents.snapshot import ModelSource

        for text in self._models:
            if (path := ModelSource.from_argument(text).path) is not None:
                yield path
        yield from self._served
        for decision in self._decisions:
            yield from (path for path in decision.parent.iterdir() if path.suffix in _KINDS)
