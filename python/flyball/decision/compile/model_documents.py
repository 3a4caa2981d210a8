"""Compiles the models of a decision: columns of tensors, file paths and digests.

Must not know the use of a score.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flyball.decision.compile.files import Files
    from flyball.decision.spec.models import Explain, Model
    from flyball.documents.yaml_lines import Place
    from flyball.native.model_documents import ModelFiles

PREVIOUS = "previous"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A version of the deployment: the model's name in the decision, its file, and the file's facts."""

    name: str
    version: str
    path: Path
    files: ModelFiles
    explain: Path | None = None


def only_name(model: Model) -> str:
    """The name of a decision's only model: its own, else its file's."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", model.path.rpartition("/")[2].removesuffix(".onnx")).strip("-")
    return model.name or stem[:50] or "model"


def previous_name(name: str) -> str:
    """The name of the previous version."""
    return f"{name}-{PREVIOUS}"


class ModelDocuments:
    """Collects models, each the next version of the deployment."""

    def __init__(self, files: Files, columns: Sequence[str]) -> None:
        """`columns` are those that transforms made or changed."""
        self._files = files
        self._columns = columns
        self.documents: list[dict[str, Any]] = []
        self.artifacts: list[Artifact] = []

    def add(self, place: Place, name: str, model: Model) -> None:
        """Add a model, and its previous version if given."""
        files = self._files
        found = files.model(place, model.path, model.digest)
        if found is None:
            return
        signature = {
            "inputs": self._inputs(place, model, found),
            "score": {"output": model.score.output, "element": model.score.element},
        }
        explain = self._explain(place, model.explain)
        trees = model.explain.trees if model.explain else None
        explained = {**signature, "explain": explain} if explain else signature
        self._put(name, model.path, found, explained, trees.path if trees else None)
        if model.previous is not None:
            older = files.model((*place, "previous"), model.previous.path, model.previous.digest)
            if older is not None:
                self._put(previous_name(name), model.previous.path, older, signature)

    def _put(self, name: str, path: str, found: ModelFiles, signature: dict[str, Any], sidecar: str | None = None) -> None:
        version = str(len(self.artifacts) + 1)
        explain = None if sidecar is None else self._files.at(sidecar)
        self.artifacts.append(Artifact(name, version, self._files.at(path), found, explain))
        self.documents.append({"name": name, "version": version, **signature})

    def _inputs(self, place: Place, model: Model, found: ModelFiles) -> list[dict[str, Any]]:
        """The columns of each tensor; the name of a model's only input may be omitted."""
        tensors = [tensor.name for tensor in found.inputs]
        inputs = []
        for part in model.columns:
            name = part.tensor
            if name is None and len(tensors) != 1:
                self._files.wrong((*place, "columns"), None, f"columns for each of the model's inputs, {', '.join(tensors)}")
                return []
            if part.columns is None and not self._columns:
                self._files.wrong((*place, "columns"), "from transforms", "a list of columns: there are no transforms")
            columns = self._columns if part.columns is None else part.columns
            inputs.append({"tensor": name or tensors[0], "columns": list(columns)})
        return inputs

    def _explain(self, place: Place, explain: Explain | None) -> dict[str, Any] | None:
        if explain is None:
            return None
        if explain.trees is not None:
            path = explain.trees.path
            digest = self._files.digest((*place, "explain", "trees"), path, explain.trees.digest)
            return {"by": "trees", "path": str(self._files.at(path)), "digest": digest}
        if explain.linear is not None:
            return {"by": "linear", **explain.linear.model_dump()}
        return {"by": "ablation", **(explain.ablation.model_dump() if explain.ablation else {})}
