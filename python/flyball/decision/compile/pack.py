"""Packs a snapshot of decisions into one movable folder, with copies of models and their sidecars.

Feature stores belong to a machine, not to a version: their paths are not changed.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.decision.compile.bundle import deployment_of, known_files
from flyball.documents.snapshot import Bundle, ModelSource, Terms, pack_models
from flyball.documents.snapshot.store import writing_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flyball.decision.compile.document import Compiled

_NAME_DIGITS = 16


def pack_decisions(
    decisions: Sequence[Compiled],
    folder: Path,
    models: Sequence[str] = (),
    *,
    generation: int = 1,
    terms: Terms | None = None,
) -> Bundle:
    """Copy all files of the decisions and models to a folder, and write the snapshot, its index last."""
    with writing_to(folder):
        moved = [_with_copies(one, folder) for one in decisions]
    sources: list[ModelSource | str] = [*models, *(deployment_of(one) for one in moved)]
    return pack_models(sources, folder, generation=generation, terms=terms, read=known_files(moved))


def _with_copies(compiled: Compiled, folder: Path) -> Compiled:
    """The same decision with its sidecars copied to the folder. Loading verifies their digests."""
    models = [{**model, **_copied(model.get("explain"), folder)} for model in compiled.document["models"]]
    return dataclasses.replace(compiled, document={**compiled.document, "models": models})


def _copied(explain: dict[str, Any] | None, folder: Path) -> dict[str, Any]:
    if explain is None or "path" not in explain:
        return {}
    name = explain["digest"].removeprefix("sha256:")[:_NAME_DIGITS]
    target = Path("models", f"{name}.explain")
    (folder / target).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(explain["path"], folder / target)
    return {"explain": {**explain, "path": target.as_posix()}}
