"""The flags that `serve` and `snapshot` share: what every model of the command line is deployed with.

They become the `Terms` of a snapshot, which has their bounds and defaults. Must not know servers or files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.documents.snapshot import Terms

DeadlineMs = Annotated[
    int | None,
    typer.Option(
        metavar="MS",
        help="Deadline of requests that bring none. One that cannot keep it is refused, not answered late. None by default.",
        show_default=False,
    ),
]
BatchRowsMax = Annotated[
    int | None,
    typer.Option(metavar="ROWS", help="Rows of one run at most; 1 switches batching off. [64]", show_default=False),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        metavar="ROWS",
        help="Wait for this many rows before a run, with --batch-window-ms. By default what is ready runs at once.",
        show_default=False,
    ),
]
BatchWindowMs = Annotated[
    int | None,
    typer.Option(
        metavar="MS",
        help="Longest wait for --batch-size rows. Requests that come alone pay for it with their latency.",
        show_default=False,
    ),
]
QueueWaitMsMax = Annotated[
    int | None,
    typer.Option(
        metavar="MS",
        help="Refuse a request at once when it would wait longer than this for its run. [1000]",
        show_default=False,
    ),
]


def terms_of(
    verb: str,
    *,
    deadline_ms: int | None,
    batch_rows_max: int | None,
    batch_size: int | None,
    batch_window_ms: int | None,
    queue_wait_ms_max: int | None,
) -> Terms | None:
    """The terms that the flags ask for, None where there is none; raises with every flag that is not allowed."""
    from flyball.documents.snapshot import Terms, check
    from flyball.errors import Fault

    if (batch_size is None) != (batch_window_ms is None):
        given, other = ("size", "window-ms") if batch_window_ms is None else ("window-ms", "size")
        example = "1" if other == "window-ms" else "4"
        raise UsageError(
            f"--batch-{given} needs --batch-{other}: how many rows to wait for, and how long",
            next_step=f"add  --batch-{other} {example}",
        )
    written: dict[str, Any] = {
        "limits": _given(batch_rows_max=batch_rows_max, queue_wait_ms_max=queue_wait_ms_max),
        "slo": _given(deadline_ms=deadline_ms),
        "batch": _given(size=batch_size, window_ms=batch_window_ms) or None,
    }
    if not any(written.values()):
        return None
    faults = [Fault(_flag(fault.path), fault.found, _in_flags(fault.allowed)) for fault in check("terms", written)]
    if faults:
        raise UsageError("the flags are not allowed", faults=faults, next_step=f"flyball {verb} --help")
    return Terms.model_validate(written)


def _given(**flags: int | None) -> dict[str, int]:
    return {key: value for key, value in flags.items() if value is not None}


def _flag(path: str) -> str:
    """limits.batch_rows_max is --batch-rows-max, batch.size is --batch-size."""
    part, _, key = path.partition(".")
    return "--" + (f"batch_{key}" if part == "batch" else key).replace("_", "-")


def _in_flags(allowed: str) -> str:
    return allowed.replace("limits.batch_rows_max", "--batch-rows-max")
