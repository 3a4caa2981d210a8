"""`flyball decisions checkpoint`: prints the last signed checkpoint, to store outside the operator's reach."""

from __future__ import annotations

import sys

from flyball.cli.decisions.options import FOLDER, Folder, open_log
from flyball.cli.option import AsJson
from flyball.cli.output import print_json
from flyball.errors import NotFoundError


def checkpoint(journal: Folder = FOLDER, json: AsJson = False) -> None:
    """Print the last signed checkpoint. Stored elsewhere, it later proves whether anything was changed or cut off.

    flyball decisions checkpoint > elsewhere/today.note

    flyball decisions verify --checkpoint elsewhere/today.note
    """
    from flyball.decision_log.proof.checkpoints import last

    found = last(open_log(journal))
    if found is None:
        raise NotFoundError(
            f"no checkpoint in {journal} yet",
            code="record_not_found",
            next_step="a server writes one every journal_checkpoint_s, and when it ends",
        )
    if not json:
        sys.stdout.write(found.note)
        return
    print_json(
        {
            "origin": found.origin,
            "sealed": found.sealed,
            "root": found.root,
            "open_segment": found.open_segment,
            "open_frames": found.open_frames,
            "time": found.time.isoformat().replace("+00:00", "Z"),
            "note": found.note,
        }
    )
