"""A compiled decision as a deployment of a Snapshot, with its models by path and digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.snapshot import Limits, ModelSource, Slo, Terms, compile_models

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flyball.engine import ModelFiles
    from flyball.snapshot import Bundle
    from flyball.spec.document import Compiled


def deployment_of(compiled: Compiled, queue_wait_ms_max: int | None = None) -> ModelSource:
    """What the snapshot's compiler takes: every model is a version, the decision stands beside them."""
    first, *others = compiled.artifacts
    limits = Limits() if queue_wait_ms_max is None else Limits(queue_wait_ms_max=queue_wait_ms_max)
    return ModelSource(
        compiled.name,
        first.path,
        version=first.version,
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
    """A snapshot of decisions, and of models beside them, which have the terms."""
    from flyball.engine import model_files

    known = {artifact.path: artifact.files for one in decisions for artifact in one.artifacts}

    def read(path: Path) -> ModelFiles:
        return known.get(path) or model_files(path)

    deployments = [deployment_of(one, queue_wait_ms_max) for one in decisions]
    return compile_models([*models, *deployments], terms=terms, read=read)
