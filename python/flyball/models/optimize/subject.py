"""The model to optimise, bare or in a decision: its relevant output and decision thresholds.

Must not know the rows, nor what will be tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from flyball.decision.compile.score_thresholds import score_thresholds
from flyball.decision.decision import Decision
from flyball.decision.spec.models import Score
from flyball.errors import RefusedError, UsageError
from flyball.models.convert.folder import DECISION
from flyball.native.model_documents import DeclaredTensor, scores
from flyball.native.models import model_files


@dataclass(frozen=True, slots=True)
class Subject:
    """The model's file, the compared output or one element of it, and the thresholds on the score.

    A score above the first threshold is positive.
    """

    name: str
    model: Path
    digest: str
    output: str
    element: int | None
    thresholds: list[float]
    decision: Decision | None = None
    unread: list[str] = field(default_factory=list)
    """Conditions on the score from which no threshold can be derived."""

    @property
    def promised_p99_ms(self) -> float | None:
        """The p99 latency that the decision promises."""
        promised = self.decision.spec.slo.p99 if self.decision is not None else None
        return None if promised is None else float(promised)


def subject_of(path: Path, *, output: str | None = None, thresholds: Sequence[float] = ()) -> Subject:
    """Load a model, a decision, or a folder with a decision, as `flyball convert` writes it."""
    if path.is_dir():
        path = path / DECISION
        if not path.is_file():
            raise UsageError(
                f"{path.parent} has no {DECISION}", next_step="name a model or a decision:  flyball optimize MODEL.onnx"
            )
    if path.suffix.lower() in (".yaml", ".yml", ".json"):
        if output is not None or thresholds:
            raise UsageError(
                "a decision defines its output and thresholds itself",
                next_step="remove --score and --threshold, or name the model",
            )
        return _of_decision(path)
    files = model_files(path)
    chosen, element = _element(output) if output else (_scores(path, files.outputs), None)
    declared = next((one.shape for one in files.outputs if one.name == chosen), None)
    if thresholds and element is None and declared and any(size > 1 for size in declared[1:]):
        raise several_scores(chosen)
    return Subject(path.stem, path, files.digest, chosen, element, sorted(thresholds))


def several_scores(output: str) -> UsageError:
    """The error for thresholds on an output with several elements per row."""
    return UsageError(
        f"{output} has several elements per row, but a threshold applies to one score",
        next_step=f"name the element:  --score '{output}[1]'",
    )


def _of_decision(path: Path) -> Subject:
    decision = Decision.load(path)
    compiled = decision.check().compiled
    model = decision.spec.model
    if model is None or len(compiled.artifacts) != 1:
        raise RefusedError(
            f"{path} does not have exactly one model of its own",
            next_step="optimise each model alone:  flyball optimize MODEL.onnx --data ROWS",
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
    """`probabilities` selects all elements, `probabilities[1]` one, as in a decision."""
    score = Score.model_validate(text)
    return score.output, score.element if text.endswith("]") else None


def _scores(path: Path, outputs: Sequence[DeclaredTensor]) -> str:
    found = scores(outputs)
    if found is None:
        raise RefusedError(
            f"{path} has no float output to compare", next_step="name one:  --score NAME, of  flyball inspect MODEL"
        )
    return found.name
