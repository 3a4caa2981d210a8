"""`flyball promote`: places a version in an environment after all gates passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from flyball.cli.registry.options import WHERE, As, AsJson, MaybeVersion, Reason, Ref, Where, actor, opened, ref_of
from flyball.cli.registry.wait import Wait, live_servers, report, reports_of
from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.registry.views import ReceiptView

_To = Annotated[
    str, typer.Option("--to", metavar="ENVIRONMENT", help="The environment: dev, staging, production …", show_default=False)
]
_Share = Annotated[
    float | None,
    typer.Option("--share", min=0, max=1, help="As a candidate with this share of requests, 0 to 1.", show_default=False),
]
_Shadow = Annotated[
    bool, typer.Option("--shadow", help="As a shadow: gets a copy of each request, its answers are only recorded.")
]
_BreakGlass = Annotated[
    bool, typer.Option("--break-glass", help="Skip the gates in an emergency; needs --reason and is marked in the history.")
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
    """Place a version in an environment: servers there load it, and keep the previous one warm.

    Gates run first: signatures and approvals, loading and probing, the latency contract, validation. Their results are
    stored with the event. Versions pass the environments in order.

        flyball promote fraud@7 --to staging

        flyball promote fraud@8 --to production --share 0.05
    """
    from flyball.cli.output import console, print_json
    from flyball.cli.registry.text import next_step, say
    from flyball.registry.acts.interface import Candidate

    if share is not None and shadow:
        raise UsageError("--share and --shadow exclude each other", next_step="give one of them")
    candidate = Candidate(share or 0.0, shadow) if share is not None or shadow else None
    ref = ref_of(name, version)
    if break_glass:
        console(stderr=True).print(f"BREAK GLASS: {ref} to {to} without gates: {reason}", style="bold red", markup=False)
    with opened(registry) as found:
        servers = live_servers(found.status(), to) if wait else set()
        receipt = found.promote(ref, to, actor=actor(by), reason=reason, candidate=candidate, break_glass=break_glass)
        reports = reports_of(found, receipt, to, servers, wait)
    if json:
        print_json({**receipt.model_dump(mode="json"), "servers": [one.model_dump(mode="json") for one in reports]})
        return
    _print(receipt, to, share, shadow)
    report(receipt, reports, servers, to)
    name = receipt.event.name
    next_step(f"flyball status {name}", "(what servers report)")
    if receipt.previous is not None or candidate is not None:
        say(f"Undo:  flyball rollback {name} --environment {to}", style="dim")


def _print(receipt: ReceiptView, to: str, share: float | None, shadow: bool) -> None:
    from flyball.cli.registry.text import gates, moment, say

    placed = f"{receipt.event.name}@{receipt.version}"
    how = f" with {share:.0%} of the requests" if share is not None else " as a shadow" if shadow else ""
    say(f"{placed} → {to}{how}   {moment(receipt.event.at)}")
    gates(receipt.gates)
    if receipt.previous is not None:
        say(f"previous: {receipt.previous}")
