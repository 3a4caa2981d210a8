"""`flyball decisions compact`: moves sealed segments to Parquet, and deletes expired records.

A low-priority child process does the work.
"""

from __future__ import annotations

import signal
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from flyball.cli.decisions.options import FOLDER, Folder, open_log
from flyball.cli.option import AsJson, option
from flyball.cli.output import console, counted, print_json
from flyball.cli.progress import progress_on
from flyball.errors import EvidenceError, needing


def compact(
    keep: Annotated[
        str | None, option("Delete records older than this: 25mo, 90d, 7y. By default none.", metavar="DURATION")
    ] = None,
    here: Annotated[bool, typer.Option("--here", hidden=True)] = False,
    journal: Folder = FOLDER,
    json: AsJson = False,
) -> None:
    """Move sealed segments to Parquet, by day and decision. Proofs still hold: the exact bytes are included.

    A segment is removed only after its Parquet files were read back and verified. Safe to run beside a server, to kill,
    and to run again. Records under a legal hold are never deleted.

        flyball decisions compact --keep 25mo
    """
    if here:
        _work(journal, keep, json)
        return
    import subprocess

    from flyball.decision_log.retention.background import compact_command

    command = [*compact_command(journal, keep), *(["--json"] if json else [])]
    raise typer.Exit(subprocess.run(command, check=False).returncode)


def _work(journal: Path, keep: str | None, json: bool) -> None:
    from flyball.decision_log.retention.background import lower_priority

    # A server's child inherits the mask that blocks signals for the data plane.
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    lower_priority()

    with needing("compaction needs pyarrow", extra="journal"):
        from flyball.decision_log.retention.compact import compact as run
        from flyball.decision_log.retention.retire import oldest_kept, retire
    log, now = open_log(journal), datetime.now(UTC)
    if keep is not None:
        oldest_kept(keep, now)  # an invalid value fails before anything is done
    with progress_on(console(stderr=True)) as progress:
        step = progress.begin("compact", 1.0)
        done = run(log, lambda so_far, total: step.update(so_far / max(total, 1), f"{so_far:,} of {total:,} segments"))
        step.end(f"{counted(done.segments, 'segment')}, {counted(done.records, 'record')}")
    removed = None if keep is None else retire(log, keep, now)
    if json:
        print_json({**asdict(done), "removed": None if removed is None else asdict(removed)})
    elif removed is not None:
        held = f", {removed.held:,} kept for a legal hold" if removed.held else ""
        held += f", {removed.needed:,} kept because younger decisions need them for replay" if removed.needed else ""
        console().print(
            f"removed {counted(removed.segments, 'segment')}, {counted(removed.records, 'record')} older than {keep}{held}"
        )
    if done.stopped is not None:
        raise EvidenceError(f"{done.stopped}; it and all later segments are unchanged", next_step="flyball decisions verify")
