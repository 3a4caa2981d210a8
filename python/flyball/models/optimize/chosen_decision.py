"""Writes the decision around the chosen model: a folder that serves and can be registered, without unused columns.

The author's decision is not changed. Transforms without a used column are removed; input fields and features stay, because
rules, reasons and records may need them. Must not know how the model was chosen.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from flyball.decision.decision import Decision
from flyball.decision.fit.fitted import Fitted, read_fitted
from flyball.decision.spec.models import Ablation, Explain, Linear, Tensor
from flyball.decision.spec.paths import Use, with_paths
from flyball.decision.spec.spec import Spec
from flyball.decision.spec.transforms import Cross, Transform
from flyball.decision.spec.write import yaml_of
from flyball.documents.durable_file import making_folder
from flyball.errors import RefusedError
from flyball.models.convert.folder import DECISION, FITTED, MODEL, TREES


def columns_explained(decision: Decision) -> set[int]:
    """The columns that the sidecar's trees read; a converter may have dropped splits without effect."""
    model = decision.spec.model
    if model is None or model.explain is None or model.explain.trees is None:
        return set()
    sidecar = json.loads((decision.base / model.explain.trees.path).read_bytes())
    return {int(column) for tree in sidecar["trees"] for column in tree["feature"]}


def write_decision(decision: Decision, model: Path, columns: Sequence[int] | None, folder: Path) -> Decision:
    """Write decision.yaml, the model and every file it names to a new folder, and load it.

    All paths are relative, so that the folder can be moved.
    """
    making_folder(folder)
    shutil.copyfile(model, folder / MODEL)
    spec = _with_model(_moved(decision, folder), decision, columns)
    spec, fitted = _without_idle_transforms(spec, decision)
    if fitted is not None:
        (folder / FITTED).write_bytes(fitted.content())
    if columns is not None and (folder / TREES).is_file():
        (folder / TREES).write_bytes(narrowed_trees((folder / TREES).read_bytes(), columns))
    (folder / DECISION).write_text(yaml_of(spec))
    made = Decision.load(folder / DECISION)
    made.check()
    return made


def narrowed_trees(sidecar: bytes, columns: Sequence[int]) -> bytes:
    """The sidecar of the same trees over some of the columns, renumbered."""
    document = json.loads(sidecar)
    indices = {column: index for index, column in enumerate(columns)}
    for tree in document["trees"]:
        tree["feature"] = [indices[column] for column in tree["feature"]]
    document["columns"] = len(columns)
    return json.dumps(document, separators=(",", ":")).encode()


def _moved(decision: Decision, folder: Path) -> Spec:
    """Copy every file that it names into the folder; a feature store stays, because others write to it."""
    reused: dict[str, Path] = {}

    def move(use: Use, path: str) -> str:
        source = (decision.base / path).absolute()
        if use == "store":
            return os.path.normpath(source)
        name = {"model": MODEL, "explanation": TREES, "fitted": FITTED}.get(use, source.name)
        if reused.setdefault(name, source) != source:
            raise RefusedError(f"two files have the name {name}; the second is {source}", next_step="rename one of them")
        if use != "model":
            shutil.copyfile(source, folder / name)
        return name

    return with_paths(decision.spec, move)


def _with_model(spec: Spec, decision: Decision, columns: Sequence[int] | None) -> Spec:
    """The model under its old name, with the remaining columns; digests of the old files are removed."""
    assert spec.model is not None  # noqa: S101 - a subject has a model of its own
    compiled = decision.check().compiled.document["models"][0]
    changes: dict[str, Any] = {"name": compiled["name"], "digest": None}
    if columns is not None:
        ((tensor,), names) = spec.model.columns, compiled["inputs"][0]["columns"]
        changes["columns"] = [Tensor(tensor=tensor.tensor, columns=[names[index] for index in columns])]
    if spec.model.explain is not None:
        changes["explain"] = _narrowed_explain(spec.model.explain, columns)
    return spec.model_copy(update={"model": spec.model.model_copy(update=changes)})


def _narrowed_explain(explain: Explain, columns: Sequence[int] | None) -> Explain:
    def left(numbers: Sequence[float]) -> list[float]:
        return list(numbers) if columns is None else [numbers[index] for index in columns]

    if explain.trees is not None:
        return Explain(trees=explain.trees.model_copy(update={"digest": None}))
    if explain.linear is not None:
        return Explain(linear=Linear(coefficients=left(explain.linear.coefficients), means=left(explain.linear.means)))
    return Explain(ablation=Ablation(baseline=left(explain.ablation.baseline if explain.ablation else [])))


def _without_idle_transforms(spec: Spec, decision: Decision) -> tuple[Spec, Fitted | None]:
    """The transforms that the model's columns still need, with their fitted parameters renumbered."""
    fitted = read_fitted(decision.base / decision.spec.fitted) if decision.spec.fitted else None
    assert spec.model is not None  # noqa: S101 - as above
    wanted = spec.model.columns[0].columns
    if wanted is None:  # "from transforms": all of them
        return spec, fitted
    kept = needed_transforms(spec.transforms, wanted)
    new = {old: index for index, old in enumerate(kept)}
    if fitted is not None:
        lines = [{**line, "at": new[line["at"]]} for line in fitted.transforms if line["at"] in new]
        fitted = Fitted(fitted.rows, lines)
    return spec.model_copy(update={"transforms": [spec.transforms[index] for index in kept]}), fitted


def needed_transforms(transforms: Sequence[Transform], columns: Collection[str]) -> list[int]:
    """Indices of the needed transforms, found backwards from the columns."""
    wanted, kept = set(columns), []
    for index in range(len(transforms) - 1, -1, -1):
        step = transforms[index].step
        assert step is not None  # noqa: S101 - the decision has been read
        made = [step.into] if isinstance(step, Cross) else step.of
        if any(_makes(name, column) for name in made for column in wanted):
            kept.append(index)
            wanted |= set(step.of)
    return kept[::-1]


def _makes(name: str, column: str) -> bool:
    """`country` can become `country=DE`, and `time` `time.hour`."""
    return column == name or column.startswith((f"{name}=", f"{name}."))
