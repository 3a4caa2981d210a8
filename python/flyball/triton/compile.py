"""Reads a model repository model by model: one that cannot be served is listed with its reason and blocks no other.

The result is the input of the snapshot's compiler. Triton loads all selected versions of a model or none; so does a
deployment.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from flyball.documents.names import is_name
from flyball.documents.snapshot import ModelSource, Terms
from flyball.errors import ModelRefusedError, UsageError
from flyball.native.model_documents import ModelFiles
from flyball.native.models import model_files, prove
from flyball.triton import batching, mapping, tensors, versions
from flyball.triton.config import Config
from flyball.triton.configurations import Configurations
from flyball.triton.layout import ModelFolder, model_file, model_folder, scan
from flyball.triton.report import ModelReport, Notes, RepositoryReport


@dataclass(frozen=True, slots=True)
class Repository:
    """The models to serve, and the report on every model."""

    sources: list[ModelSource]
    report: RepositoryReport
    files: dict[Path, ModelFiles] = field(default_factory=dict)
    """Every model file that was read, so that the compiler need not read it again."""


def read_repository(repositories: Sequence[Path], flags: Terms | None = None, config_name: str | None = None) -> Repository:
    """Read repositories in Triton's layout. `flags` override a model's configuration."""
    folders = scan(repositories)
    refuse_if_empty(folders, repositories)
    return read_models(repositories, folders, flags, Configurations(config_name))


def refuse_if_empty(folders: dict[str, list[Path]], repositories: Sequence[Path]) -> None:
    """Raise if there is no folder of a model."""
    if not folders:
        raise UsageError(
            f"--model-repository: {named(repositories)} has no model", next_step="put models in  DIR/NAME/1/model.onnx"
        )


def refuse_if_none_is_served(report: RepositoryReport) -> None:
    """Raise with every model's reason if there is nothing to serve."""
    if not report.served:
        reasons = "\n".join(f"  {model.name}: {model.refusal}" for model in report.refused)
        next_step = f"see the mapping:  flyball inspect --model-repository {report.repository}"
        raise ModelRefusedError(f"{report.repository} has no model to serve:\n{reasons}", next_step=next_step)


def read_models(
    repositories: Sequence[Path], folders: dict[str, list[Path]], flags: Terms | None, configurations: Configurations
) -> Repository:
    """Read some models, each by its folders: one that several repositories have is refused, as in Triton."""
    sources: list[ModelSource] = []
    reports: list[ModelReport] = []
    files: dict[Path, ModelFiles] = {}
    for name, (path, *others) in folders.items():
        notes = Notes()
        if others:
            where = ", ".join(str(folder) for folder in (path, *others))
            reports.append(ModelReport(name, refusal=f"model appears in two or more repositories: {where}; keep one"))
            continue
        try:
            source = _source(model_folder(path), configurations, flags, notes, files)
        except ModelRefusedError as error:
            reports.append(ModelReport(path.name, refusal=error.message, notes=tuple(notes)))
        except OSError as error:
            reason = f"cannot read {error.filename or path}: {error.strerror}"
            reports.append(ModelReport(path.name, refusal=reason, notes=tuple(notes)))
        else:
            sources.append(source)
            reports.append(ModelReport(path.name, (*source.older, source.version), notes=tuple(notes)))
    return Repository(sources, RepositoryReport(named(repositories), tuple(reports)), files)


def proved(found: Repository, begin: Callable[[int, str], None]) -> RepositoryReport:
    """The report after each model was loaded once, as a server does it: ONNX Runtime may refuse what its file promises."""
    refusals = {}
    for number, source in enumerate(found.sources):
        begin(number, source.name)
        for version, path in source.files.items():
            try:
                prove(path, 1)
            except ModelRefusedError as error:
                refusals[source.name] = f"version {version}: {error.message.removeprefix(f'{path}: ')}"
    models = (
        replace(model, refusal=refusals[model.name], versions=()) if model.name in refusals else model
        for model in found.report.models
    )
    return replace(found.report, models=tuple(models))


def named(repositories: Sequence[Path]) -> str:
    """The repositories in one text, for messages."""
    return ", ".join(str(repository) for repository in repositories)


def _source(
    folder: ModelFolder, configurations: Configurations, flags: Terms | None, notes: Notes, files: dict[Path, ModelFiles]
) -> ModelSource:
    if not is_name(folder.name):
        raise ModelRefusedError("a model name has 1 to 128 characters of A-Z a-z 0-9 . _ - : rename its folder")
    config = configurations.read(folder.path)
    mapping.identity(config, folder.name, notes)
    chosen = versions.chosen(config, folder.versions, notes)
    paths = {str(number): _model_file(folder.versions[number], config) for number in chosen}
    for version, path in paths.items():
        files[path] = _files(version, path)
    route = str(chosen[-1])
    shapes = tensors.shapes_of(config, files[paths[route]], notes)
    optional = tensors.optional_of(config, files[paths[route]], notes)
    tensors.say_texts(paths[route], files[paths[route]], notes)
    labels = tensors.labels_of(config, folder, notes)
    terms = _with_flags(batching.terms_of(config, notes), flags, notes)
    mapping.note_unmapped(config, notes)
    older = {version: path for version, path in paths.items() if version != route}
    return ModelSource(folder.name, paths[route], route, older, labels, shapes, optional, terms)


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
