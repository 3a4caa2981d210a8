"""Imports the models of a Triton repository: each version that Triton would serve.

`flyball.triton` reads `config.pbtxt` and reports fields that do not map. Must not know the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.documents.snapshot.models import Terms
from flyball.errors import UsageError
from flyball.registry.imports.found import Found
from flyball.triton.compile import read_repository, refuse_if_none_is_served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from flyball.documents.snapshot import ModelSource
    from flyball.triton.report import ModelReport, RepositoryReport


def find(repository: Path, model: str | None = None) -> tuple[list[Found], RepositoryReport]:
    """Every version, oldest first, so that the newest stays the newest; and the report of each field."""
    read = read_repository([repository])
    refuse_if_none_is_served(read.report)
    reports = {report.name: report for report in read.report.served}
    sources = [source for source in read.sources if model in {None, source.name}]
    if not sources:
        raise UsageError(
            f"{repository} has no model {model} that can be served", next_step=f"it has {', '.join(sorted(reports))}"
        )
    return [found for source in sources for found in _versions(source, reports[source.name], repository)], read.report


def _versions(source: ModelSource, report: ModelReport, repository: Path) -> Iterator[Found]:
    stated = {}
    if source.terms is not None and source.terms != Terms():
        stated["terms"] = source.terms.model_dump(exclude_defaults=True)
    if source.labels:
        stated["labels"] = {output: list(labels) for output, labels in source.labels.items()}
    notes = tuple(f"{note.field}: {note.text}" for note in report.warnings)
    for version in sorted(source.files, key=int):
        yield Found(
            name=source.name,
            model=source.files[version],
            source=f"{repository.name}/{source.name}/{version} (Triton's layout)",
            parameters={"triton": {"model": source.name, "version": version, **stated}},
            notes=notes,
        )
