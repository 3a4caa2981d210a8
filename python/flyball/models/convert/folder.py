"""The folder of a conversion, written beside its target and renamed, so that it appears whole or not at all.

An existing folder is replaced only if it is an earlier conversion and nothing else, and never if it holds the sources.
Must not know how its files are made.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from flyball.errors import UsageError
from flyball.models.equivalence.certificate import CERTIFICATE

MODEL, TREES, EXPECTED, DOCUMENT = "model.onnx", "model.trees.json", "expected.parquet", "conversion.json"
DECISION, FITTED, SAMPLES = "decision.yaml", "fitted.json", "samples"
_FILES = {MODEL, TREES, EXPECTED, DOCUMENT, DECISION, FITTED, CERTIFICATE}
_SAMPLE = re.compile(r"\d+\.json")
_ELSEWHERE = "name another folder:  --out DIR"
_NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class OutputFolder:
    """The target folder of a conversion, and its source files."""

    target: Path
    sources: Sequence[Path] = ()

    def __post_init__(self) -> None:
        if self.target.name in ("", ".."):
            raise UsageError(f"--out: {str(self.target)!r} is not a folder that can be created", next_step=_ELSEWHERE)

    @property
    def failed(self) -> Path:
        """Where a conversion with different answers is kept."""
        return self.target.with_name(f"{self.target.name}.failed")

    @contextmanager
    def whole_folder(self, *, force: bool) -> Iterator[Path]:
        """A temporary folder to write to; it replaces the target at the end."""
        if os.path.lexists(self.target) and not force:
            raise UsageError(f"--out: {self.target} exists", next_step="name another folder, or overwrite it:  --force")
        for path in (self.target, self.failed):
            self._refuse_to_replace(path)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        making = self.target.with_name(f".{self.target.name}.{os.getpid()}")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir()
        try:
            yield making
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
        self._put(making, self.target)

    def keep_failed(self, made: Path) -> Path:
        """Move a folder to where it can be inspected."""
        self._put(made, self.failed)
        return self.failed

    def _put(self, made: Path, path: Path) -> None:
        """Move a folder to its path; the previous one is removed after that."""
        self._refuse_to_replace(path)  # again: a conversion takes a while
        old = path.with_name(f".{path.name}.old.{os.getpid()}")
        if path.exists():
            path.rename(old)
        made.rename(path)
        shutil.rmtree(old, ignore_errors=True)

    def _refuse_to_replace(self, path: Path) -> None:
        if not os.path.lexists(path):
            return
        if path.is_symlink() or not path.is_dir():
            raise UsageError(f"--out: {path} is a file, not a folder", next_step=_ELSEWHERE)
        for source in self.sources:
            if source.resolve().is_relative_to(path.resolve()):
                raise UsageError(f"--out: {path} contains {source}, which is being converted", next_step=_ELSEWHERE)
        found = foreign(path)
        if found:
            more = f" and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
            raise UsageError(
                f"--out: {path} contains files that are not from a conversion: {', '.join(found[:_NAMED_MAX])}{more}",
                next_step=f"{_ELSEWHERE}, or move {path} yourself",
            )


def foreign(folder: Path) -> list[str]:
    """Files in a folder that no conversion wrote; all of them if its document is missing."""
    whole = (folder / DOCUMENT).is_file()
    return sorted(path.name for path in folder.iterdir() if not (whole and _is_ours(path)))


def _is_ours(path: Path) -> bool:
    if path.is_symlink():
        return False
    if path.name == SAMPLES:
        return path.is_dir() and all(one.is_file() and _SAMPLE.fullmatch(one.name) for one in path.iterdir())
    return path.is_file() and path.name in _FILES
