"""Flags shared by `serve` and `snapshot`: deadline, batching and queue of every model on the command line.

They become the `Terms` of a snapshot, which defines their bounds and defaults. Must not know servers or files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from flyball.cli.option import option
from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flyball.documents.snapshot import Terms


def _whole(text: str, metavar: str) -> Any:
    return Annotated[int | None, option(text, metavar=metavar)]


TERMS_OPTIONS: dict[str, Any] = {
    "deadline_ms": _whole(
        "Default deadline of requests. A request that would miss it is refused, not answered late. By default none.", "MS"
    ),
    "batch_rows_max": _whole(
        "Maximum rows per run; 1 turns batching off, 0 also for models whose first axis counts no rows. By default 64.",
        "ROWS",
    ),
    "batch_size": _whole(
        "Wait for this many rows before a run, with --batch-window-ms. By default ready rows run at once.", "ROWS"
    ),
    "batch_window_ms": _whole("Longest wait for --batch-size rows. It adds latency to requests that arrive alone.", "MS"),
    "queue_wait_ms_max": _whole(
        "Refuse a request immediately if it would wait longer than this for its run. By default 1000.", "MS"
    ),
}


def terms_of(verb: str, flags: Mapping[str, Any]) -> Terms | None:
    """Build the terms from the flags, None without any; raises with every invalid flag."""
    from flyball.cli.flag_faults import FlagFault, refused
    from flyball.documents.snapshot import Terms, check

    given = {key: value for key in TERMS_OPTIONS if (value := flags.get(key)) is not None}
    batch = {key.removeprefix("batch_"): given.pop(key) for key in ("batch_size", "batch_window_ms") if key in given}
    if len(batch) == 1:
        named, other, example = ("size", "window-ms", 1) if "size" in batch else ("window-ms", "size", 4)
        raise UsageError(f"--batch-{named} needs --batch-{other}", next_step=f"add  --batch-{other} {example}")
    slo = {"deadline_ms": given.pop("deadline_ms")} if "deadline_ms" in given else {}
    written: dict[str, Any] = {"limits": given, "slo": slo, "batch": batch or None}
    if not any(written.values()):
        return None
    faults = [FlagFault(_flag(fault.path), fault.found, _in_flags(fault.allowed)) for fault in check("terms", written)]
    if faults:
        raise refused(faults, f"see the usage:  flyball {verb} --help")
    return Terms.model_validate(written)


def _flag(path: str) -> str:
    """limits.batch_rows_max is --batch-rows-max, batch.size is --batch-size."""
    part, _, key = path.partition(".")
    return "--" + (f"batch_{key}" if part == "batch" else key).replace("_", "-")


def _in_flags(allowed: str) -> str:
    return allowed.replace("limits.batch_rows_max", "--batch-rows-max")
