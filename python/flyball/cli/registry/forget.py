"""`flyball registry forget`: removes a server that is gone for good from the status."""

from __future__ import annotations

from typing import Annotated

import typer

from flyball.cli.registry.options import WHERE, As, AsJson, Reason, Where, actor, opened


def forget(
    node: Annotated[str, typer.Argument(metavar="SERVER", help="The server's name in flyball status.", show_default=False)],
    reason: Reason = "",
    by: As = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Forget a server that has not reported for five minutes. The history of what it served stays.

    A server that comes back is listed again as soon as it reports.

        flyball registry forget web-3 --reason "taken down"
    """
    from flyball.cli.output import print_json
    from flyball.cli.registry.text import next_step, say

    with opened(registry) as found:
        receipt = found.forget(node, actor=actor(by), reason=reason)
    if json:
        print_json(receipt.model_dump(mode="json"))
        return
    say(f"{node} is removed from the status")
    next_step("flyball status")
