"""What is optimised: an ONNX model by itself, or the model of a decision; which of its outputs counts, and where it decides.

Must not know the rows, nor what will be tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.engine import model_files
from flyball.errors import RefusedError, UsageError
from flyball.spec import Decision
from flyball.spec.models import Score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flyball.engine import DeclaredTensor

DECISION = "decision.yaml"
_FLOATS = ("FP16", "FP32", "FP64")


@dataclass(frozen=True, slots=True)
class Subject:
    """The model's file; the output that is compared, one element of it or all; and thresholds at which the score decides."""

    name: str
    model: Path
    digest: str
    output: str
    element: int | None
    thresholds: list[float]
    decision: Decision | None = None

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
    return Subject(
        decision.name,
        file,
        model_files(file).digest,
        model.score.output,
        model.score.element,
        _thresholds(decision),
        decision,
    )


def _thresholds(decision: Decision) -> list[float]:
    """Every score at which a band begins, in segments too."""
    policy = decision.spec.policy
    bands = [band for group in (policy.bands, *(one.bands for one in policy.segments)) for band in group.values()]
    ends = {end for band in bands for end in (band.below, band.at_least) if end is not None}
    return sorted(float(end) for end in ends)


def _element(text: str) -> tuple[str, int | None]:
    """`probabilities` is all of it, `probabilities[1]` one element, as a decision writes it."""
    score = Score.model_validate(text)
    return score.output, score.element if text.endswith("]") else None


def _scores(path: Path, outputs: Sequence[DeclaredTensor]) -> str:
    """The last output of floats: classifiers give the label first, and then what it was chosen by."""
    floats = [tensor.name for tensor in outputs if tensor.datatype in _FLOATS]
    if not floats:
        raise RefusedError(
            f"{path} has no output of floats to compare", next_step="name one:  --output NAME, of  flyball inspect MODEL"
        )
    return floats[-1]
