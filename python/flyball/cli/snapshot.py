"""`flyball snapshot`: compiles models, decisions or a model repository to a snapshot on disk.

`flyballd` and `flyball serve --snapshot` serve it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from flyball.cli.model_files import models_read
from flyball.cli.option import AsJson, argument, option, with_options
from flyball.cli.output import console, print_json
from flyball.cli.repository import ModelConfigName, ModelRepository, config_name_of, show
from flyball.cli.terms import TERMS_OPTIONS, terms_of
from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.documents.snapshot import Bundle, Terms
    from flyball.triton.report import RepositoryReport


@with_options(TERMS_OPTIONS)
def snapshot(
    out: Annotated[Path, option("Directory for index.json, deployments/ and models/.", metavar="DIR")],
    models: Annotated[list[str] | None, argument("ONNX files, each PATH or NAME=PATH.", metavar="MODEL...")] = None,
    model_repository: ModelRepository = None,
    model_config_name: ModelConfigName = None,
    decision: Annotated[
        list[Path] | None, option("A decision in YAML, with its models; may be repeated.", metavar="FILE")
    ] = None,
    generation: Annotated[int, option("The snapshot's number; must increase with each snapshot.", min=1)] = 1,
    json: AsJson = False,
    **flags: Any,
) -> None:
    """Compile models to a snapshot on disk, with copies of their files: a folder to copy to where flyballd runs.

    flyball snapshot fraud.onnx credit.onnx --out snapshot
    """
    if bool(models or decision) == bool(model_repository):
        raise UsageError(
            "give either models and decisions, or a model repository",
            next_step="flyball snapshot MODEL.onnx --out DIR   or   --decision FILE   or   --model-repository DIR",
        )
    config_name = config_name_of(model_repository, model_config_name)
    terms = terms_of("snapshot", flags)
    if decision:
        bundle, report = _packed_decisions(decision, models, out, generation, terms), None
    elif model_repository:
        bundle, report = _packed_repository(model_repository, config_name, out, generation, terms)
    else:
        bundle, report = _packed_models(models or [], out, generation, terms), None
    index, entries = out / "index.json", bundle.parsed_index().deployments
    if json:
        document = {"index": str(index), "deployments": entries}
        print_json({**document, "repository": report.document()} if report else document)
        return
    if report:
        show(report)
    from rich.markup import escape

    shown = console()
    for entry in entries:
        shown.print(f"[bold]{escape(entry.name)}[/bold]   {entry.digest}")
    shown.print(f"\nNext:  flyballd --unsigned allow --snapshot {escape(str(index))}", style="dim")


def _packed_decisions(
    decisions: list[Path], models: list[str] | None, out: Path, generation: int, terms: Terms | None
) -> Bundle:
    from flyball.decision.compile.bundle import pack_decisions
    from flyball.decision.decision import Decision

    compiled = [Decision.load(path).check().compiled for path in decisions]
    with models_read(models or [], "snapshot"):
        return pack_decisions(compiled, out, models or [], generation=generation, terms=terms)


def _packed_models(models: list[str], out: Path, generation: int, terms: Terms | None) -> Bundle:
    from flyball.documents.snapshot import pack_models

    with models_read(models, "snapshot"):
        return pack_models(models, out, generation=generation, terms=terms)


def _packed_repository(
    repositories: list[Path], config_name: str | None, out: Path, generation: int, terms: Terms | None
) -> tuple[Bundle, RepositoryReport | None]:
    from flyball.documents.snapshot import pack_models
    from flyball.triton.compile import read_repository, refuse_if_none_is_served

    found = read_repository(repositories, terms, config_name)
    refuse_if_none_is_served(found.report)
    packed = pack_models(found.sources, out, generation=generation, read=found.files.__getitem__)
    return packed, found.report
