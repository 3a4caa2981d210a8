"""The report on a model repository, for `serve`, `snapshot` and `inspect`: a table, or log lines.

Must not know how a configuration is read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flyball.cli.option import option
from flyball.cli.output import console
from flyball.documents.log import log

if TYPE_CHECKING:
    from rich.console import Console

    from flyball.triton.report import ModelReport, RepositoryReport

ModelRepository = Annotated[Path | None, option("Serve a model repository in Triton's layout instead.", metavar="DIR")]


def show(report: RepositoryReport, *, stderr: bool = False) -> None:
    """Print one table per model: its configuration fields, and what they map to."""
    out = console(stderr=stderr)
    for model in report.models:
        _show_model(model, out)
    served, refused = len(report.served), len(report.refused)
    warnings = sum(len(model.warnings) for model in report.served)
    out.print(f"{served} served, {refused} refused; fields that do not map or differ: {warnings}")


def log_report(report: RepositoryReport) -> None:
    """Log each refused model, and each field that does not map."""
    for model in report.refused:
        log("ERROR", "model refused", model=model.name, reason=model.refusal or "")
    for model in report.served:
        for note in model.warnings:
            log("WARN", "model configuration does not map", model=model.name, field=note.field, reason=note.text)


def show_or_log(report: RepositoryReport) -> None:
    """Print a table if stderr is a terminal, else log lines."""
    if sys.stderr.isatty():
        show(report, stderr=True)
    else:
        log_report(report)


def _show_model(model: ModelReport, out: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    if model.refusal is not None:
        out.print(f"[bold]{escape(model.name)}[/bold]   [red]refused[/red]: {escape(model.refusal)}\n")
        return
    named = f"version{'s' * (len(model.versions) != 1)} {', '.join(model.versions)}"
    out.print(f"[bold]{escape(model.name)}[/bold]   [green]served[/green], {named}")
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for note in model.notes:
        word = "[green]maps[/green]" if note.mapped else "[yellow]differs[/yellow]"
        table.add_row(f"  {word}", escape(note.field), escape(note.text))
    out.print(table if model.notes else "  [dim]no configuration file; defaults from the model[/dim]")
    out.print()
