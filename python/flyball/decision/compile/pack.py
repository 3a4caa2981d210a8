"""A snapshot of decisions in one folder, which may be moved: copies of models and of the files that explain them.

Stores of features are data of a machine, not part of a version: their paths stay as they are.
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.decision.compile.bundle import deployment_of, known_files
from flyball.documents.snapshot import pack_models
from flyball.documents.snapshot.store import writing_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flyball.decision.compile.document import Compiled
    from flyball.documents.snapshot import Bundle, ModelSource, Terms

_NAME_DIGITS = 16


def pack_decisions(
    decisions: Sequence[Compiled],
    folder: Path,
    models: Sequence[str] = (),
    *,
    generation: int = 1,
    terms: Terms | None = None,
) -> Bundle:
    """Copy everything that the decisions and models need to a folder, and write the snapshot beside, its index last."""
    with writing_to(folder):
        moved = [_with_copies(one, folder) for one in decisions]
    sources: list[ModelSource | str] = [*models, *(deployment_of(one) for one in moved)]
    return pack_models(sources, folder, generation=generation, terms=terms, read=known_files(moved))


def _with_copies(compiled: Compiled, folder: Path) -> Compiled:
    """The same, with the files that explain its models in the folder. Loading verifies them by their digests."""
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
