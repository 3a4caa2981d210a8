"""What a verb does after its act: it waits until servers say what they made of it, and tells what stands if it cannot.

Servers that were not heard of for a minute are not waited for. Must not know how they hear of it.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from flyball.errors import GateRefusedError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.registry.acts.interface import Acting
    from flyball.registry.views import NodeView, ReceiptView, StatusView

Wait = Annotated[
    float,
    typer.Option("--wait", min=0, max=600, metavar="SECONDS", help="How long servers are waited for; 0 waits for none."),
]
_SILENT_S = 60
_POLL_S = 0.25


def heard_of(status: StatusView, environment: str) -> set[str]:
    """The servers of an environment that are there, as far as anybody knows."""
    now = datetime.now(UTC)
    return {
        node.node
        for node in status.nodes
        if node.environment == environment and (now - node.seen_at).total_seconds() < _SILENT_S
    }


@contextmanager
def kept(receipt: ReceiptView) -> Iterator[None]:
    """Around what a verb still asks once its act is done: where that fails, the act stands, and nobody should repeat it."""
    try:
        yield
    except UnavailableError as error:
        from flyball.registry.events.sentences import act

        event = receipt.event
        raise UnavailableError(
            f"{event.actor} {act(event)}, which is kept as event {event.sequence}; after that {error.message}",
            code=error.code,
            next_step=f"do not repeat it; look once the registry is back:  flyball registry history {event.name}",
        ) from error


def answers(registry: Acting, receipt: ReceiptView, environment: str, servers: set[str], wait_s: float) -> list[NodeView]:
    """What these servers say of an event, once all of them did or the time is over."""
    end = time.monotonic() + wait_s
    with kept(receipt):
        while True:
            found = _answers(registry.status(receipt.event.name), receipt, environment, servers)
            if len(found) == len(servers) or time.monotonic() >= end:
                return found
            time.sleep(_POLL_S)


def tell(receipt: ReceiptView, found: list[NodeView], servers: set[str], environment: str) -> None:
    """How many serve it, and who has not said so. A refusal ends the verb: the event stands, and the old version goes on."""
    from flyball.cli.output import counted
    from flyball.cli.registry.text import say

    if receipt.warning:
        say(receipt.warning, style="bold yellow")
    live = [node for node in found if node.state != "refused"]
    if live:
        after_s = max((node.seen_at - receipt.event.at).total_seconds() for node in live)
        say(f"live on {counted(len(live), 'server')}, {max(after_s, 0):.1f} s after the event", style="green")
    if silent := sorted(servers - {node.node for node in found}):
        say(f"no word yet from {', '.join(silent)}", style="yellow")
    refused = [node for node in found if node.state == "refused"]
    if refused:
        told = "; ".join(f"{node.node}: {node.reason}" for node in refused)
        raise GateRefusedError(
            f"{counted(len(refused), 'server')} of {environment} refused it and went on with what was there: {told}",
            code="server_refused",
            next_step=f"flyball rollback {receipt.event.name} --environment {environment}",
        )


def _answers(status: StatusView, receipt: ReceiptView, environment: str, servers: set[str]) -> list[NodeView]:
    """A report whose generation is the event's or later was made by a server that knew of it, and has judged it."""
    return [
        node
        for node in status.nodes
        if node.node in servers
        and (node.environment, node.deployment) == (environment, receipt.event.name)
        and node.generation >= receipt.event.sequence
        and node.state != "waiting"
    ]
