"""`flyball registry gc`: finds and removes unreferenced artifacts."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from flyball.cli.option import AsJson, option
from flyball.cli.output import counted, print_json
from flyball.cli.registry.options import WHERE, Home, home
from flyball.cli.registry.text import next_step, say, size


def gc(
    remove: Annotated[bool, option("Remove them; by default they are only listed.", "--remove")] = False,
    grace_hours: Annotated[
        int, option("Keep younger artifacts: a registration may be in progress.", "--grace-hours", min=1, max=8760)
    ] = 24,
    registry: Home = WHERE,
    json: AsJson = False,
) -> None:
    """Find artifacts that no event references, such as files of an interrupted registration.

    Artifacts that any event references are kept, even of retired versions, so that the history stays verifiable.

        flyball registry gc --remove
    """
    with home(registry) as found:
        sweep = found.sweep(grace=timedelta(hours=grace_hours), remove=remove)
    blobs = sweep.removed if remove else sweep.removable
    if json:
        counts = {"needed": sweep.needed, "young": sweep.young}
        lists = {"removable": sweep.removable, "removed": sweep.removed}
        print_json({**counts, **{key: [blob.digest for blob in value] for key, value in lists.items()}})
        return
    word = "removed" if remove else "could be removed"
    say(f"{counted(len(blobs), 'artifact')} {word}, {size(sum(blob.size for blob in blobs))}")
    say(f"  {sweep.needed:,} are referenced, {sweep.young:,} are too young to remove")
    if not remove and blobs:
        next_step("flyball registry gc --remove")
