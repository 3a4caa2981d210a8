"""`flyball registry forget`: a server that is gone for good is shown no longer."""

from __future__ import annotations

from typing import Annotated

import typer

from flyball.cli.registry.options import WHERE, As, AsJson, Reason, Where, actor, opened


def forget(
    node: Annotated[str, typer.Argument(metavar="SERVER", help="As flyball status shows it.", show_default=False)],
    reason: Reason = "",
    by: As = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Forget a server that was not heard of for five minutes. What it served while it was there stays in the history.

    One that comes back is known again as soon as it reports.

        flyball registry forget web-3 --reason "taken down"
    """
    from flyball.cli.output import print_json
    from flyball.cli.registry.text import next_step, say

    with opened(registry) as found:
        receipt = found.forget(node, actor=actor(by), reason=reason)
    if json:
        print_json(receipt.model_dump(mode="json"))
        return
    say(f"{node} is forgotten")
    next_step("flyball status")
