"""What every step of a run shares: subject, rows, work folder, budget and bars."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import Field

from flyball.models.equivalence.document import Document
from flyball.models.equivalence.gate import Bars

if TYPE_CHECKING:
    from flyball.models.optimize.rows import Rows
    from flyball.models.optimize.subject import Subject
    from flyball.models.optimize.work_folder import WorkFolder


class Budget(Document):
    """Limits for the served model. A limit that is not set is minimised."""

    p99_ms: float | None = Field(default=None, gt=0)
    size_mb: float | None = Field(default=None, gt=0)
    memory_mb: float | None = Field(default=None, gt=0)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the pipeline. Answers closer than `bound` are equal."""

    subject: Subject
    rows: Rows
    work: WorkFolder
    budget: Budget = field(default_factory=Budget)
    bars: Bars = field(default_factory=Bars)
    bound: float = 1e-5
    seconds: float = 10.0
    """The length of each served window."""
