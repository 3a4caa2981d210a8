"""`flyball registry gc`: artifacts that no event needs."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from flyball.cli.registry.options import WHERE, AsJson, Home, home


def gc(
    remove: Annotated[bool, typer.Option("--remove", help="Remove them; without it they are only shown.")] = False,
    grace_hours: Annotated[
        int, typer.Option("--grace-hours", min=1, max=8760, help="Leave alone what is younger: it may be on its way in.")
    ] = 24,
    registry: Home = WHERE,
    json: AsJson = False,
) -> None:
    """Find artifacts that no event needs, such as files of a registration that was broken off.

    What any event names is kept, whatever became of its version: history stays provable.
    """
    from flyball.cli.output import counted, print_json
    from flyball.cli.registry.text import next_step, say, size

    with home(registry) as found:
        sweep = found.sweep(grace=timedelta(hours=grace_hours), remove=remove)
    blobs = sweep.removed if remove else sweep.removable
    if json:
        told = {"needed": sweep.needed, "young": sweep.young}
        names = {"removable": sweep.removable, "removed": sweep.removed}
        print_json({**told, **{key: [blob.digest for blob in value] for key, value in names.items()}})
        return
    word = "removed" if remove else "could be removed"
    say(f"{counted(len(blobs), 'artifact')} {word}, {size(sum(blob.size for blob in blobs))}")
    say(f"  {sweep.needed:,} are needed, {sweep.young:,} are too young to judge")
    if not remove and blobs:
        next_step("flyball registry gc --remove")
