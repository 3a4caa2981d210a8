"""`flyball promote`: places a version in an environment after all gates passed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from flyball.cli.option import AsJson, option
from flyball.cli.output import console, printed_as_json
from flyball.cli.registry.options import WHERE, By, MaybeVersion, Reason, Ref, Where, actor, opened, ref_of
from flyball.cli.registry.text import gates, moment, next_step, say
from flyball.cli.registry.wait import Wait, live_servers, report, reports_of
from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.registry.views import ReceiptView

_Share = Annotated[float | None, option("As a candidate with this share of requests, 0 to 1.", "--share", min=0, max=1)]
_Shadow = Annotated[bool, option("As a shadow: gets a copy of each request, its answers are only recorded.", "--shadow")]


def promote(
    name: Ref,
    environment: Annotated[
        str, option("The environment: dev, staging, production …", "--environment", "-e", metavar="NAME")
    ],
    version: MaybeVersion = None,
    share: _Share = None,
    shadow: _Shadow = False,
    break_glass: Annotated[
        bool, option("Skip the gates in an emergency; needs --reason and is marked in the history.", "--break-glass")
    ] = False,
    wait: Wait = 10,
    reason: Reason = "",
    by: By = None,
    registry: Where = WHERE,
    json: AsJson = False,
) -> None:
    """Place a version in an environment: servers there load it, and keep the previous one warm.

    Gates run first: signatures and approvals, loading and probing, the latency contract, validation. Their results are
    stored with the event. Versions pass the environments in order.

        flyball promote fraud@7 --environment staging

        flyball promote fraud@8 --environment production --share 0.05
    """
    from flyball.registry.acts.interface import Candidate

    if share is not None and shadow:
        raise UsageError("--share and --shadow exclude each other", next_step="give one of them")
    candidate = Candidate(share or 0.0, shadow) if share is not None or shadow else None
    ref = ref_of(name, version)
    if break_glass:
        console(stderr=True).print(
            f"BREAK GLASS: {ref} to {environment} without gates: {reason}", style="bold red", markup=False
        )
    with opened(registry) as found:
        servers = live_servers(found.status(), environment) if wait else set()
        receipt = found.promote(
            ref, environment, actor=actor(by), reason=reason, candidate=candidate, break_glass=break_glass
        )
        reports = reports_of(found, receipt, environment, servers, wait)
    if printed_as_json({**receipt.model_dump(mode="json"), "servers": reports}, json):
        return
    _print(receipt, environment, share, shadow)
    report(receipt, reports, servers, environment)
    name = receipt.event.name
    next_step(f"flyball status {name}", "(what servers report)")
    if receipt.previous is not None or candidate is not None:
        say(f"Undo:  flyball rollback {name} --environment {environment}", style="dim")


def _print(receipt: ReceiptView, environment: str, share: float | None, shadow: bool) -> None:
    placed = f"{receipt.event.name}@{receipt.version}"
    how = f" with {share:.0%} of the requests" if share is not None else " as a shadow" if shadow else ""
    say(f"{placed} → {environment}{how}   {moment(receipt.event.at)}")
    gates(receipt.gates)
    if receipt.previous is not None:
        say(f"previous: {receipt.previous}")
