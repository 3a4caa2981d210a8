"""What every step of a run knows: the subject, its rows, where to work, and what is asked of the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from flyball.models.equivalence.gate import Bars

if TYPE_CHECKING:
    from flyball.models.optimize.rows import Rows
    from flyball.models.optimize.subject import Subject
    from flyball.models.optimize.work_folder import Work


class Budget(BaseModel):
    """What the served model may take. Without a figure, the least is wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    p99_ms: float | None = Field(default=None, gt=0)
    size_mb: float | None = Field(default=None, gt=0)
    memory_mb: float | None = Field(default=None, gt=0)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the pipeline. `bound` is the difference below which answers are equal."""

    subject: Subject
    rows: Rows
    work: Work
    budget: Budget = field(default_factory=Budget)
    bars: Bars = field(default_factory=Bars)
    bound: float = 1e-5
    seconds: float = 10.0
    """How long each served window is."""
