"""Reads a model repository model by model: one that cannot be served is listed with its reason and blocks no other.

The result is the input of the snapshot's compiler. Triton loads all selected versions of a model or none; so does a
deployment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from flyball.documents.names import is_name
from flyball.documents.snapshot import ModelSource, Terms
from flyball.errors import ModelRefusedError
from flyball.native.model_documents import ModelFiles
from flyball.native.models import model_files
from flyball.triton import batching, mapping, tensors, versions
from flyball.triton.config import Config, empty, read_config
from flyball.triton.layout import ModelFolder, model_file, model_folder, scan
from flyball.triton.report import ModelReport, Notes, RepositoryReport


@dataclass(frozen=True, slots=True)
class Repository:
    """The models to serve, and the report on every model."""

    sources: list[ModelSource]
    report: RepositoryReport
    files: dict[Path, ModelFiles] = field(default_factory=dict)
    """Every model file that was read, so that the compiler need not read it again."""


def read_repository(repository: Path, flags: Terms | None = None) -> Repository:
    """Read a repository in Triton's layout. `flags` override a model's configuration."""
    return _read(repository, scan(repository), flags)


def read_model(repository: Path, name: str, flags: Terms | None = None) -> Repository:
    """Read one model of a repository; its folder must exist."""
    return _read(repository, [repository / name], flags)


def refuse_if_none_is_served(report: RepositoryReport) -> None:
    """Raise with every model's reason if there is nothing to serve."""
    if not report.served:
        reasons = "; ".join(f"{model.name}: {model.refusal}" for model in report.refused)
        next_step = f"see the mapping:  flyball inspect --model-repository {report.repository}"
        raise ModelRefusedError(f"{report.repository} has no model to serve: {reasons}", next_step=next_step)


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
        raise ModelRefusedError("a model name has 1 to 128 characters of A-Z a-z 0-9 . _ - : rename its folder")
    text = folder.config_text()
    config = empty() if text is None else read_config(text)
    mapping.identity(config, folder.name, notes)
    chosen = versions.chosen(config, folder.versions, notes)
    paths = {str(number): _model_file(folder.versions[number], config) for number in chosen}
    for version, path in paths.items():
        files[path] = _files(version, path)
    route = str(chosen[-1])
    shapes = tensors.shapes_of(config, files[paths[route]], notes)
    labels = tensors.labels_of(config, folder, notes)
    terms = _with_flags(batching.terms_of(config, notes), flags, notes)
    mapping.note_unmapped(config, notes)
    older = {version: path for version, path in paths.items() if version != route}
    return ModelSource(folder.name, paths[route], route, older, labels, shapes, terms)


def _model_file(version: Path, config: Config) -> Path:
    stated = config.message.default_model_filename
    try:
        return model_file(version, stated or mapping.DEFAULT_FILE)
    except ModelRefusedError as error:
        other = None if stated else mapping.other_backend({entry.name for entry in version.iterdir()})
        if other is None:
            raise
        raise ModelRefusedError(f"version {version.name}: {other}; only ONNX is supported") from error


def _files(version: str, path: Path) -> ModelFiles:
    try:
        return model_files(path)
    except ModelRefusedError as error:
        raise ModelRefusedError(f"version {version}: {error.message.removeprefix(f'{path}: ')}") from error


def _with_flags(terms: Terms, flags: Terms | None, notes: Notes) -> Terms:
    """Flags win. A batch wait for more rows than a run may have is reduced to that limit."""
    written = terms.model_dump()
    for part, stated in (flags.model_dump(exclude_unset=True) if flags else {}).items():
        if stated:
            written[part] = {**(written[part] or {}), **stated}
    rows_max = written["limits"]["batch_rows_max"]
    if written["batch"] and written["batch"]["size"] > rows_max:
        written["batch"] = {**written["batch"], "size": rows_max} if rows_max > 1 else None
        notes.unmapped("batch.size", f"reduced to the run limit of {rows_max} rows")
    return Terms.model_validate(written)
