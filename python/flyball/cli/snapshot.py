"""`flyball snapshot`: compile model files to a snapshot on disk, which `flyballd` and `flyball serve --snapshot` take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def snapshot(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="ONNX files, each PATH or NAME=PATH.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder to write index.json, deployments/ and models/ to.")],
    generation: Annotated[int, typer.Option(min=1, help="Number of this snapshot; later ones are larger.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compile models to a snapshot on disk, with copies of them: a folder to move where flyballd runs."""
    from flyball.cli.output import console, print_json
    from flyball.snapshot import pack_models

    bundle, index = pack_models(models, out, generation=generation), out / "index.json"
    entries = bundle.parsed_index().deployments
    if json:
        print_json({"index": str(index), "deployments": [entry.model_dump() for entry in entries]})
        return
    from rich.markup import escape

    shown = console()
    for entry in entries:
        shown.print(f"[bold]{escape(entry.name)}[/bold]   {entry.digest}")
    shown.print(f"\nNext:  flyballd --snapshot {escape(str(index))}", style="dim")
