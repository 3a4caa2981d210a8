"""`flyball decisions push`: the durable log as CloudEvents to a receiver, from where the last push ended."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from flyball.cli.decisions.options import FOLDER, AsJson, Folder
from flyball.errors import UsageError


class EventShape(StrEnum):
    """What an event looks like."""

    FLYBALL = "flyball"
    KSERVE = "kserve"


def push(
    to: Annotated[str, typer.Option(metavar="URL", help="Where events are posted to.")],
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what is recorded from now on.")] = False,
    batch: Annotated[int, typer.Option(min=1, max=1000, help="Records in one request, at most; also 1 MiB.")] = 100,
    shape: Annotated[
        EventShape, typer.Option(help="One event for each record, or KServe's two for each decision.")
    ] = EventShape.FLYBALL,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the stored position; by default the URL's.", show_default=False)
    ] = None,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="For one answer.")] = 10.0,
    give_up_s: Annotated[float, typer.Option(min=0, help="For one batch, repeats included.")] = 300.0,
    header_env: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A variable with one header more: `Authorization: …`.", show_default=False),
    ] = None,
    journal: Folder = FOLDER,
    json: AsJson = False,
) -> None:
    """Send records as CloudEvents 1.0 over HTTP, at least once and in order; nothing personal goes out.

    Reads the log's files, so a receiver that is slow or gone never touches the server. An answer of 2xx moves the stored
    position; 408, 425, 429, 5xx and silence are tried again, all else stops with the reason.
    """
    from dataclasses import asdict

    from flyball.cli.output import console, counted, print_json
    from flyball.cli.progress import progress_on
    from flyball.decision_log.cloud_events import flyball_events, kserve_events
    from flyball.decision_log.push import Receiver
    from flyball.decision_log.push import push as run

    receiver = Receiver(to, timeout_s, give_up_s, _headers(header_env))
    with progress_on(console(stderr=True)) as progress:
        step = progress.begin("push", 1.0)
        pushed = run(
            journal,
            receiver,
            kserve_events if shape is EventShape.KSERVE else flyball_events,
            batch=batch,
            name=name,
            follow=follow,
            told=lambda records: step.update(0.0, counted(records, "record")),
        )
        step.end(f"{counted(pushed.records, 'record')}, {counted(pushed.events, 'event')}")
    if json:
        print_json(asdict(pushed))


def _headers(variable: str | None) -> dict[str, str]:
    if variable is None:
        return {}
    name, colon, value = os.environ.get(variable, "").partition(":")
    if not colon or not name.strip() or not value.strip():
        raise UsageError(f"{variable} has no header", next_step=f"export {variable}='Authorization: Bearer …'")
    return {name.strip(): value.strip()}
