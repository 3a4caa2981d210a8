"""`flyball status`: placements, what servers report, and versions that wait for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from rich.text import Text

from flyball.cli.option import AsJson, argument
from flyball.cli.output import console, printed_as_json
from flyball.cli.registry.options import WHERE, Where, opened
from flyball.cli.registry.text import deviations, moment, next_step, placements, row, say, short, state, table, waits_for

if TYPE_CHECKING:
    from flyball.registry.views import StatusView

_STALE_S = 60


def status(
    name: Annotated[str | None, argument("Only this name.", metavar="[NAME]")] = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Show placements, what expires soon, what each server reports, and versions that wait for a signature or approval.

    A line shows each difference between what is placed and what a server serves. A server that has not reported for a
    minute is shown as silent, after five as gone.

        flyball status fraud
    """
    with opened(registry) as found:
        shown = found.status(name)
        if name is not None and not shown.placements and not shown.waiting:
            found.versions(name, limit=1)  # raises for an unknown name
    if printed_as_json(shown, json):
        return
    _print(shown, name)


def _print(shown: StatusView, name: str | None) -> None:
    out = console()
    if shown.placements:
        out.print(placements(shown.placements))
    else:
        say(f"no placements{f' of {name}' if name else ''} in {' → '.join(shown.environments)}")
    if shown.endings:
        out.print()
        for one in shown.endings:
            say(f"! {one.words}", style="bold red" if one.ended else "bold yellow")
    if shown.nodes:
        out.print()
        _nodes(shown)
    for line in deviations(shown.placements, shown.nodes, now=True):
        say(line)
    if gone := sorted({node.node for node in shown.nodes if node.gone_since}):
        next_step(f"flyball registry forget {gone[0]}", "(if it will not come back)")
    for warning in shown.warnings:
        say(warning, style="bold yellow")
    if shown.waiting:
        out.print()
        for version in shown.waiting:
            command, why = waits_for(version)
            say(f"{version.name}@{version.number} waits:  {command}   {why}")
    if not shown.waiting and not shown.placements:
        next_step("flyball register NAME MODEL.onnx")


def _nodes(shown: StatusView) -> None:
    found = table("server", "environment", "name", "placed", "state", "serves", "since", "last report", "why")
    now = datetime.now(UTC)
    for one in shown.nodes:
        shown_state = state(one.state)
        if one.gone_since or (now - one.seen_at).total_seconds() > _STALE_S:
            shown_state = Text("gone" if one.gone_since else "silent", style="bold yellow")
        serving, since = Text("nothing", style="bold yellow"), ""
        if one.serving is not None:
            serving, since = Text(str(one.serving.version or short(one.serving.digest))), moment(one.serving.since)
        where = (one.node, one.environment, one.deployment, one.version)
        row(found, *where, shown_state, serving, since, moment(one.seen_at), one.reason)
    console().print(found)
