"""Runs the steps in their order: finished ones are taken from the folder, the first that is not goes on from there.

Must not know what a step does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from flyball.models.optimize.work_folder import key_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.bench.progress import Progress
    from flyball.models.optimize.work_folder import Work


@dataclass(slots=True)
class Found:
    """What the steps so far have found, by name, and the digests of the models that the running one has made."""

    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)

    def of(self, step: str) -> dict[str, Any]:
        """The document of an earlier step."""
        return self.documents[step]


class Step(Protocol):
    """One step. `settings` are all that its result depends on beside the steps before it."""

    @property
    def name(self) -> str:
        """Short, for its file and the progress."""

    def settings(self) -> Mapping[str, Any]:
        """As JSON."""

    def run(self, found: Found, progress: Progress) -> dict[str, Any]:
        """Do it; models that it makes lie in the work's folder, and their digests in `found.models`."""


@dataclass(frozen=True, slots=True)
class Ended:
    """All documents, and which steps were taken from an earlier run."""

    documents: dict[str, dict[str, Any]]
    taken: list[str]


def run_steps(steps: Sequence[Step], work: Work, subject_key: str, progress: Progress, *, fresh: bool = False) -> Ended:
    """All of them, in a folder that is held. Whatever ends a run, the next goes on with the step that was not finished."""
    found, key = Found(), subject_key
    taken: list[str] = []
    for place, step in enumerate(steps, start=1):
        key = key_of(key, step.name, step.settings())
        # What follows a step that ran again may rest on other results than before, so nothing of it is taken.
        known = not fresh and len(taken) == place - 1
        document = work.finished(place, step.name, key) if known else None
        if document is not None:
            taken.append(step.name)
        else:
            found.models = {}
            document = step.run(found, progress)
            work.finish(place, step.name, key, document, found.models)
        found.documents[step.name] = document
    return Ended(found.documents, taken)
