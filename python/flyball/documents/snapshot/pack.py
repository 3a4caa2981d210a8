"""Packs a snapshot with copies of its models into one movable folder, with relative paths.

Existing files are kept, so that packing again into a folder that a server reads copies nothing.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.documents.snapshot.compile import ModelSource, compile_models
from flyball.documents.snapshot.store import Bundle, digest_of, writing_to
from flyball.errors import SnapshotRefusedError
from flyball.native.models import copy_external_data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flyball.documents.snapshot.compile import Read
    from flyball.documents.snapshot.models import Terms
    from flyball.native.model_documents import ModelFiles

_FOLDER_DIGITS = 16


@dataclass(frozen=True, slots=True)
class _Copy:
    """A file to copy, with its digest at compile time; `beside`: a file of external weights."""

    model: Path
    target: Path
    digest: str
    size_bytes: int
    beside: str | None = None

    @property
    def source(self) -> Path:
        return self.model.parent / self.beside if self.beside else self.model


def pack_models(
    sources: Sequence[ModelSource | str],
    folder: Path,
    *,
    generation: int = 1,
    terms: Terms | None = None,
    read: Read | None = None,
) -> Bundle:
    """Compile models, copy them to FOLDER/models and write the snapshot; a refused model stops before any write."""
    copies: list[_Copy] = []

    def place(name: str, path: Path, files: ModelFiles) -> str:
        home = Path("models", _home(files))
        target = home / f"{name}.onnx"
        copies.append(_Copy(path, folder / target, files.digest, files.size_bytes))
        for item in files.external_data:
            copies.append(_Copy(path, folder / home / item.name, item.digest, item.size_bytes, beside=item.name))
        return target.as_posix()

    bundle = compile_models(sources, generation=generation, terms=terms, place=place, read=read)
    with writing_to(folder):
        for copy in copies:
            _bring(copy)
    bundle.write(folder)
    return bundle


def _home(files: ModelFiles) -> str:
    """The model's folder, by the digest of all its files: weights may change while the graph does not."""
    digest = files.digest
    if files.external_data:
        digest = digest_of("\n".join([digest, *(item.digest for item in files.external_data)]).encode())
    return digest.removeprefix("sha256:")[:_FOLDER_DIGITS]


def _bring(copy: _Copy) -> None:
    """Copy to a temporary file, verify, rename: the target is complete and unchanged since compilation."""
    if copy.target.is_file() and copy.target.stat().st_size == copy.size_bytes and _digest(copy.target) == copy.digest:
        return
    copy.target.parent.mkdir(parents=True, exist_ok=True)
    beside = copy.target.with_name(f".{copy.target.name}.{os.getpid()}")
    try:
        if copy.beside:
            copy_external_data(copy.model, copy.beside, beside)
        else:
            shutil.copyfile(copy.model, beside)
        if _digest(beside) != copy.digest:
            raise SnapshotRefusedError(f"{copy.source} changed while it was copied", next_step="make the snapshot again")
        beside.replace(copy.target)
    finally:
        beside.unlink(missing_ok=True)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
