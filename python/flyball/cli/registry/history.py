"""`flyball registry history` and `flyball registry at`: all changes, and what served at a given time."""

from __future__ import annotations

import json as json_
import sys
from datetime import UTC, datetime
from typing import Annotated

from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, printed_as_json
from flyball.cli.registry.options import WHERE, Where, opened
from flyball.cli.registry.text import deviations, events, moment, next_step, placements, say
from flyball.errors import UsageError


def history(
    name: Annotated[str | None, argument("Only this name; by default all.", metavar="[NAME]")] = None,
    after: Annotated[int, option("Only events after this one: the next page.", "--after", min=0, metavar="N")] = 0,
    limit: Annotated[int, option("Maximum number of events.", "--limit", "-n", min=1, max=1000)] = 1000,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Show the changes to a name, oldest first: who, when, what and why. Includes refused acts.

    With --json each line is an event, with the hashes that chain it to the previous one.

        flyball registry history fraud
    """
    with opened(registry) as found:
        shown = found.history(name, after=after, limit=limit)
    if json:
        sys.stdout.writelines(json_.dumps(one.model_dump(mode="json")) + "\n" for one in shown)
        return
    if not shown:
        say("no events" + (f" after {after}" if after else ""))
        return
    console().print(events(shown, names=name is None))
    if len(shown) == limit:
        next_step(f"flyball registry history {f'{name} ' if name else ''}--after {shown[-1].sequence}", word="More")
    else:
        next_step("flyball registry at TIME", "(what served then)")


def at(
    time: Annotated[str, argument("2026-03-01T12:00Z, or 2h or 30d ago. Now by default.", metavar="[TIME]")] = "now",
    name: Annotated[str | None, argument("Only this name.", metavar="[NAME]")] = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Show what served at a given time: placements, by whom and why, their approvals, and what servers reported.

    flyball registry at 2026-03-01T12:00Z fraud
    """
    when = moment_of(time)
    with opened(registry) as found:
        shown = found.at(when, name)
    if printed_as_json(shown, json):
        return
    say(f"{moment(shown.at)}   after event {shown.head.sequence:,}")
    if shown.placements:
        console().print(placements(shown.placements))
    else:
        say("no placements")
    for line in deviations(shown.placements, shown.nodes, now=False):
        say(line)
    next_step(f"flyball registry history {name or 'NAME'}", "(the changes before)")


def moment_of(text: str) -> datetime | None:
    """Parse a time, None for now; UTC without a zone."""
    from flyball.decision_log.read.filters import instant

    if text in ("now", "0s"):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        try:
            return datetime.fromtimestamp(instant(text) / 1e9, UTC)
        except (UsageError, OverflowError) as error:
            raise UsageError(f"{text!r} is not a time", next_step="write 2026-03-01T12:00Z, or 2h or 30d for ago") from error
    return found if found.tzinfo else found.replace(tzinfo=UTC)
