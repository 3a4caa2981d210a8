"""The report on a model repository, for `serve`, `snapshot` and `inspect`: a table, or log lines.

Must not know how a configuration is read.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flyball.cli.option import option
from flyball.cli.output import console
from flyball.documents.log import log
from flyball.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from flyball.triton.report import ModelReport, RepositoryReport

ModelRepository = Annotated[
    list[Path] | None,
    option("Serve a model repository in Triton's layout instead; may be repeated.", metavar="DIR"),
]
_PANEL = "Model repositories"
ControlMode = Annotated[
    str | None,
    option(
        "As in Triton: none loads every model at start, poll also follows changes, explicit loads those of --load-model "
        "and those that clients load. By default none.",
        panel=_PANEL,
        metavar="none|poll|explicit",
    ),
]
LoadModel = Annotated[
    list[str] | None,
    option(
        "With --model-control-mode explicit: a model to load at start, or * for all; may be repeated.",
        panel=_PANEL,
        metavar="NAME",
    ),
]
PollSeconds = Annotated[
    float | None,
    option(
        "With --model-control-mode poll: seconds between two looks at the repositories; by default 15.",
        panel=_PANEL,
        metavar="SECONDS",
    ),
]
ModelConfigName = Annotated[
    str | None,
    option(
        "A model with configs/NAME.pbtxt in its folder is configured by that file instead of config.pbtxt.",
        panel=_PANEL,
        metavar="NAME",
    ),
]
_MODES = ("none", "poll", "explicit")
_POLL_S = 15.0
_POLL_S_MIN, _POLL_S_MAX = 0.1, 86_400.0


@dataclass(frozen=True, slots=True)
class Control:
    """How the models of repositories are loaded."""

    load: tuple[str, ...] | None = None
    """The models to load at start if clients load the others; None loads all."""
    poll_s: float | None = None
    """Seconds between two looks at the repositories."""
    config_name: str | None = None
    """The custom configuration of models that have one."""


def control_of(
    repositories: list[Path] | None,
    mode: str | None,
    load: list[str] | None,
    poll_s: float | None,
    config_name: str | None = None,
) -> Control | None:
    """What the flags say; None without a repository."""
    config_name = config_name_of(repositories, config_name)
    given = {"--model-control-mode": mode, "--load-model": load, "--repository-poll-secs": poll_s}
    if not repositories:
        for flag, value in given.items():
            if value:
                raise UsageError(f"{flag} needs --model-repository", next_step="flyball serve --model-repository DIR")
        return None
    if mode not in {None, *_MODES}:
        raise UsageError(f"--model-control-mode: '{mode}' is not one of {', '.join(_MODES)}")
    for flag, wanted in {"--load-model": "explicit", "--repository-poll-secs": "poll"}.items():
        if given[flag] and mode != wanted:
            raise UsageError(f"{flag} needs --model-control-mode {wanted}")
    if poll_s is not None and not _POLL_S_MIN <= poll_s <= _POLL_S_MAX:
        raise UsageError(f"--repository-poll-secs: {poll_s:g} is not between {_POLL_S_MIN:g} and {_POLL_S_MAX:g} seconds")
    if mode == "poll":
        return Control(poll_s=poll_s or _POLL_S, config_name=config_name)
    return Control(tuple(load or ()) if mode == "explicit" else None, config_name=config_name)


def config_name_of(repositories: list[Path] | None, name: str | None) -> str | None:
    """The value of --model-config-name, which becomes a part of a path."""
    if name is None:
        return None
    if not repositories:
        raise UsageError("--model-config-name needs --model-repository", next_step="flyball serve --model-repository DIR")
    if name in {"", ".", ".."} or "/" in name:
        raise UsageError(
            f"--model-config-name: '{name}' is not the name of a file in configs/",
            next_step="for configs/NAME.pbtxt give NAME, without folders and without .pbtxt",
        )
    return name


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
