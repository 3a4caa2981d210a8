"""`flyball inspect`: a model's signature, size, opset, batching and latency on this machine.

With `--model-repository` it shows how a Triton repository would be served.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape
from rich.table import Table

from flyball.cli.model_files import models_read
from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, printed_as_json
from flyball.cli.printable import printable
from flyball.cli.repository import ModelConfigName, ModelRepository, config_name_of, show
from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.native.model_documents import Inspection, TensorSpec


def inspect(
    model: Annotated[Path | None, argument("The model file.", metavar="MODEL.onnx")] = None,
    model_repository: ModelRepository = None,
    model_config_name: ModelConfigName = None,
    batch_rows_max: Annotated[int, option("Largest batch to probe and measure.", min=1, max=1024)] = 64,
    json: AsJson = False,
) -> None:
    """Show a model's signature, whether its requests can be batched, and its latency by batch size.

    flyball inspect fraud.onnx
    """
    config_name = config_name_of(model_repository, model_config_name)
    if model is not None and not model_repository:
        _inspect_model(model, batch_rows_max, json)
    elif model is None and model_repository:
        _inspect_repository(model_repository, config_name, json)
    else:
        raise UsageError(
            "give either a model or --model-repository",
            next_step="flyball inspect MODEL.onnx   or   flyball inspect --model-repository DIR",
        )


def _inspect_model(model: Path, rows_max: int, json: bool) -> None:
    from flyball.native.models import inspect as inspect_model

    with models_read([str(model)], "inspect"):
        found = inspect_model(model, rows_max)
    if printed_as_json(found, json):
        return
    from flyball.bench.table import size

    out = console()
    opsets = ", ".join(f"{escape(opset.domain)} {opset.version}" for opset in found.opset)
    nodes = f"{found.nodes} node{'s' * (found.nodes != 1)}"
    out.print(f"[bold]{escape(model.name)}[/bold]   {size(found.size_bytes)}   {nodes}   {found.digest}")
    out.print(f"  opset {opsets}   producer {escape(found.producer or 'unknown')}   ONNX Runtime {found.ort_version}")
    out.print(_signature(found))
    if found.batching.on:
        out.print("[green]batching on[/green]: rows get the same answers alone and in a batch")
    else:
        out.print(f"[yellow]batching off[/yellow]: {escape(found.batching.reason or 'no reason given')}")
    if found.native:
        colour = "green" if found.native.on else "yellow"
        out.print(f"[{colour}]{escape(found.native.finding)}[/{colour}]")
    out.print(_latencies(found))
    out.print(f"\nNext:  flyball serve {escape(str(model))}", style="dim")


def _inspect_repository(repositories: list[Path], config_name: str | None, json: bool) -> None:
    from flyball.cli.progress import progress_on
    from flyball.triton.compile import proved, read_repository

    found = read_repository(repositories, config_name=config_name)
    with progress_on(console(stderr=True)) as progress:
        step = progress.begin("load", float(len(found.sources)))
        report = proved(found, lambda number, name: step.update(float(number), name))
        step.end(f"{len(report.served)} of {len(report.models)} models can be served")
    if printed_as_json(report.document(), json):
        return
    show(report)
    flags = " ".join(f"--model-repository {repository}" for repository in repositories)
    flags += f" --model-config-name {config_name}" if config_name else ""
    console().print(f"\nNext:  flyball serve {escape(flags)}", style="dim")


def _signature(found: Inspection) -> Table:
    table = Table("", "name", "datatype", "shape", box=None, pad_edge=False, header_style="bold")
    for role, specs in (("input", found.inputs), ("output", found.outputs)):
        for spec in specs:
            table.add_row(role, escape(printable(spec.name)), spec.datatype, escape(_shape(spec)))
    return table


def _shape(spec: TensorSpec) -> str:
    return "[" + ", ".join("any" if size == -1 else str(size) for size in spec.shape) + "]"


def _latencies(found: Inspection) -> Table:
    from flyball.bench.table import latency

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("rows", "p50", "p99", "p50 per row"):
        table.add_column(head, justify="right")
    for item in found.latency:
        table.add_row(str(item.rows), latency(item.p50_us), latency(item.p99_us), latency(item.p50_us / item.rows))
    return table
