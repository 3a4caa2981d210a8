"""Runs the steps in order, and resumes after the last finished one.

Must not know what a step does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.models.optimize.work_folder import WorkFolder, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flyball.bench.progress import Progress


@dataclass(slots=True)
class StepResults:
    """The documents of the finished steps by name, and the digests of the running step's models."""

    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)

    def of(self, step: str) -> dict[str, Any]:
        """The document of an earlier step."""
        return self.documents[step]


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `settings` and the previous steps determine its result."""

    name: str
    """A short name, for its file and the progress."""
    settings: Mapping[str, Any]
    run: Callable[[StepResults, Progress], dict[str, Any]]
    """Returns its document; writes models to the work folder, and their digests to `results.models`."""


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """All documents, and which steps came from an earlier run."""

    documents: dict[str, dict[str, Any]]
    reused: list[str]


def run_steps(
    steps: Sequence[Step], work: WorkFolder, subject_key: str, progress: Progress, *, fresh: bool = False
) -> PipelineResult:
    """Run all steps in a locked folder. An interrupted run resumes with its first unfinished step."""
    results, key = StepResults(), subject_key
    reused: list[str] = []
    for index, step in enumerate(steps, start=1):
        key = key_of(key, step.name, step.settings)
        # Once a step runs again, later results may be stale, so none of them is reused.
        known = not fresh and len(reused) == index - 1
        document = work.finished(index, step.name, key) if known else None
        if document is not None:
            reused.append(step.name)
        else:
            results.models = {}
            document = step.run(results, progress)
            work.finish(index, step.name, key, document, results.models)
        results.documents[step.name] = document
    return PipelineResult(results.documents, reused)
