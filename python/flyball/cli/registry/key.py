"""`flyball registry key`: who may call the admin API, and what they may do there. Works only where the registry is.

A key is printed once, on stdout and alone, so that it can go straight to where secrets are kept.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from flyball.cli.registry.options import WHERE, As, AsJson, Home, Reason, actor, home

key = typer.Typer(
    name="key",
    no_args_is_help=True,
    help=(
        "Say who may call the admin API: readers ask, deployers register, sign and promote, approvers approve, reject and "
        "revoke, auditors read and verify the whole log.\n\n    flyball registry key add ada --role deployer"
    ),
)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose key; the history shows it.", show_default=False)]


@key.command()
def add(
    name: _Name,
    role: Annotated[
        list[str],
        typer.Option(
            "--role", metavar="ROLE", help="reader, deployer, approver or auditor; may be repeated.", show_default=False
        ),
    ],
    reason: Reason = "",
    by: As = None,
    registry: Home = WHERE,
    json: AsJson = False,
) -> None:
    """Make a key and print it, this once; the registry keeps its SHA-256."""
    from flyball.cli.output import print_json

    with home(registry) as found:
        made = found.add_key(name, role, actor=actor(by), reason=reason)
    if json:
        print_json({"name": name, "roles": sorted(set(role)), "key": made})
        return
    sys.stdout.write(made + "\n")
    sys.stdout.flush()
    sys.stderr.write(f"the key of {name} ({', '.join(sorted(set(role)))}); it is shown this once\n")
    sys.stderr.write("Next:  export FLYBALL_REGISTRY_KEY=…, and --registry https://HOST:PORT with every verb\n")


@key.command("list")
def show(registry: Home = WHERE, json: AsJson = False) -> None:
    """Show whose keys are valid. Keys are not kept, only their hashes."""
    from flyball.cli.output import console, print_json
    from flyball.cli.registry.text import moment, next_step, row, say, table

    with home(registry) as home_registry:
        keys = home_registry.keys()
    if json:
        told = [{"name": one.name, "roles": sorted(one.roles), "added_at": one.added_at.isoformat()} for one in keys]
        print_json([{**entry, "added_by": one.added_by} for entry, one in zip(told, keys, strict=True)])
        return
    if not keys:
        say("there are no keys, so nobody may call the admin API")
        next_step("flyball registry key add NAME --role deployer")
        return
    found = table("key of", "roles", "since", "added by")
    for one in keys:
        row(found, one.name, ", ".join(sorted(one.roles)), moment(one.added_at), one.added_by)
    console().print(found)


@key.command()
def remove(name: _Name, reason: Reason = "", by: As = None, registry: Home = WHERE, json: AsJson = False) -> None:
    """Take a key back; the next request with it is refused."""
    from flyball.cli.output import print_json
    from flyball.cli.registry.text import say

    with home(registry) as found:
        found.remove_key(name, actor=actor(by), reason=reason)
    if json:
        print_json({"name": name, "removed": True})
        return
    say(f"the key of {name} is taken back")
