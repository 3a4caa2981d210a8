"""A package as a deployment: its decision's document and its models, with the paths and numbers that servers see.

A release names the digest of that document, so the author, the registry and every control loop must compute the same bytes:
paths are relative to a snapshot's folder, and numbers come from the version alone.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.decision.compile.check import check, digests_of
from flyball.decision.compile.document import compile_spec
from flyball.decision.spec.paths import with_paths
from flyball.decision.spec.read import read_spec
from flyball.errors import RegistryRefusedError
from flyball.native.models import model_files
from flyball.registry.packages.meta import DECISION, MODEL
from flyball.signing.manifest import model_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flyball.decision.compile.document import Compiled
    from flyball.decision.spec.faults import Origin
    from flyball.decision.spec.spec import Spec
    from flyball.native.server_documents import DecisionDigests

PACKAGES = "packages"
"""The folder of packages, beside a snapshot's index."""


@dataclass(frozen=True, slots=True)
class PackageFolder:
    """A package on this machine: its version, root and folder."""

    name: str
    version: int
    root: str
    folder: Path

    @property
    def ref(self) -> str:
        """NAME@N."""
        return f"{self.name}@{self.version}"

    @property
    def home(self) -> str:
        """Its folder inside a snapshot's folder."""
        return home_of(self.root)


@dataclass(frozen=True, slots=True)
class Served:
    """The parts of a deployment's document that come from packages."""

    versions: list[dict[str, Any]]
    decision: dict[str, Any] | None
    deadline_ms: int | None
    digests: DecisionDigests | None

    @property
    def named(self) -> dict[str, str | None]:
        """The digests of decision, policy and schema, as a release names them; none for a plain model."""
        found = self.digests
        return {
            "decision": found.document if found else None,
            "policy": found.policy if found else None,
            "schema": found.schema_ if found else None,
        }

    @property
    def models(self) -> dict[str, str]:
        """The models as a release names them: version to digest."""
        artifacts = {one["version"]: one["artifact"] for one in self.versions}
        return {
            version: model_digest(artifact["digest"], {data["name"]: data["digest"] for data in artifact["external_data"]})
            for version, artifact in artifacts.items()
        }


def home_of(root: str) -> str:
    """The folder of a package, by its root, inside a snapshot's folder."""
    return f"{PACKAGES}/{root.removeprefix('sha256:')}"


def served(package: PackageFolder, references: Mapping[str, PackageFolder], *, judged: bool = True) -> Served:
    """A version as servers see it. `references`: the packages that its decision names, by NAME@N.

    Without `judged` the decision is neither checked nor digested: servers do both themselves.
    """
    if not (package.folder / DECISION).is_file():
        return Served([_version(str(package.version), package, main_model(package.folder))], None, None, None)
    packages = [package, *references.values()]
    compiled = _numbered(_compiled(package, references, judged=judged), package.version, packages)
    versions = [_version(one.version, _home(one.path, packages), one.path) for one in compiled.artifacts]
    return Served(versions, compiled.document, compiled.timeout_ms, digests_of(compiled) if judged else None)


def main_model(folder: Path) -> Path:
    """The model of a package without a decision: model.onnx, else its only ONNX file."""
    found = sorted(folder.glob("*.onnx"))
    if folder / MODEL in found:
        return folder / MODEL
    if len(found) != 1:
        raise RegistryRefusedError(
            f"a package without a decision has one model, and this has {len(found)} ONNX files",
            next_step=f"call the one to serve {MODEL}, or register them with a decision",
        )
    return found[0]


def model_version(number: int, place: int | None) -> str:
    """The version of a model that callers see: its package's, preceded by the model's position if there are several.

    Model 2 of version 4 is 2000004, which cannot be a package's own number: those have at most six digits.
    """
    return str(number) if place is None else f"{place}{number:06d}"


def is_reference(path: str) -> bool:
    """Whether a decision's model path is a NAME@VERSION of the registry."""
    name, at, version = path.partition("@")
    return bool(at and name and version) and not {"/", "\\"} & set(path) and not path.endswith(".onnx")


def resolved(package: PackageFolder, references: Mapping[str, PackageFolder]) -> tuple[Spec, Origin]:
    """A package's decision with all paths resolved to files of this machine."""
    spec, origin = read_spec(package.folder / DECISION)

    def found(use: str, path: str) -> str:
        if use != "model" or not is_reference(path):
            return str(package.folder / path)
        if path not in references:
            raise RegistryRefusedError(
                f"the decision of {package.ref} asks {path}, which its meta.json does not name",
                next_step="register it again",
            )
        return str(main_model(references[path].folder))

    return with_paths(spec, found), origin


def _compiled(package: PackageFolder, references: Mapping[str, PackageFolder], *, judged: bool) -> Compiled:
    whole, origin = resolved(package, references)
    if judged:
        return check(whole, package.folder, origin).compiled
    return compile_spec(whole, package.folder, origin)


def _numbered(compiled: Compiled, number: int, packages: list[PackageFolder]) -> Compiled:
    """Number models by the version, so that champion and candidate can coexist; make paths snapshot-relative."""
    only = len(compiled.artifacts) == 1
    numbers = {
        one.version: model_version(number, None if only else place) for place, one in enumerate(compiled.artifacts, 1)
    }
    artifacts = [dataclasses.replace(one, version=numbers[one.version]) for one in compiled.artifacts]
    models = [
        {**model, "version": numbers[model["version"]], **_explained(model.get("explain"), packages)}
        for model in compiled.document["models"]
    ]
    return dataclasses.replace(compiled, document={**compiled.document, "models": models}, artifacts=artifacts)


def _explained(explain: dict[str, Any] | None, packages: list[PackageFolder]) -> dict[str, Any]:
    if explain is None or "path" not in explain:
        return {}
    path = Path(explain["path"])
    return {"explain": {**explain, "path": _inside(path, _home(path, packages))}}


def _home(path: Path, packages: list[PackageFolder]) -> PackageFolder:
    for package in packages:
        if path.is_relative_to(package.folder):
            return package
    raise RegistryRefusedError(
        f"{path} is in no package of this version", next_step="register the decision again: this copies its files"
    )


def _inside(path: Path, package: PackageFolder) -> str:
    return f"{package.home}/{path.relative_to(package.folder).as_posix()}"


def _version(version: str, package: PackageFolder, path: Path) -> dict[str, Any]:
    files = model_files(path)
    data = [{"name": item.name, "digest": item.digest} for item in files.external_data]
    artifact = {"path": _inside(path, package), "digest": files.digest, "external_data": data}
    return {"version": version, "artifact": artifact}
