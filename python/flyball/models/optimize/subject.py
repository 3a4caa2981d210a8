"""What is optimised: an ONNX model by itself, or the model of a decision; which of its outputs counts, and where it decides.

Must not know the rows, nor what will be tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.decision.compile.score_thresholds import score_thresholds
from flyball.decision.decision import Decision
from flyball.decision.spec.models import Score
from flyball.errors import RefusedError, UsageError
from flyball.native.model_documents import scores
from flyball.native.models import model_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flyball.native.model_documents import DeclaredTensor

DECISION = "decision.yaml"


@dataclass(frozen=True, slots=True)
class Subject:
    """The model's file; the output that is compared, one element of it or all; and thresholds at which the score decides.

    Above the first of them a score is a yes.
    """

    name: str
    model: Path
    digest: str
    output: str
    element: int | None
    thresholds: list[float]
    decision: Decision | None = None
    unread: list[str] = field(default_factory=list)
    """Conditions of its rules that ask the score in a way whose thresholds cannot be told."""

    @property
    def promised_p99_ms(self) -> float | None:
        """What a decision's callers may expect."""
        promised = self.decision.spec.slo.p99 if self.decision is not None else None
        return None if promised is None else float(promised)


def subject_of(path: Path, *, output: str | None = None, thresholds: Sequence[float] = ()) -> Subject:
    """A model's file, a decision's file, or a folder that has a decision, as `flyball convert` leaves it."""
    if path.is_dir():
        path = path / DECISION
        if not path.is_file():
            raise UsageError(
                f"{path.parent} has no {DECISION}", next_step="name a model or a decision:  flyball optimize MODEL.onnx"
            )
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        if output is not None or thresholds:
            raise UsageError(
                "a decision says itself which output counts, and where it decides",
                next_step="leave --output and --threshold out, or name the model",
            )
        return _of_decision(path)
    files = model_files(path)
    chosen, element = _element(output) if output else (_scores(path, files.outputs), None)
    declared = next((one.shape for one in files.outputs if one.name == chosen), None)
    if thresholds and element is None and declared and any(size > 1 for size in declared[1:]):
        raise several_scores(chosen)
    return Subject(path.stem, path, files.digest, chosen, element, sorted(thresholds))


def several_scores(output: str) -> UsageError:
    """A threshold divides one score, and this output has several a row."""
    return UsageError(
        f"{output} has several elements a row, and a threshold is of one score",
        next_step=f"name the element:  --output '{output}[1]'",
    )


def _of_decision(path: Path) -> Subject:
    decision = Decision.load(path)
    compiled = decision.check().compiled
    model = decision.spec.model
    if model is None or len(compiled.artifacts) != 1:
        raise RefusedError(
            f"{path} has several models, or none of its own",
            next_step="optimise each model by itself:  flyball optimize MODEL.onnx --data ROWS",
        )
    file = Path(compiled.artifacts[0].path)
    thresholds, unread = score_thresholds(decision.spec.policy)
    return Subject(
        decision.name,
        file,
        model_files(file).digest,
        model.score.output,
        model.score.element,
        thresholds,
        decision,
        unread,
    )


def _element(text: str) -> tuple[str, int | None]:
    """`probabilities` is all of it, `probabilities[1]` one element, as a decision writes it."""
    score = Score.model_validate(text)
    return score.output, score.element if text.endswith("]") else None


def _scores(path: Path, outputs: Sequence[DeclaredTensor]) -> str:
    found = scores(outputs)
    if found is None:
        raise RefusedError(
            f"{path} has no output of floats to compare", next_step="name one:  --output NAME, of  flyball inspect MODEL"
        )
    return found.name
