"""`flyball registry key`: API keys of the admin API and their roles. Works only on the registry's machine.

A key is printed once, alone on stdout, so that it can be piped into a secret store.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, printed_as_json
from flyball.cli.registry.options import WHERE, By, Home, Reason, actor, home
from flyball.cli.registry.text import moment, next_step, row, say, table

key = typer.Typer(
    name="key",
    no_args_is_help=True,
    help=(
        "Manage API keys of the admin API. Readers read, deployers register, sign and promote, approvers approve, reject "
        "and revoke, auditors read and verify the whole log.\n\n    flyball registry key add ada --role deployer"
    ),
)

_Name = Annotated[str, argument("The key's owner, as in the history.", metavar="NAME")]


@key.command()
def add(
    name: _Name,
    role: Annotated[list[str], option("reader, deployer, approver or auditor; may be repeated.", "--role", metavar="ROLE")],
    reason: Reason = "",
    by: By = None,
    registry: Home = WHERE,
    json: AsJson = False,
) -> None:
    """Create a key and print it once; the registry stores only its SHA-256.

    flyball registry key add ci --role author
    """
    with home(registry) as found:
        made = found.add_key(name, role, actor=actor(by), reason=reason)
    if printed_as_json({"name": name, "roles": sorted(set(role)), "key": made}, json):
        return
    sys.stdout.write(made + "\n")
    sys.stdout.flush()
    sys.stderr.write(f"the key of {name} ({', '.join(sorted(set(role)))}); it is not shown again\n")
    sys.stderr.write("Next:  export FLYBALL_REGISTRY_KEY=…, and use --registry https://HOST:PORT\n")


@key.command("list")
def show(registry: Home = WHERE, json: AsJson = False) -> None:
    """List the valid keys: owners and roles. The registry stores only hashes of keys.

    flyball registry key list
    """
    with home(registry) as home_registry:
        keys = home_registry.keys()
    added = [{"added_at": one.added_at.isoformat(), "added_by": one.added_by} for one in keys]
    named = [{"name": one.name, "roles": sorted(one.roles)} for one in keys]
    if printed_as_json([name | how for name, how in zip(named, added, strict=True)], json):
        return
    if not keys:
        say("no keys: no client can call the admin API yet")
        next_step("flyball registry key add NAME --role deployer")
        return
    found = table("owner", "roles", "since", "added by")
    for one in keys:
        row(found, one.name, ", ".join(sorted(one.roles)), moment(one.added_at), one.added_by)
    console().print(found)


@key.command()
def remove(name: _Name, reason: Reason = "", by: By = None, registry: Home = WHERE, json: AsJson = False) -> None:
    """Revoke a key; the next request with it is refused.

    flyball registry key remove ci --reason 'the server was replaced'
    """
    with home(registry) as found:
        found.remove_key(name, actor=actor(by), reason=reason)
    if printed_as_json({"name": name, "removed": True}, json):
        return
    say(f"the key of {name} is revoked")
