"""Verbs of the registry, one file each. `app.py` registers the common ones, this file the others.

Options shared by all verbs are in `options.py`.
"""

from __future__ import annotations

import typer

from flyball.cli.registry.alias import alias
from flyball.cli.registry.forget import forget
from flyball.cli.registry.gc import gc
from flyball.cli.registry.history import at, history
from flyball.cli.registry.init import init
from flyball.cli.registry.key import key
from flyball.cli.registry.list import listing
from flyball.cli.registry.show import show
from flyball.cli.registry.transfer import export, fetch, import_
from flyball.cli.registry.verify import rebuild, verify

__all__ = ["registry"]

registry = typer.Typer(
    name="registry",
    no_args_is_help=True,
    help=(
        "List versions of models and decisions, what served when, and who changed what and why.\n\n"
        "    flyball registry init\n\n"
        "    flyball registry list\n\n"
        "    flyball registry history fraud\n\n"
        "    flyball registry at 2026-03-01T12:00Z"
    ),
)
registry.command()(init)
registry.command("list")(listing)
registry.command()(show)
registry.command()(history)
registry.command()(at)
registry.command()(alias)
registry.command()(fetch)
registry.command(rich_help_panel="Other sites")(export)
registry.command("import", rich_help_panel="Other sites")(import_)
registry.add_typer(key, name="key", rich_help_panel="Admin API")
for _verb in (verify, rebuild, gc, forget):
    registry.command(rich_help_panel="Maintenance")(_verb)
