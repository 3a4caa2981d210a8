"""Converts compiled decisions to deployments of a Snapshot, with models by path and digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.documents.snapshot import Bundle, Limits, ModelSource, Slo, Terms, compile_models
from flyball.documents.snapshot.compile import VERSION
from flyball.native.models import model_files

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from flyball.decision.compile.document import Compiled
    from flyball.native.model_documents import ModelFiles


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
