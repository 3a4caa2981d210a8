"""`flyball registry history` and `flyball registry at`: who did what and why, and what served at a moment."""

from __future__ import annotations

import json as json_
import sys
from datetime import UTC, datetime
from typing import Annotated

import typer

from flyball.cli.registry.options import WHERE, AsJson, Where, opened
from flyball.errors import UsageError

_After = Annotated[int, typer.Option("--after", min=0, metavar="N", help="Events behind this one: the next page.")]
_Most = Annotated[int, typer.Option("--most", "-n", min=1, max=1000, help="At most so many.")]


def history(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One name; without it the whole log.", show_default=False)
    ] = None,
    after: _After = 0,
    most: _Most = 1000,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Tell what was done to a name, oldest first: who, when, what and why. Refused acts are there, too.

    With --json a line is an event, with the hashes that chain it to the one before.

        flyball registry history fraud
    """
    from flyball.cli.output import console
    from flyball.cli.registry.text import events, next_step, say

    with opened(registry) as found:
        shown = found.history(name, after=after, limit=most)
    if json:
        sys.stdout.writelines(json_.dumps(one.model_dump(mode="json")) + "\n" for one in shown)
        return
    if not shown:
        say("nothing happened" + (" since" if after else ""))
        return
    console().print(events(shown, names=name is None))
    if len(shown) == most:
        next_step(f"flyball registry history {f'{name} ' if name else ''}--after {shown[-1].sequence}", word="More")
    else:
        next_step("flyball registry at TIME", "(what served then)")


def at(
    time: Annotated[str, typer.Argument(metavar="[TIME]", help="2026-03-01T12:00Z, or 2h and 30d for ago.")] = "now",
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="One name only.", show_default=False)] = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Tell what served at a moment: what was placed where, by whom and why, who had approved it, and what servers served.

    Without a time it is now.

        flyball registry at 2026-03-01T12:00Z fraud
    """
    from flyball.cli.output import console, print_json
    from flyball.cli.registry.text import moment, next_step, placements, say, unlike

    when = moment_of(time)
    with opened(registry) as found:
        shown = found.at(when, name)
    if json:
        print_json(shown.model_dump(mode="json"))
        return
    say(f"{moment(shown.at)}   after event {shown.head.sequence:,}")
    if shown.placements:
        console().print(placements(shown.placements))
    else:
        say("nothing was placed")
    for line in unlike(shown.placements, shown.nodes, now=False):
        say(line)
    next_step(f"flyball registry history {name or 'NAME'}", "(how it came to that)")


def moment_of(told: str) -> datetime | None:
    """A time as people write it, none for now; without a zone it is UTC."""
    from flyball.decision_log.read.filters import instant

    if told in ("now", "0s"):
        return None
    try:
        found = datetime.fromisoformat(told)
    except ValueError:
        try:
            return datetime.fromtimestamp(instant(told) / 1e9, UTC)
        except (UsageError, OverflowError) as error:
            raise UsageError(f"{told!r} is no time", next_step="write 2026-03-01T12:00Z, or 2h and 30d for ago") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
