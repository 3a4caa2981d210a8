"""`flyball promote`: a version is placed in an environment, once every gate passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.registry.options import WHERE, As, AsJson, MaybeVersion, Reason, Ref, Where, actor, opened, ref_of
from flyball.cli.registry.wait import Wait, answers, heard_of, tell
from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.registry.views import ReceiptView

_To = Annotated[
    str, typer.Option("--to", metavar="ENVIRONMENT", help="Where: dev, staging, production …", show_default=False)
]
_Share = Annotated[
    float | None,
    typer.Option("--share", min=0, max=1, help="As a candidate: this share of the requests, 0 to 1.", show_default=False),
]
_Shadow = Annotated[
    bool, typer.Option("--shadow", help="As a candidate: a copy of each request, and nobody gets its answers.")
]
_BreakGlass = Annotated[
    bool, typer.Option("--break-glass", help="Pass the gates by, in an emergency; needs --reason and is told loudly.")
]


def promote(
    name: Ref,
    to: _To,
    version: MaybeVersion = None,
    share: _Share = None,
    shadow: _Shadow = False,
    break_glass: _BreakGlass = False,
    wait: Wait = 10,
    reason: Reason = "",
    by: As = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Place a version in an environment: servers there load it, and keep the one before warm.

    Gates run first: signatures and approvals, loading and probing, the latency contract, validation. What they found is kept
    with the event. Environments are passed in their order.

        flyball promote fraud@7 --to staging

        flyball promote fraud@8 --to production --share 0.05
    """
    from flyball.cli.output import console, print_json
    from flyball.cli.registry.text import next_step, say
    from flyball.registry.acts.interface import Candidate

    if share is not None and shadow:
        raise UsageError("a candidate has a share or is in the shadow", next_step="give either --share or --shadow")
    candidate = Candidate(share or 0.0, shadow) if share is not None or shadow else None
    ref = ref_of(name, version)
    if break_glass:
        console(stderr=True).print(f"BREAKING THE GLASS: {ref} to {to}: {reason}", style="bold red", markup=False)
    with opened(registry) as found:
        servers = heard_of(found.status(), to) if wait else set()
        receipt = found.promote(ref, to, actor=actor(by), reason=reason, candidate=candidate, break_glass=break_glass)
        said = answers(found, receipt, to, servers, wait)
    if json:
        print_json({**receipt.model_dump(mode="json"), "servers": [one.model_dump(mode="json") for one in said]})
        return
    _tell(receipt, to, share, shadow)
    tell(receipt, said, servers, to)
    name = receipt.event.name
    next_step(f"flyball status {name}", "(what servers say of it)")
    if receipt.previous is not None or candidate is not None:
        say(f"Undo:  flyball rollback {name} --environment {to}", style="dim")


def _tell(receipt: ReceiptView, to: str, share: float | None, shadow: bool) -> None:
    from flyball.cli.registry.text import gates, moment, say

    placed = f"{receipt.event.name}@{receipt.version}"
    how = f" with {share:.0%} of the requests" if share is not None else " in the shadow" if shadow else ""
    say(f"{placed} → {to}{how}   {moment(receipt.event.at)}")
    gates(receipt.gates)
    if receipt.previous is not None:
        say(f"previous: {receipt.previous}")
