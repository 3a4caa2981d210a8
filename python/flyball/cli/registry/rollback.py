"""`flyball rollback`: one event, and servers answer with the version before again."""

from __future__ import annotations

from typing import Annotated

import typer

from flyball.cli.registry.options import WHERE, As, AsJson, Name, Reason, Where, actor, number_of, opened
from flyball.cli.registry.wait import Wait, answers, heard_of, tell


def rollback(
    name: Name,
    environment: Annotated[
        str, typer.Option("--environment", "-e", metavar="NAME", help="Where to go back.")
    ] = "production",
    to: Annotated[
        str | None, typer.Option("--to", metavar="VERSION", help="An earlier one than the one before.", show_default=False)
    ] = None,
    wait: Wait = 10,
    reason: Reason = "",
    by: As = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Put back what an environment served before. No gate, no approval: that version passed them once.

    Versions that servers would refuse now, because their release has ended, for one, are passed over and told.
    A candidate is taken away first. Servers keep the version before warm, so that it answers within a second.

        flyball rollback fraud
    """
    from flyball.cli.output import print_json
    from flyball.cli.registry.text import moment, next_step, say

    target = None if to is None else number_of(to)
    with opened(registry) as found:
        servers = heard_of(found.status(), environment) if wait else set()
        receipt = found.rollback(name, environment, actor=actor(by), reason=reason, to=target)
        said = answers(found, receipt, environment, servers, wait)
    if json:
        print_json({**receipt.model_dump(mode="json"), "servers": [one.model_dump(mode="json") for one in said]})
        return
    left = receipt.event.body.get("from")
    say(f"{name}@{receipt.version} → {environment}   back from {left}   {moment(receipt.event.at)}")
    for one in receipt.event.body.get("passed_over", ()):
        say(f"passed over {name}@{one['version']}: {one['why']}", style="yellow")
    tell(receipt, said, servers, environment)
    next_step(f"flyball status {name}", "(what servers say of it)")
