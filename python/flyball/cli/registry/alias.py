"""`flyball registry alias`: sets or removes an alias of a version."""

from __future__ import annotations

from typing import Annotated

from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import printed_as_json
from flyball.cli.registry.options import WHERE, By, Name, Reason, Where, actor, number_of, opened
from flyball.cli.registry.text import next_step, say
from flyball.errors import UsageError


def alias(
    name: Name,
    called: Annotated[str, argument("The alias, such as champion.", metavar="ALIAS")],
    version: Annotated[str | None, argument("The version it points to: 7 or v7.", metavar="[VERSION]")] = None,
    remove: Annotated[bool, option("Remove the alias.", "--remove")] = False,
    reason: Reason = "",
    by: By = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Point an alias to a version, usable everywhere as NAME@ALIAS. It does not change what is served.

    flyball registry alias fraud champion 7
    """
    if (version is None) != remove:
        raise UsageError("give either VERSION or --remove", next_step=f"flyball registry alias {name} {called} 7")
    target = None if version is None else number_of(version)
    with opened(registry) as found:
        receipt = found.alias(name, called, target, actor=actor(by), reason=reason)
    if printed_as_json(receipt, json):
        return
    before = f", before {receipt.previous}" if receipt.previous is not None else ""
    say(f"{name}@{called} → {target or 'nothing'}{before}")
    next_step(f"flyball registry list {name}")
