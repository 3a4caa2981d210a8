"""`flyball decisions export`: writes one decision as an evidence pack that needs no flyball to verify."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from flyball.cli.decisions.options import FOLDER, ID_WORDS, Folder, Kek, Reveal, open_log
from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, counted, printed_as_json


def export(
    decision_id: Annotated[str, argument(ID_WORDS, metavar="ID")],
    out: Annotated[Path, option("The evidence pack to write.", "--out", metavar="FILE.zip")],
    url: Annotated[
        str | None,
        option("The server that writes the journal: it seals the segment first, so that a proof exists.", "--url"),
    ] = None,
    reveal: Reveal = False,
    journal: Folder = FOLDER,
    kek: Kek = None,
    json: AsJson = False,
) -> None:
    """Write a zip with the decision's records, their proofs, the deployment with its policy, and a verification script.

    The script needs only Python:  python verify.py. Proofs refer to a signed checkpoint, so the segment must be sealed:
    a server does that when it ends, or immediately with --url. With --reveal the readable records include personal data.

        flyball decisions export 0192f6c1 --out evidence.zip --url http://127.0.0.1:8080
    """
    from flyball.decision_log.annotations import seal
    from flyball.decision_log.proof.export import export as run
    from flyball.decision_log.read.ids import full_id

    log = open_log(journal, kek, reveal=reveal)
    wanted = full_id(log, decision_id)
    if url is not None and not seal(url):
        sys.stderr.write(f"{url} did not seal the segment\n")
    exported = run(log, wanted, out)
    if printed_as_json(exported, json):
        return
    shown = console()
    for name in [*exported.records, *exported.documents]:
        shown.print(f"  {name}", markup=False)
    held = f"{counted(len(exported.records), 'record')} under a checkpoint over {counted(exported.segments, 'segment')}"
    shown.print(f"{out}: {held}", markup=False)
    shown.print(f"Verify it:  unzip {out} -d pack && python pack/verify.py", style="dim", markup=False)
