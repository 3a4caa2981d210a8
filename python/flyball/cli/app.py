"""Joins the verbs to one application, and turns every `FlyballError` into one clear line and its exit code."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from flyball.cli.bench import bench
from flyball.cli.caller import caller
from flyball.cli.check import check
from flyball.cli.decide import decide
from flyball.cli.decisions import decisions
from flyball.cli.demo import demo
from flyball.cli.doctor import doctor
from flyball.cli.features import features
from flyball.cli.fit import fit
from flyball.cli.inspect import inspect
from flyball.cli.output import report
from flyball.cli.plan import plan
from flyball.cli.predict import predict
from flyball.cli.score import score
from flyball.cli.serve import serve
from flyball.cli.snapshot import snapshot
from flyball.errors import FlyballError, UsageError

# Click's base of all usage errors; typer exports only this one of its children, from click or from its own copy of it.
_ClickError: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="flyball",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _verb in (serve, inspect, predict, snapshot, doctor, demo, fit):
    app.command()(_verb)
for _decision_verb in (check, plan, decide, score):
    app.command(rich_help_panel="Decisions")(_decision_verb)
app.add_typer(bench, name="bench")
app.add_typer(caller, name="caller")
app.add_typer(features, name="features", rich_help_panel="Decisions")
app.add_typer(decisions, name="decisions", rich_help_panel="Decisions")


def _show_version(wanted: bool) -> None:
    if wanted:
        import flyball

        typer.echo(f"flyball {flyball.__version__}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and end.")
    ] = False,
) -> None:
    """Serve ONNX models as governed decisions."""


def main() -> None:
    """The console script."""
    try:
        sys.exit(app(standalone_mode=False))
    except BrokenPipeError:
        # The reader, say `head`, has what it wanted; without this Python complains once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (FlyballError, _ClickError, OSError) as error:
        told = _told(error)
        if told.message:  # click has none where it showed the help, for `flyball` alone
            report(told, as_json="--json" in sys.argv)
        sys.exit(told.exit_code)


def _told(error: Any) -> FlyballError:
    """The error in our own form: what click says of wrong usage, and what the system refuses where no verb foresaw it."""
    if isinstance(error, FlyballError):
        return error
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return FlyballError(f"{where}{error.strerror or error}", code="system")
    command = error.ctx.command_path if getattr(error, "ctx", None) else "flyball"
    message = " ".join(error.format_message().split()).rstrip(".")
    return UsageError(message[:1].lower() + message[1:], next_step=f"see how it is used:  {command} --help")
