"""Converts a trained model into a folder that one command serves: extract, draft, compare, write.

Must not know the command line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flyball.decision.compile.score_path import way_digest
from flyball.decision.compile.score_thresholds import score_thresholds
from flyball.decision.decision import Decision
from flyball.documents.names import NAME_WORDS, is_name, near_name
from flyball.documents.snapshot.store import digest_of
from flyball.errors import ModelRefusedError, UsageError
from flyball.models.convert.compare import ComparisonResult, Rounded, evaluate, request_rows, served
from flyball.models.convert.comparison_rows import Reference
from flyball.models.convert.draft import Terms, draft, text_of
from flyball.models.convert.extract import Extracted, Request, from_code, from_file, from_memory
from flyball.models.convert.folder import DECISION, DOCUMENT, EXPECTED, MODEL, SAMPLES, TREES, OutputFolder
from flyball.models.convert.tensor_model import TensorModel, compared
from flyball.models.equivalence.certificate import CERTIFICATE, Candidate, Data, Engine, Original, certify
from flyball.native import models
from flyball.native.model_runs import Model

FORMAT = "flyball.conversion/1"
_SAMPLES = 5
_ROUNDING_MAX = 1e-3
"""Larger differences are not those of float32."""


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of a conversion: the folder, and how far its answers are from the original's."""

    folder: Path
    result: ComparisonResult
    document: dict[str, Any]

    def __repr__(self) -> str:
        return f"<Converted {self.folder}: {self.result.text()}>"

    def _repr_html_(self) -> str:
        return self.result._repr_html_()

    @property
    def decision_file(self) -> Path:
        """The file for `flyball serve --decision`; absent for a tensor model."""
        return self.folder / DECISION

    def decision(self) -> Decision:
        """The decision, for use in this process."""
        return Decision.load(self.decision_file)


def convert(
    model: Any,
    *,
    data: Any = None,
    out: str | Path,
    name: str | None = None,
    target: str | None = None,
    score: int | None = None,
    rows: int | None = None,
    trust_pickle: bool = False,
    force: bool = False,
    bound: float | None = None,
    terms: Terms | None = None,
    progress: Callable[[str], None] | None = None,
) -> Converted:
    """Convert a trained model or its file into a folder that serves it with equal answers.

        flyball.convert.convert(pipeline, data=frame, out="fraud", target="is_fraud")

    `data` are rows like the training rows: a file, a DataFrame or a dict of columns. A file is loaded by a separate process,
    and a pickle only with `trust_pickle`, because loading it runs code. `rows` limits the compared rows; the default is
    10,000, and more if the model has more thresholds. `progress` receives one line per step.
    """
    folder = Path(out)
    output = OutputFolder(folder, [Path(given) for given in (model, data) if isinstance(given, str | Path)])
    from_disk = isinstance(model, str | Path)
    name = name or _name(Path(model) if from_disk and ":" not in str(model) else folder)
    if not is_name(name):
        raise UsageError(
            f"{name!r} is not a valid decision name: {NAME_WORDS}", next_step=f"give one:  --name {near_name(name)}"
        )
    say = progress or (lambda _: None)
    request = Request(data, name, target, score, rows, trust_pickle)
    with output.whole_folder(force=force) as making:
        say("extracting the model")
        extracted = _extract(model, request)
        made = _written(_Writing(making, name, terms or Terms(), bound, say), extracted)
        if not made.result.equal:
            raise _differs(made.result, output.keep_failed(making))
    return Converted(folder, made.result, made.document)


def _extract(model: Any, request: Request) -> Extracted:
    if not isinstance(model, str | Path):
        return from_memory(model, request)
    if ":" in str(model) and not Path(model).exists():
        return from_code(str(model), request)
    return from_file(Path(model), request)


def _name(path: Path) -> str:
    return path.stem.replace(" ", "-")


@dataclass(frozen=True, slots=True)
class _Writing:
    """The output folder and the caller's settings."""

    folder: Path
    name: str
    terms: Terms
    bound: float | None
    say: Callable[[str], None]


def _written(to: _Writing, extracted: Extracted) -> Converted:
    """Write every file of the folder, and compare."""
    held, folder = extracted.held, to.folder
    content = held.parts.model if isinstance(held, Reference) else held.model
    (folder / MODEL).write_bytes(content)
    scan = models.scan_model(folder / MODEL)
    if isinstance(held, Reference):
        result, digest, details = _as_decision(to, held)
    else:
        result, digest, details = _as_plain(to, held)
    document = {
        "format": FORMAT,
        "name": to.name,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": extracted.origin,
        "model": {"digest": digest_of(content), "opset": {one.domain: one.version for one in scan.opset}},
        **details,
        "comparison": result.document(),
    }
    (folder / DOCUMENT).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    certificate = certify(
        original=Original(digest=extracted.origin["digest"], kind=extracted.origin["kind"]),
        candidate=Candidate(digest=digest_of(content), way=_score_path_digest(folder)),
        data=Data.of(digest, result.comparison),
        engine=Engine.here(Model(folder / MODEL).facts.ort_version),
        comparison=result.comparison,
    )
    (folder / CERTIFICATE).write_bytes(certificate.to_bytes())
    return Converted(folder, result, document)


def _as_decision(to: _Writing, reference: Reference) -> tuple[ComparisonResult, str, dict[str, Any]]:
    """The comparison of the drafted decision, the digest of its rows, and details for the document."""
    parts, folder = reference.parts, to.folder
    if parts.trees is not None:
        (folder / TREES).write_bytes(parts.trees)
    reference.write_rows(folder / EXPECTED)
    to.say("drafting the decision")
    decision = draft(reference, to.name, folder, to.terms)
    (folder / DECISION).write_text(text_of(decision), encoding="utf-8")
    _write_samples(folder / SAMPLES, reference)
    to.say(f"comparing {reference.rows.rows:,} rows with the original through the server")
    found, faults = served(decision, reference)
    thresholds, _ = score_thresholds(decision.spec.policy)  # a draft has bands and no rules yet
    result = evaluate(reference, found, faults, bound=to.bound, thresholds=thresholds)
    details = {
        "packages": parts.packages,
        "fields": parts.fields,
        "columns": parts.columns,
        "score": parts.score,
        "explained_by": "trees" if parts.trees is not None else next(iter(parts.explain or {}), "nothing"),
        "outputs_cut": parts.cut,
        "notes": parts.notes,
    }
    return result, digest_of((folder / EXPECTED).read_bytes()), details


def _as_plain(to: _Writing, plain: TensorModel) -> tuple[ComparisonResult, str, dict[str, Any]]:
    to.say("comparing the answers with the original's")
    comparison = compared(plain, to.bound)
    digest = digest_of(b"".join(array.tobytes() for array in plain.inputs.values()))
    notes = [*plain.notes, "it takes tensors, not named columns, and is served without a decision"]
    return ComparisonResult(comparison, Rounded(), []), digest, {"packages": plain.packages, "notes": notes}


def _write_samples(folder: Path, reference: Reference) -> None:
    folder.mkdir()
    count = min(_SAMPLES, reference.kinds.count("given"))
    for output, row in enumerate(request_rows(reference, range(count)), start=1):
        (folder / f"{output}.json").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")


def _score_path_digest(folder: Path) -> str | None:
    """The digest of the written decision's score path; None for a tensor model."""
    if not (folder / DECISION).is_file():
        return None
    document = Decision.load(folder / DECISION).check().compiled.document
    return way_digest(document, document["models"][0])


def _differs(result: ComparisonResult, kept: Path) -> ModelRefusedError:
    figures = result.comparison.all
    worst = f"; the worst has {_outcome(result.worst[0])}" if result.worst else ""
    close = figures.beyond == result.rounded.rows
    why = ", because values are closer to thresholds than float32 can resolve" if close else ""
    return ModelRefusedError(
        f"the converted model differs from the original: {figures.beyond:,} of {figures.rows:,} rows are off by"
        f" more than {result.comparison.allowed}{why}{worst}",
        code="not_equal",
        next_step=f"see the rows in {kept / DOCUMENT}{_bound_step(figures.max_abs, result.worst)}",
    )


def _bound_step(most: float, worst: Sequence[dict[str, Any]]) -> str:
    """Advice for differences that rounding explains: ONNX computes in float32, most trainers in float64."""
    if any("fault" in row for row in worst) or not 0.0 < most <= _ROUNDING_MAX:
        return ""
    return f"; ONNX computes in float32, so allow a little:  --bound {10.0 ** math.ceil(math.log10(most)):.0e}"


def _outcome(worst: dict[str, Any]) -> str:
    details = worst["fault"] if "fault" in worst else f"{worst['found']:.9g}"
    return f"{details} instead of {worst['expected']:.9g}"
