"""After an act: waits until servers report its result, and reports what is done if that fails.

Does not wait for servers that have not reported for a minute. Must not know how servers learn of it.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

from flyball.cli.option import option
from flyball.cli.output import counted
from flyball.cli.registry.text import say
from flyball.errors import GateRefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.registry.acts.interface import Acting
    from flyball.registry.views import NodeView, ReceiptView, StatusView

Wait = Annotated[
    float, option("How long to wait for servers; 0 does not wait.", "--wait", min=0, max=600, metavar="SECONDS")
]
_SILENT_S = 60
_POLL_S = 0.25


def live_servers(status: StatusView, environment: str) -> set[str]:
    """The servers of an environment that reported within the last minute."""
    now = datetime.now(UTC)
    return {
        node.node
        for node in status.nodes
        if node.environment == environment and (now - node.seen_at).total_seconds() < _SILENT_S
    }


@contextmanager
def act_is_done(receipt: ReceiptView) -> Iterator[None]:
    """Wrap queries after an act: if the registry fails now, the error says that the act is done already."""
    try:
        yield
    except UnavailableError as error:
        from flyball.registry.events.sentences import act

        event = receipt.event
        raise UnavailableError(
            f"{event.actor} {act(event)}, recorded as event {event.sequence}; then: {error.message}",
            code=error.code,
            next_step=f"do not repeat it; once the registry is back:  flyball registry history {event.name}",
        ) from error


def reports_of(registry: Acting, receipt: ReceiptView, environment: str, servers: set[str], wait_s: float) -> list[NodeView]:
    """Wait until all these servers reported on an event, or the time is over; return their reports."""
    end = time.monotonic() + wait_s
    with act_is_done(receipt):
        while True:
            found = _reports(registry.status(receipt.event.name), receipt, environment, servers)
            if len(found) == len(servers) or time.monotonic() >= end:
                return found
            time.sleep(_POLL_S)


def report(receipt: ReceiptView, found: list[NodeView], servers: set[str], environment: str) -> None:
    """Print how many servers serve it. Raises on a refusal: the event stays, the old version keeps serving."""
    if receipt.warning:
        say(receipt.warning, style="bold yellow")
    live = [node for node in found if node.state != "refused"]
    if live:
        after_s = max((node.seen_at - receipt.event.at).total_seconds() for node in live)
        say(f"live on {counted(len(live), 'server')}, {max(after_s, 0):.1f} s after the event", style="green")
    if silent := sorted(servers - {node.node for node in found}):
        say(f"no report yet from {', '.join(silent)}", style="yellow")
    refused = [node for node in found if node.state == "refused"]
    if refused:
        reasons = "; ".join(f"{node.node}: {node.reason}" for node in refused)
        raise GateRefusedError(
            f"{counted(len(refused), 'server')} of {environment} refused it and kept the old version: {reasons}",
            code="server_refused",
            next_step=f"flyball rollback {receipt.event.name} --environment {environment}",
        )


def _reports(status: StatusView, receipt: ReceiptView, environment: str, servers: set[str]) -> list[NodeView]:
    """Reports with the event's generation or a later one: their servers have applied or refused it."""
    return [
        node
        for node in status.nodes
        if node.node in servers
        and (node.environment, node.deployment) == (environment, receipt.event.name)
        and node.generation >= receipt.event.sequence
        and node.state != "waiting"
    ]
