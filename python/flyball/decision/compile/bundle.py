"""Converts compiled decisions to deployments of a Snapshot, with models by path and digest; or packs them to a folder.

A packed folder can be moved: it has copies of models and their sidecars. Feature stores belong to a machine, not to a
version: their paths are not changed.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.documents.snapshot import Bundle, Limits, ModelSource, Slo, Terms, compile_models, pack_models
from flyball.documents.snapshot.compile import VERSION
from flyball.documents.snapshot.store import writing_to
from flyball.native.models import model_files

if TYPE_CHECKING:
    from flyball.decision.compile.document import Compiled
    from flyball.native.model_documents import ModelFiles

_NAME_DIGITS = 16


def deployment_of(compiled: Compiled, queue_wait_ms_max: int | None = None) -> ModelSource:
    """The input of the snapshot's compiler: every model is a version, with the decision beside them."""
    first, others = compiled.artifacts[:1], compiled.artifacts[1:]
    limits = Limits() if queue_wait_ms_max is None else Limits(queue_wait_ms_max=queue_wait_ms_max)
    return ModelSource(
        compiled.name,
        first[0].path if first else None,
        version=first[0].version if first else VERSION,
        older={other.version: other.path for other in others},
        terms=Terms(limits=limits, slo=Slo(deadline_ms=compiled.timeout_ms)),
        decision=compiled.document,
    )


def bundle_of(
    decisions: Sequence[Compiled],
    models: Sequence[ModelSource | str] = (),
    *,
    terms: Terms | None = None,
    queue_wait_ms_max: int | None = None,
) -> Bundle:
    """A snapshot of decisions and models; `terms` apply to the models."""
    deployments = [deployment_of(one, queue_wait_ms_max) for one in decisions]
    return compile_models([*models, *deployments], terms=terms, read=known_files(decisions))


def known_files(decisions: Sequence[Compiled]) -> Callable[[Path], ModelFiles]:
    """Look up model files: those of the decisions are already read."""
    known = {artifact.path: artifact.files for one in decisions for artifact in one.artifacts}
    return lambda path: known.get(path) or model_files(path)


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
