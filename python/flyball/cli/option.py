"""Declares the options and arguments of commands: the help text first, then typer's settings."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def option(text: str, *flags: str, panel: str | None = None, **settings: Any) -> Any:
    """Declare an option; its flag is by default its parameter's name. `panel` is its heading in the help page."""
    return typer.Option(*flags, help=text, rich_help_panel=panel, **settings)


def argument(text: str, **settings: Any) -> Any:
    """Declare a positional argument."""
    return typer.Argument(help=text, **settings)


AsJson = Annotated[bool, option("Print JSON.", "--json")]
