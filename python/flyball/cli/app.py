"""Joins the verbs to one application, and turns every `FlyballError` into one clear line and its exit code."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from flyball.cli.demo import demo
from flyball.cli.doctor import doctor
from flyball.cli.inspect import inspect
from flyball.cli.output import report
from flyball.cli.predict import predict
from flyball.cli.serve import serve
from flyball.cli.snapshot import snapshot
from flyball.errors import FlyballError

app = typer.Typer(
    name="flyball",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _verb in (serve, inspect, predict, snapshot, doctor, demo):
    app.command()(_verb)


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
        app()
    except FlyballError as error:
        report(error, as_json="--json" in sys.argv)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader, say `head`, has what it wanted; without this Python complains once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
