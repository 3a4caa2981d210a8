"""A model repository, read model by model: one that cannot be served is listed with its reason and holds none back.

What comes out is what the snapshot's compiler takes. Triton loads all chosen versions of a model or none; so does a
deployment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flyball.documents.names import is_name
from flyball.documents.snapshot import ModelSource, Terms
from flyball.errors import ModelRefusedError
from flyball.native.models import model_files
from flyball.triton import batching, mapping, tensors, versions
from flyball.triton.config import empty, read_config
from flyball.triton.layout import ModelFolder, model_file, model_folder, scan
from flyball.triton.report import ModelReport, Notes, RepositoryReport

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.native.model_documents import ModelFiles
    from flyball.triton.config import Config


@dataclass(frozen=True, slots=True)
class Repository:
    """What can be served, and what became of every model."""

    sources: list[ModelSource]
    report: RepositoryReport
    files: dict[Path, ModelFiles] = field(default_factory=dict)
    """Of every model file that was read, so that the compiler need not read them again."""


def read_repository(repository: Path, flags: Terms | None = None) -> Repository:
    """Read a repository in Triton's layout. What `flags` state goes before what a model's configuration says."""
    return _read(repository, scan(repository), flags)


def read_model(repository: Path, name: str, flags: Terms | None = None) -> Repository:
    """Only this model of a repository; its folder must be there."""
    return _read(repository, [repository / name], flags)


def refuse_if_none_is_served(report: RepositoryReport) -> None:
    """Raise with every model's reason where nothing is left to serve."""
    if not report.served:
        reasons = "; ".join(f"{model.name}: {model.refusal}" for model in report.refused)
        next_step = f"see what maps:  flyball inspect --model-repository {report.repository}"
        raise ModelRefusedError(f"{report.repository} has no model that can be served: {reasons}", next_step=next_step)


def _read(repository: Path, folders: list[Path], flags: Terms | None) -> Repository:
    sources: list[ModelSource] = []
    reports: list[ModelReport] = []
    files: dict[Path, ModelFiles] = {}
    for path in folders:
        notes = Notes()
        try:
            source = _source(model_folder(path), flags, notes, files)
        except ModelRefusedError as error:
            reports.append(ModelReport(path.name, refusal=error.message, notes=tuple(notes)))
        except OSError as error:
            reason = f"cannot read {error.filename or path}: {error.strerror}"
            reports.append(ModelReport(path.name, refusal=reason, notes=tuple(notes)))
        else:
            sources.append(source)
            reports.append(ModelReport(path.name, (*source.older, source.version), notes=tuple(notes)))
    return Repository(sources, RepositoryReport(str(repository), tuple(reports)), files)


def _source(folder: ModelFolder, flags: Terms | None, notes: Notes, files: dict[Path, ModelFiles]) -> ModelSource:
    if not is_name(folder.name):
        raise ModelRefusedError("a model's name has 1 to 128 of A-Z a-z 0-9 . _ - : rename its folder")
    text = folder.config_text()
    config = empty() if text is None else read_config(text)
    mapping.identity(config, folder.name, notes)
    chosen = versions.chosen(config, folder.versions, notes)
    paths = {str(number): _model_file(folder.versions[number], config) for number in chosen}
    for version, path in paths.items():
        files[path] = _files(version, path)
    route = str(chosen[-1])
    tensors.compare(config, files[paths[route]], notes)
    labels = tensors.labels_of(config, folder, notes)
    terms = _with_flags(batching.terms_of(config, notes), flags, notes)
    mapping.say_the_rest(config, notes)
    older = {version: path for version, path in paths.items() if version != route}
    return ModelSource(folder.name, paths[route], route, older, labels, terms)


def _model_file(version: Path, config: Config) -> Path:
    stated = config.message.default_model_filename
    try:
        return model_file(version, stated or mapping.DEFAULT_FILE)
    except ModelRefusedError as error:
        other = None if stated else mapping.other_backend({entry.name for entry in version.iterdir()})
        if other is None:
            raise
        raise ModelRefusedError(f"version {version.name}: {other}; only ONNX is served") from error


def _files(version: str, path: Path) -> ModelFiles:
    try:
        return model_files(path)
    except ModelRefusedError as error:
        raise ModelRefusedError(f"version {version}: {error.message.removeprefix(f'{path}: ')}") from error


def _with_flags(terms: Terms, flags: Terms | None, notes: Notes) -> Terms:
    """The command line goes first. A wait for more rows than a run may then have would be a fault: it is cut to them."""
    written = terms.model_dump()
    for part, stated in (flags.model_dump(exclude_unset=True) if flags else {}).items():
        if stated:
            written[part] = {**(written[part] or {}), **stated}
    rows_max = written["limits"]["batch_rows_max"]
    if written["batch"] and written["batch"]["size"] > rows_max:
        written["batch"] = {**written["batch"], "size": rows_max} if rows_max > 1 else None
        notes.said("batch.size", f"a run has at most {rows_max} rows, so a wait ends at that")
    return Terms.model_validate(written)
