"""`flyball registry forget`: removes a server that is gone for good from the status."""

from __future__ import annotations

from typing import Annotated

from flyball.cli.option import AsJson, argument
from flyball.cli.output import printed_as_json
from flyball.cli.registry.options import WHERE, By, Reason, Where, actor, opened
from flyball.cli.registry.text import next_step, say


def forget(
    node: Annotated[str, argument("The server's name in flyball status.", metavar="SERVER")],
    reason: Reason = "",
    by: By = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Forget a server that has not reported for five minutes. The history of what it served stays.

    A server that comes back is listed again as soon as it reports.

        flyball registry forget web-3 --reason "taken down"
    """
    with opened(registry) as found:
        receipt = found.forget(node, actor=actor(by), reason=reason)
    if printed_as_json(receipt, json):
        return
    say(f"{node} is removed from the status")
    next_step("flyball status")
