"""`flyball decisions push`: sends new records as CloudEvents to a receiver."""

from __future__ import annotations

import os
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

from flyball.cli.decisions.options import FOLDER, Folder
from flyball.cli.option import AsJson, option
from flyball.cli.output import console, counted, print_json
from flyball.cli.progress import progress_on
from flyball.errors import UsageError


class EventShape(StrEnum):
    """Format of the events."""

    FLYBALL = "flyball"
    KSERVE = "kserve"


def push(
    to: Annotated[str, option("URL that receives the events.", metavar="URL")],
    follow: Annotated[bool, option("Keep sending new records.", "--follow")] = False,
    batch: Annotated[int, option("Maximum records per request; also limited to 1 MiB.", min=1, max=1000)] = 100,
    shape: Annotated[EventShape, option("One event per record, or KServe's two per decision.")] = EventShape.FLYBALL,
    name: Annotated[str | None, option("Name of the stored position; by default from the URL.", metavar="NAME")] = None,
    deadline_ms: Annotated[float, option("Deadline of one request, in ms.", min=100)] = 10_000,
    give_up_s: Annotated[float, option("Timeout of one batch, retries included.", min=0)] = 300.0,
    header_env: Annotated[
        str | None, option("Environment variable with an extra header: `Authorization: …`.", metavar="NAME")
    ] = None,
    journal: Folder = FOLDER,
    json: AsJson = False,
) -> None:
    """Send records as CloudEvents 1.0 over HTTP, at least once and in order, without personal data.

    Starts at the stored position. Reads the log's files, so a slow receiver does not affect the server. A 2xx response
    advances the position; 408, 425, 429, 5xx and timeouts are retried; any other response ends the command.

        flyball decisions push --to https://events.example.com/flyball --follow
    """
    from flyball.decision_log.cloud_events import flyball_events, kserve_events
    from flyball.decision_log.push import Receiver
    from flyball.decision_log.push import push as run

    receiver = Receiver(to, deadline_ms / 1000, give_up_s, _headers(header_env))
    with progress_on(console(stderr=True)) as progress:
        step = progress.begin("push", 1.0)
        pushed = run(
            journal,
            receiver,
            kserve_events if shape is EventShape.KSERVE else flyball_events,
            batch=batch,
            name=name,
            follow=follow,
            progress=lambda records: step.update(0.0, counted(records, "record")),
        )
        step.end(f"{counted(pushed.records, 'record')}, {counted(pushed.events, 'event')}")
    if json:
        print_json(asdict(pushed))


def _headers(variable: str | None) -> dict[str, str]:
    if variable is None:
        return {}
    name, colon, value = os.environ.get(variable, "").partition(":")
    if not colon or not name.strip() or not value.strip():
        raise UsageError(f"--header-env: {variable} has no header", next_step=f"export {variable}='Authorization: Bearer …'")
    return {name.strip(): value.strip()}
