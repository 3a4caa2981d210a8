"""Compiles model files to a snapshot. Each model is one deployment; a single file is its version "1".

The native side computes digests and follows references to external data.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.documents.names import NAME_WORDS, is_name, near_name
from flyball.documents.snapshot.check import parse
from flyball.documents.snapshot.models import FORMAT, Terms
from flyball.documents.snapshot.store import Bundle, canonical, digest_of
from flyball.errors import UsageError
from flyball.native.models import model_files

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flyball.documents.snapshot.models import ClientShape
    from flyball.native.model_documents import ModelFiles

    Place = Callable[[str, Path, ModelFiles], str]
    Read = Callable[[Path], ModelFiles]

VERSION = "1"


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model to serve: name, files of its versions, and its own terms."""

    name: str
    path: Path | None
    """None: a decision without a model."""
    version: str = VERSION
    older: Mapping[str, Path] = field(default_factory=dict)
    """Older versions, for requests that name one."""
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    shapes: Mapping[str, ClientShape] = field(default_factory=dict)
    """The shapes for clients of inputs and outputs that differ from the model's."""
    optional_inputs: Sequence[str] = ()
    """Constants of the model that clients may send other values for."""
    terms: Terms | None = None
    """Replaces the terms for all models."""
    decision: Mapping[str, object] | None = None
    """The compiled decision that uses its versions; None for a plain model."""

    @property
    def files(self) -> dict[str, Path]:
        """The file of each version."""
        return {**self.older, **({} if self.path is None else {self.version: self.path})}

    @classmethod
    def from_argument(cls, text: str) -> ModelSource:
        """Parse `PATH`, named by its stem, or `NAME=PATH`. An existing file with `=` in its path counts as PATH."""
        name, equals, path = text.partition("=")
        if equals and not path and not Path(text).exists():
            raise UsageError(f"{text!r} has no path after the '='", next_step=f"write  {name or 'NAME'}=PATH")
        if not equals or Path(text).exists() or not (is_name(name) or Path(path).exists()):
            name, path = Path(text).stem, text
        if not is_name(name):
            raise UsageError(
                f"{name!r} cannot be a model's name: {NAME_WORDS}",
                next_step=f"give it one:  {near_name(name)}={shlex.quote(path)}",
            )
        return cls(name, Path(path))


def compile_models(
    sources: Sequence[ModelSource | str],
    *,
    generation: int = 1,
    terms: Terms | None = None,
    place: Place | None = None,
    read: Read | None = None,
) -> Bundle:
    """Compile models to a snapshot. `place` returns the path for a document, by default the file's absolute path.

    `read` returns a file's digests, for callers that have computed them already.
    """
    models = [ModelSource.from_argument(source) if isinstance(source, str) else source for source in sources]
    _refuse_duplicates(models)
    documents = [
        canonical(_deployment(model, model.terms or terms or Terms(), place, read or model_files)) for model in models
    ]
    for document in documents:
        parse("deployment", document)  # terms may be valid one by one and conflict together
    entries = [
        {"name": model.name, "digest": digest_of(document)} for model, document in zip(models, documents, strict=True)
    ]
    index = canonical({"format": FORMAT, "generation": generation, "deployments": entries})
    return Bundle(index, tuple(documents))


def _deployment(model: ModelSource, terms: Terms, place: Place | None, read: Read) -> dict[str, object]:
    versions = model.files
    return {
        "format": FORMAT,
        "name": model.name,
        "route": {"version": model.version},
        "versions": [
            {"version": version, "artifact": _artifact(model, versions[version], place, read)}
            for version in sorted(versions, key=int)
        ],
        **terms.model_dump(),
        "labels": {output: list(texts) for output, texts in model.labels.items()},
        "shapes": {tensor: shape.model_dump() for tensor, shape in model.shapes.items()},
        "decision": model.decision,
    }


def _artifact(model: ModelSource, path: Path, place: Place | None, read: Read) -> dict[str, object]:
    files = read(path)
    artifact: dict[str, object] = {
        "path": place(model.name, path, files) if place else str(path.absolute()),
        "digest": files.digest,
        "external_data": [{"name": item.name, "digest": item.digest} for item in files.external_data],
    }
    return artifact | ({"optional_inputs": list(model.optional_inputs)} if model.optional_inputs else {})


def _refuse_duplicates(models: Sequence[ModelSource]) -> None:
    seen: dict[str, Path | None] = {}
    for model in models:
        if model.name in seen:
            raise UsageError(
                f"two models would be named {model.name!r}: {seen[model.name]} and {model.path}",
                next_step=f"name one of them:  {model.name}-2={model.path}",
            )
        seen[model.name] = model.path
