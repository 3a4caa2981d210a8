"""From a trained model to a folder that is served with one command: taken apart, drafted, compared, written.

Must not know the command line.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.decision.compile.score_path import way_digest
from flyball.decision.compile.score_thresholds import score_thresholds
from flyball.decision.decision import Decision
from flyball.documents.names import NAME_WORDS, is_name
from flyball.errors import ModelRefusedError, UsageError
from flyball.models.convert.compare import Judged, Rounded, judge, request_rows, served
from flyball.models.convert.comparison_rows import Examined
from flyball.models.convert.draft import Terms, draft, text_of
from flyball.models.convert.extract import Request, Taken, digest_of, from_code, from_file, from_memory
from flyball.models.convert.folder import DECISION, DOCUMENT, EXPECTED, MODEL, SAMPLES, TREES, Place
from flyball.models.convert.tensor_model import Plain, compared
from flyball.models.equivalence.certificate import CERTIFICATE, Candidate, Data, Engine, Original, certify
from flyball.native import machine as native_machine
from flyball.native import models
from flyball.native.model_runs import Model

if TYPE_CHECKING:
    from collections.abc import Callable

FORMAT = "flyball.conversion/1"
_SAMPLES = 5


@dataclass(frozen=True, slots=True)
class Converted:
    """What a conversion left, and how far its answers lie from the original's."""

    folder: Path
    judged: Judged
    document: dict[str, Any]

    @property
    def decision_file(self) -> Path:
        """What `flyball serve --decision` takes; a plain model has none."""
        return self.folder / DECISION

    def decision(self) -> Decision:
        """The decision, to be asked in this process."""
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
    told: Callable[[str], None] | None = None,
) -> Converted:
    """Turn a trained model, or the file of one, into a folder that serves it with equal answers.

        flyball.convert.convert(pipeline, data=frame, out="fraud", target="is_fraud")

    `data` are rows like those of training: a file, a DataFrame or a dict of columns. A model in memory is taken as it is; a
    file is loaded by a process of its own, and a pickle only with `trust_pickle`, because it runs code when it is loaded.
    `rows` are compared at most; where that is left out, 10,000, and more where the model has more thresholds.
    """
    folder = Path(out)
    place = Place(folder, [Path(given) for given in (model, data) if isinstance(given, str | Path)])
    from_disk = isinstance(model, str | Path)
    name = name or _name(Path(model) if from_disk and ":" not in str(model) else folder)
    if not is_name(name):
        raise UsageError(f"{name!r} is no name for a decision", next_step=f"give one of {NAME_WORDS}:  --name fraud")
    say = told or (lambda _: None)
    asked = Request(data, name, target, score, rows, trust_pickle)
    with place.whole_folder(force=force) as making:
        say("taking the model apart")
        taken = _taken(model, asked)
        made = _written(_Writing(making, name, terms or Terms(), bound, say), taken)
        if not made.judged.equal:
            raise _differs(made.judged, place.keep_failed(making))
    return Converted(folder, made.judged, made.document)


def _taken(model: Any, asked: Request) -> Taken:
    if not isinstance(model, str | Path):
        return from_memory(model, asked)
    if ":" in str(model) and not Path(model).exists():
        return from_code(str(model), asked)
    return from_file(Path(model), asked)


def _name(path: Path) -> str:
    return path.stem.replace(" ", "-")


@dataclass(frozen=True, slots=True)
class _Writing:
    """Where to, and what only the caller knows."""

    folder: Path
    name: str
    terms: Terms
    bound: float | None
    say: Callable[[str], None]


def _written(to: _Writing, taken: Taken) -> Converted:
    """Everything into the folder, with the comparison."""
    held, folder = taken.held, to.folder
    content = held.parts.model if isinstance(held, Examined) else held.model
    (folder / MODEL).write_bytes(content)
    scan = models.scan_model(folder / MODEL)
    if isinstance(held, Examined):
        judged, rows, told = _as_decision(to, held)
    else:
        judged, rows, told = _as_plain(to, held)
    document = {
        "format": FORMAT,
        "name": to.name,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": taken.origin,
        "model": {"digest": digest_of(content), "opset": {one.domain: one.version for one in scan.opset}},
        **told,
        "comparison": judged.document(),
    }
    (folder / DOCUMENT).write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    certificate = certify(
        original=Original(digest=taken.origin["digest"], kind=taken.origin["kind"]),
        candidate=Candidate(digest=digest_of(content), way=_way(folder)),
        data=rows,
        engine=_engine(folder / MODEL),
        comparison=judged.comparison,
    )
    (folder / CERTIFICATE).write_bytes(certificate.to_bytes())
    return Converted(folder, judged, document)


def _as_decision(to: _Writing, examined: Examined) -> tuple[Judged, Data, dict[str, Any]]:
    parts, folder = examined.parts, to.folder
    if parts.trees is not None:
        (folder / TREES).write_bytes(parts.trees)
    examined.write_rows(folder / EXPECTED)
    to.say("drafting its decision")
    decision = draft(examined, to.name, folder, to.terms)
    (folder / DECISION).write_text(text_of(decision), encoding="utf-8")
    _write_samples(folder / SAMPLES, examined)
    to.say(f"comparing {examined.rows.rows:,} rows with the original, through the server")
    found, faults = served(decision, examined)
    thresholds, _ = score_thresholds(decision.spec.policy)  # a draft's: it has bands, and no rules yet
    judged = judge(examined, found, faults, bound=to.bound, thresholds=thresholds)
    told = {
        "packages": parts.packages,
        "fields": parts.fields,
        "columns": parts.columns,
        "score": parts.score,
        "explained_by": "trees" if parts.trees is not None else next(iter(parts.explain or {}), "nothing"),
        "outputs_cut": parts.cut,
        "notes": parts.notes,
    }
    digest = digest_of((folder / EXPECTED).read_bytes())
    kinds = {kind: one.rows for kind, one in judged.comparison.by_kind.items()}
    return judged, Data(digest=digest, rows=examined.rows.rows, kinds=kinds), told


def _as_plain(to: _Writing, plain: Plain) -> tuple[Judged, Data, dict[str, Any]]:
    to.say("comparing its answers with the original's")
    comparison = compared(plain, to.bound)
    digest = digest_of(b"".join(array.tobytes() for array in plain.inputs.values()))
    rows = Data(digest=digest, rows=comparison.all.rows, kinds={kind: one.rows for kind, one in comparison.by_kind.items()})
    notes = [*plain.notes, "it takes tensors and no named columns: it is served without a decision"]
    return Judged(comparison, Rounded(), []), rows, {"packages": plain.packages, "notes": notes}


def _write_samples(folder: Path, examined: Examined) -> None:
    folder.mkdir()
    count = min(_SAMPLES, examined.kinds.count("given"))
    for place, row in enumerate(request_rows(examined, range(count)), start=1):
        (folder / f"{place}.json").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")


def _way(folder: Path) -> str | None:
    """Of the decision as it was written; a plain model has none."""
    if not (folder / DECISION).is_file():
        return None
    document = Decision.load(folder / DECISION).check().compiled.document
    return way_digest(document, document["models"][0])


def _engine(model: Path) -> Engine:
    build, machine = native_machine.build_info(), native_machine.machine()
    return Engine(flyball=build.version, onnxruntime=Model(model).facts.ort_version, cpu=machine.cpu_model)


def _differs(judged: Judged, kept: Path) -> ModelRefusedError:
    figures = judged.comparison.all
    shown = ((worst, json.dumps(worst["row"], ensure_ascii=False)) for worst in judged.worst[:5])
    lines = "".join(f"\n    {worst['kind']}: {_outcome(worst)} for {row}" for worst, row in shown)
    close = figures.beyond == judged.rounded.rows
    why = ", because columns lie closer to thresholds than float32 can tell" if close else ""
    return ModelRefusedError(
        f"the converted model answers otherwise than the original: {figures.beyond:,} of {figures.rows:,} rows are off by"
        f" more than {judged.comparison.allowed}{why}{lines}",
        code="not_equal",
        next_step=f"the folder is kept as {kept}; its {DOCUMENT} has the worst rows",
    )


def _outcome(worst: dict[str, Any]) -> str:
    told = worst["fault"] if "fault" in worst else f"{worst['found']:.9g}"
    return f"{told} instead of {worst['expected']:.9g}"
