"""Builds the application from its verbs, and turns every `FlyballError` into one line and an exit code."""

from __future__ import annotations

import os
import sys
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.option import option
from flyball.cli.output import report
from flyball.cli.plain_words import system_error
from flyball.cli.printable import printing
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Callable

# Click's base of all usage errors; typer exports only this one of its children, from click or from its own copy of it.
_ClickError: type[Exception] = typer.BadParameter.__mro__[2]

_INTERRUPTED = 130  # the exit code of shells after Ctrl-C
_TRACEBACK = "FLYBALL_TRACEBACK"

# Verbs by their heading in the help page (None: the default one), in order.
_PANELS: dict[str | None, str] = {
    None: "serve inspect predict snapshot doctor demo fit convert optimize explain-latency bench caller",
    "Decisions": "check plan decide score features decisions",
    "Registry": "register sign approve reject promote rollback revoke retire status admin control registry import key trust",
}
_VERBS = {verb: panel for panel, verbs in _PANELS.items() for verb in verbs.split()}
_IN_REGISTRY = ("register", "sign", "approve", "promote", "rollback", "revoke", "status")
# Module and function of the verbs that are not a function of the same name in a module of the same name.
_TARGETS = {verb: (f"registry.{verb}", verb) for verb in _IN_REGISTRY} | {
    "reject": ("registry.approve", "reject"),
    "retire": ("registry.revoke", "retire"),
    "import": ("imports", "imports"),
    "explain-latency": ("explain_latency", "explain_latency"),
}


def application(verb: str | None = None) -> typer.Typer:
    """Build the application; with `verb`, only that one, because importing all takes longer than most verbs run."""
    app = typer.Typer(
        name="flyball",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_top)
    for name, panel in _VERBS.items():
        if verb is None or verb == name:
            module, attribute = _TARGETS.get(name, (name, name))
            command = getattr(import_module(f"flyball.cli.{module}"), attribute)
            if isinstance(command, typer.Typer):
                _escape_all(command)
                app.add_typer(command, name=name, rich_help_panel=panel)
            else:
                app.command(name, rich_help_panel=panel)(_escaping(command))
    return app


def _escape_all(group: typer.Typer) -> None:
    for command in group.registered_commands:
        if command.callback is not None:
            command.callback = _escaping(command.callback)
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _escape_all(inner.typer_instance)


def _escaping(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Escape the verb's output: it may contain text from a caller, a file or another server."""
    if getattr(verb, "escapes", False):
        return verb  # groups are modules' own, and the application may be built again

    @wraps(verb)
    def escaped(*arguments: Any, **options: Any) -> Any:
        out, err = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = printing(out), printing(err)
        try:
            return verb(*arguments, **options)
        finally:
            sys.stdout, sys.stderr = out, err

    escaped.escapes = True  # type: ignore[attr-defined]
    return escaped


def _show_version(wanted: bool) -> None:
    if wanted:
        import flyball

        typer.echo(f"flyball {flyball.__version__}")
        raise typer.Exit


def _top(
    version: Annotated[
        bool, option("Show the version and exit.", "--version", "-V", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Serve ONNX models as governed decisions."""


def main() -> None:
    """The console script."""
    verb = next((word for word in sys.argv[1:2] if word in _VERBS or word in ("--version", "-V")), None)
    try:
        sys.exit(application(verb)(prog_name="flyball", standalone_mode=False))
    except BrokenPipeError:
        # The reader, say `head`, has closed the pipe; without this Python fails again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except Exception as error:
        if os.environ.get(_TRACEBACK):
            raise
        converted = _as_flyball_error(error)
        if converted.message:  # click's is empty after it showed the help, for `flyball` alone
            report(converted, as_json="--json" in sys.argv)
        sys.exit(converted.exit_code)


def _as_flyball_error(error: Exception) -> FlyballError:
    """Convert click's usage errors, and errors that no verb handled."""
    if isinstance(error, FlyballError):
        return error
    if isinstance(error, _ClickError):
        from flyball.cli.usage_errors import usage_error

        return usage_error(error, sys.argv[1:])
    if isinstance(error, OSError):
        return system_error(error)
    if isinstance(error, typer.Abort):
        return FlyballError("aborted: the question was not answered")
    return FlyballError(
        f"unexpected {type(error).__name__}: {' '.join(str(error).split())[:200]}",
        next_step=f"this is a bug: report it with its traceback:  {_TRACEBACK}=1 flyball …",
    )
