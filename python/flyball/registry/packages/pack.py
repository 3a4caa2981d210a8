"""Creates a package's folder: model files, decision with its files, samples, profile and meta.json.

Everything is copied and every path made relative to the folder, so that the package works on any machine. Feature stores are
data of a machine, not part of a version: their paths become absolute.
"""

from __future__ import annotations

import json
import posixpath
import shutil
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from flyball.artifacts.packages import plain_files
from flyball.decision.compile.model_documents import only_name
from flyball.decision.spec.paths import with_paths
from flyball.decision.spec.read import read_spec
from flyball.decision.spec.write import yaml_of
from flyball.documents.faults import faults_of
from flyball.documents.names import NAME_WORDS, is_name, near_name
from flyball.documents.snapshot.store import digest_of
from flyball.errors import ArtifactRefusedError, InvalidInputError, RegistryRefusedError, UsageError
from flyball.models.equivalence.certificate import CERTIFICATE, read_certificate
from flyball.native.model_documents import TensorSpec
from flyball.native.models import copy_external_data, model_files, scan_model
from flyball.registry.packages.certified import reach
from flyball.registry.packages.deployment import PackageFolder, is_reference, main_model, served
from flyball.registry.packages.meta import (
    DECISION,
    META,
    MODEL,
    PROFILE,
    SAMPLES,
    Card,
    DecisionDigests,
    LatencyContract,
    Lineage,
    Meta,
    ModelSignature,
    Reference,
    now_text,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from flyball.decision.spec.spec import Spec
    from flyball.registry.packages.deployment import Served

    Resolve = Callable[[str], PackageFolder]

_ELSEWHERE = "files"
_OWN_NAMES = (META, DECISION, SAMPLES, PROFILE, CERTIFICATE)
_FILES_MAX = 1000
_JSON_BYTES_MAX = 16 << 20


@dataclass(frozen=True, slots=True)
class Contents:
    """The parts of a package: model, decision or folder, and its metadata."""

    name: str
    author: str
    model: Path | None = None
    decision: Path | None = None
    folder: Path | None = None
    samples: Sequence[Path] = ()
    profile: Path | None = None
    card: Card = field(default_factory=Card)
    metrics: Mapping[str, float | int | str] = field(default_factory=dict)
    lineage: Lineage = field(default_factory=Lineage)
    contract: LatencyContract | None = None
    certificate: Path | None = None
    notes: str = ""


def pack(contents: Contents, target: Path, resolve: Resolve | None = None, *, created: str | None = None) -> Meta:
    """Fill an empty folder. `resolve` finds NAME@VERSION for models from the registry."""
    if not is_name(contents.name):
        raise UsageError(
            f"{contents.name!r} cannot be a name: {NAME_WORDS}",
            next_step=f"flyball register {near_name(contents.name)} MODEL.onnx",
        )
    if (contents.folder is not None) == (contents.model is not None or contents.decision is not None):
        raise UsageError(
            "a package is made of a folder, or of a model and a decision",
            next_step="flyball register NAME MODEL.onnx   or   --decision FILE   or   DIR",
        )
    target.mkdir(parents=True, exist_ok=True)
    references: dict[str, PackageFolder] = {}
    if contents.folder is not None:
        _copy_folder(contents.folder, target)
    if contents.model is not None:
        _copy_model(contents.model, target / MODEL)
    decision = contents.decision or (target / DECISION if (target / DECISION).is_file() else None)
    if decision is not None:
        references = _Decision(decision, target, resolve).copy(has_model=contents.model is not None)
    _copy_json(contents.samples, target / SAMPLES)
    if contents.profile is not None:
        _copy_json([contents.profile], target, name=PROFILE)
    if contents.certificate is not None:
        _copy_json([contents.certificate], target, name=CERTIFICATE)
    meta = _meta(contents, target, references, created or now_text())
    (target / META).write_bytes(meta.to_bytes())
    return meta


class _Decision:
    """Copies a decision and the files it names into the package."""

    def __init__(self, path: Path, target: Path, resolve: Resolve | None) -> None:
        self._path, self._target, self._resolve = path, target, resolve
        self._spec, _ = read_spec(path)
        self._brought: dict[Path, str] = {}
        self._references: dict[str, PackageFolder] = {}

    def copy(self, *, has_model: bool) -> dict[str, PackageFolder]:
        """Copy, and return the referenced packages. With `has_model`, use the package's model."""
        spec = self._with_own_model(self._spec) if has_model else self._spec
        moved = with_paths(spec, self._moved)
        if moved == self._spec:
            if self._path != self._target / DECISION:
                shutil.copyfile(self._path, self._target / DECISION)  # unchanged, with comments
        else:
            (self._target / DECISION).write_text(yaml_of(moved))
        return self._references

    def _with_own_model(self, spec: Spec) -> Spec:
        if spec.model is None:
            raise UsageError(
                f"{self._path} has several models, so it cannot take another one",
                next_step="leave the model out: the decision's own models are used",
            )
        self._brought[self._target / MODEL] = MODEL
        own = {"path": str(self._target / MODEL), "name": only_name(spec.model), "digest": None}
        return spec.model_copy(update={"model": spec.model.model_copy(update=own)})

    def _moved(self, use: str, path: str) -> str:
        source = (self._path.parent / path).absolute()
        if use == "store":
            return str(source)
        if use == "model" and is_reference(path) and not source.exists():
            return self._pinned(path)
        if source in self._brought:
            return self._brought[source]
        self._brought[source] = inside = self._place(path)
        if source != self._target / inside:
            (self._target / inside).parent.mkdir(parents=True, exist_ok=True)
            copy = _copy_model if use == "model" else _copy_file
            copy(source, self._target / inside)
        return path if inside == posixpath.normpath(path) else inside

    def _pinned(self, path: str) -> str:
        if self._resolve is None:
            raise UsageError(
                f"{self._path} asks {path} of a registry, and no registry is given", next_step="name it: --registry HOME"
            )
        found = self._resolve(path)
        self._references[found.ref] = found
        return found.ref

    def _place(self, path: str) -> str:
        """The path in the package: unchanged if possible; outside or conflicting files get their own folder."""
        plain = posixpath.normpath(path)
        outside = plain.startswith(("/", "..")) or PurePosixPath(plain).parts[0] in _OWN_NAMES
        if not outside and (self._path.parent == self._target or not (self._target / plain).exists()):
            return plain
        folder = f"{_ELSEWHERE}/{len(self._brought)}"  # one per file: external data of two models may share a name
        return f"{folder}/{PurePosixPath(plain).name}"


def _copy_model(source: Path, target: Path) -> None:
    """Copy a model with its external data, after scanning it."""
    scan_model(source)
    files = model_files(source)
    _copy_file(source, target)
    for item in files.external_data:
        beside = target.parent / item.name
        if beside.exists() and digest_of(beside.read_bytes()) != item.digest:
            raise _taken(source.parent / item.name, beside)
        copy_external_data(source, item.name, beside)


def _copy_file(source: Path, target: Path) -> None:
    try:
        if target.exists() and target.read_bytes() != source.read_bytes():
            raise _taken(source, target)
        shutil.copyfile(source, target)
    except OSError as error:
        raise InvalidInputError(
            f"cannot copy {source}: {error.strerror}", next_step="name a file that can be read"
        ) from error


def _taken(source: Path, target: Path) -> RegistryRefusedError:
    return RegistryRefusedError(
        f"two files would be {target.name} in the package: {source} is the second", next_step="rename one of them"
    )


def _copy_folder(source: Path, target: Path) -> None:
    if not source.is_dir():
        raise InvalidInputError(f"{source} is not a folder", next_step="name a folder, an ONNX file or a decision")
    try:
        for copied, (name, handle) in enumerate(plain_files(source)):
            with open(handle, "rb") as file:
                if copied >= _FILES_MAX:
                    raise InvalidInputError(
                        f"{source} has more than {_FILES_MAX} files", next_step="register one package at a time"
                    )
                if name != META:
                    (target / name).parent.mkdir(parents=True, exist_ok=True)
                    with (target / name).open("wb") as kept:
                        shutil.copyfileobj(file, kept)
    except ArtifactRefusedError as error:
        raise InvalidInputError(error.message, next_step="copy the link's target into the folder") from error


def _copy_json(sources: Sequence[Path], folder: Path, *, name: str | None = None) -> None:
    for source in sources:
        try:
            with source.open("rb") as file:
                content = file.read(_JSON_BYTES_MAX + 1)
            if len(content) > _JSON_BYTES_MAX:
                raise InvalidInputError(f"{source} has more than {_JSON_BYTES_MAX >> 20} MiB")
            json.loads(content)
        except OSError as error:
            raise InvalidInputError(f"cannot read {source}: {error.strerror}") from error
        except ValueError as error:
            raise InvalidInputError(f"{source} is not JSON: {error}") from error
        folder.mkdir(exist_ok=True)
        (folder / (name or f"{source.stem}.json")).write_bytes(content)


def _check_certificate(target: Path, shown: Served) -> None:
    """Refuse a certificate of another model or score path: signed with this package it would prove nothing."""
    path = target / CERTIFICATE
    if path.is_file():
        reach(read_certificate(path), shown)


def _meta(contents: Contents, target: Path, references: Mapping[str, PackageFolder], created: str) -> Meta:
    """Build meta.json from the folder as servers see it, so that unservable packages are refused early."""
    package = PackageFolder(contents.name, 1, "sha256:" + "0" * 64, target)
    has_decision = (target / DECISION).is_file()
    asked = {}
    if has_decision:
        asked = _asked(contents.name, target)
    else:
        main_model(target)
    shown = served(package, references)
    _check_certificate(target, shown)
    digests = shown.digests
    if has_decision and contents.contract is not None and not any((target / SAMPLES).glob("*.json")):
        raise InvalidInputError(
            "a decision's latency contract is proven with rows of its fields, and there are none",
            next_step=f"flyball register {contents.name} … --sample ROW.json",
        )
    signatures = [_signature(path, target) for path in sorted(target.rglob("*.onnx"))]
    asks = [
        Reference(model=asked[ref], name=one.name, version=one.version, root=one.root) for ref, one in references.items()
    ]
    try:
        return Meta(
            **{key: getattr(contents, key) for key in ("name", "author", "lineage", "card", "contract", "notes")},
            created=created,
            kind="decision" if has_decision else "model",
            models=signatures,
            references=asks,
            decision=DecisionDigests.model_validate(digests.model_dump(by_alias=True)) if digests else None,
            metrics=dict(contents.metrics),
        )
    except ValidationError as error:
        faults = faults_of(error, Meta)
        raise UsageError(
            "the package's metadata is not valid", faults=faults, next_step="flyball register --help"
        ) from error


def _asked(name: str, target: Path) -> dict[str, str]:
    """The decision's names of referenced models, by NAME@N; refuses a decision with another name."""
    spec, _ = read_spec(target / DECISION)
    if spec.decision != name:
        raise RegistryRefusedError(
            f"the decision is named {spec.decision}, but would be registered as {name}",
            next_step=f"register it as {spec.decision}, or write  decision: {name}",
        )
    models = {**(spec.models or {}), **({only_name(spec.model): spec.model} if spec.model else {})}
    return {model.path: called for called, model in models.items() if is_reference(model.path)}


def _signature(path: Path, target: Path) -> ModelSignature:
    files = model_files(path)

    def told(tensors: Sequence[Any]) -> list[TensorSpec]:
        return [TensorSpec.model_validate(one.model_dump()) for one in tensors if one.datatype and one.shape is not None]

    return ModelSignature(file=path.relative_to(target).as_posix(), inputs=told(files.inputs), outputs=told(files.outputs))
