"""Flags shared by `serve` and `snapshot`: deadline, batching and queue of every model on the command line.

They become the `Terms` of a snapshot, which defines their bounds and defaults. Must not know servers or files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from flyball.cli.option import option
from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.documents.snapshot import Terms

DeadlineMs = Annotated[
    int | None,
    option(
        "Default deadline of requests. A request that would miss it is refused, not answered late. By default none.",
        metavar="MS",
    ),
]
BatchRowsMax = Annotated[int | None, option("Maximum rows per run; 1 turns batching off. By default 64.", metavar="ROWS")]
BatchSize = Annotated[
    int | None,
    option(
        "Wait for this many rows before a run, with --batch-window-ms. By default ready rows run at once.", metavar="ROWS"
    ),
]
BatchWindowMs = Annotated[
    int | None, option("Longest wait for --batch-size rows. It adds latency to requests that arrive alone.", metavar="MS")
]
QueueWaitMsMax = Annotated[
    int | None,
    option("Refuse a request immediately if it would wait longer than this for its run. By default 1000.", metavar="MS"),
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
    """Build the terms from the flags, None without any; raises with every invalid flag."""
    from flyball.documents.snapshot import Terms, check
    from flyball.errors import Fault

    if (batch_size is None) != (batch_window_ms is None):
        given, other = ("size", "window-ms") if batch_window_ms is None else ("window-ms", "size")
        example = "1" if other == "window-ms" else "4"
        raise UsageError(
            f"--batch-{given} needs --batch-{other}",
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
        raise UsageError("invalid flags", faults=faults, next_step=f"flyball {verb} --help")
    return Terms.model_validate(written)


def _given(**flags: int | None) -> dict[str, int]:
    return {key: value for key, value in flags.items() if value is not None}


def _flag(path: str) -> str:
    """limits.batch_rows_max is --batch-rows-max, batch.size is --batch-size."""
    part, _, key = path.partition(".")
    return "--" + (f"batch_{key}" if part == "batch" else key).replace("_", "-")


def _in_flags(allowed: str) -> str:
    return allowed.replace("limits.batch_rows_max", "--batch-rows-max")
