"""`option`: a command line option without a shown default, which its help text states."""

from __future__ import annotations

from typing import Any

import typer


def option(text: str, *flag: str, metavar: str | None = None, panel: str | None = None) -> Any:
    """An option with its help text; `panel` is its heading in the help page."""
    return typer.Option(*flag, metavar=metavar, help=text, show_default=False, rich_help_panel=panel)
