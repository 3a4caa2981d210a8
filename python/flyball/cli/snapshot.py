"""`flyball snapshot`: compile model files to a snapshot on disk, which `flyballd` and `flyball serve --snapshot` take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flyball.cli.terms import BatchRowsMax, BatchSize, BatchWindowMs, DeadlineMs, QueueWaitMsMax, terms_of


def snapshot(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="ONNX files, each PATH or NAME=PATH.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write index.json, deployments/ and models/ to.")],
    generation: Annotated[int, typer.Option(min=1, help="Number of this snapshot; later ones are larger.")] = 1,
    deadline_ms: DeadlineMs = None,
    batch_rows_max: BatchRowsMax = None,
    batch_size: BatchSize = None,
    batch_window_ms: BatchWindowMs = None,
    queue_wait_ms_max: QueueWaitMsMax = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compile models to a snapshot on disk, with copies of them: a folder to move where flyballd runs."""
    from flyball.cli.output import console, print_json
    from flyball.snapshot import pack_models

    terms = terms_of(
        "snapshot",
        deadline_ms=deadline_ms,
        batch_rows_max=batch_rows_max,
        batch_size=batch_size,
        batch_window_ms=batch_window_ms,
        queue_wait_ms_max=queue_wait_ms_max,
    )
    bundle, index = pack_models(models, out, generation=generation, terms=terms), out / "index.json"
    entries = bundle.parsed_index().deployments
    if json:
        print_json({"index": str(index), "deployments": [entry.model_dump() for entry in entries]})
        return
    from rich.markup import escape

    shown = console()
    for entry in entries:
        shown.print(f"[bold]{escape(entry.name)}[/bold]   {entry.digest}")
    shown.print(f"\nNext:  flyballd --snapshot {escape(str(index))}", style="dim")
