"""The folder that a conversion leaves: made beside its place and renamed, so that it is there whole or not at all.

What lies in its place is replaced only if it is an earlier conversion and nothing else, and never if it holds what is being
converted. Must not know how its files are made.
"""

from __future__ import annotations

import os
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.errors import UsageError
from flyball.models.equivalence.certificate import CERTIFICATE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MODEL, TREES, EXPECTED, DOCUMENT = "model.onnx", "model.trees.json", "expected.parquet", "conversion.json"
DECISION, FITTED, SAMPLES = "decision.yaml", "fitted.json", "samples"
_FILES = {MODEL, TREES, EXPECTED, DOCUMENT, DECISION, FITTED, CERTIFICATE}
_SAMPLE = re.compile(r"\d+\.json")
_ELSEWHERE = "name another folder:  --out DIR"
_NAMED_MAX = 5


@dataclass(frozen=True, slots=True)
class Place:
    """Where a conversion is to be, and the files that it is made from."""

    target: Path
    sources: Sequence[Path] = ()

    def __post_init__(self) -> None:
        if self.target.name in ("", ".."):
            raise UsageError(f"{str(self.target)!r} names no folder that can be made", next_step=_ELSEWHERE)

    @property
    def failed(self) -> Path:
        """Where one is kept that does not answer as the original does."""
        return self.target.with_name(f"{self.target.name}.failed")

    @contextmanager
    def whole_folder(self, *, force: bool) -> Iterator[Path]:
        """Where to write; what has the target's name afterwards is all of it."""
        if os.path.lexists(self.target) and not force:
            raise UsageError(f"{self.target} is there already", next_step="name another folder, or write over it:  --force")
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
        """Give a folder the place where it can be looked at."""
        self._put(made, self.failed)
        return self.failed

    def _put(self, made: Path, path: Path) -> None:
        """Give a folder its place; what was there is removed once the new one stands."""
        self._refuse_to_replace(path)  # again: a conversion takes its time
        old = path.with_name(f".{path.name}.old.{os.getpid()}")
        if path.exists():
            path.rename(old)
        made.rename(path)
        shutil.rmtree(old, ignore_errors=True)

    def _refuse_to_replace(self, path: Path) -> None:
        if not os.path.lexists(path):
            return
        if path.is_symlink() or not path.is_dir():
            raise UsageError(f"{path} is there and is no folder", next_step=_ELSEWHERE)
        for source in self.sources:
            if source.resolve().is_relative_to(path.resolve()):
                raise UsageError(f"{path} is not written over: it holds {source}, which is read here", next_step=_ELSEWHERE)
        found = foreign(path)
        if found:
            more = f" and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
            raise UsageError(
                f"{path} is not written over: no conversion left {', '.join(found[:_NAMED_MAX])}{more} there",
                next_step=f"{_ELSEWHERE}, or move {path} away yourself",
            )


def foreign(folder: Path) -> list[str]:
    """What no conversion left in a folder; without its document, everything."""
    whole = (folder / DOCUMENT).is_file()
    return sorted(path.name for path in folder.iterdir() if not (whole and _is_ours(path)))


def _is_ours(path: Path) -> bool:
    if path.is_symlink():
        return False
    if path.name == SAMPLES:
        return path.is_dir() and all(one.is_file() and _SAMPLE.fullmatch(one.name) for one in path.iterdir())
    return path.is_file() and path.name in _FILES
