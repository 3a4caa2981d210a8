"""`flyball decisions export`: one decision as an evidence pack, for people who do not have, or do not trust, this system."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from flyball.cli.decisions.options import FOLDER, AsJson, Folder, Kek, Reveal, open_log


def export(
    decision_id: Annotated[str, typer.Argument(metavar="ID", help="The decision.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.zip", help="The pack.")],
    url: Annotated[
        str | None,
        typer.Option(
            "--url", help="The server that writes the journal: it seals first, so that there is a proof.", show_default=False
        ),
    ] = None,
    reveal: Reveal = False,
    journal: Folder = FOLDER,
    kek: Kek = None,
    json: AsJson = False,
) -> None:
    """Write a zip with the decision's records, their proofs, the deployment and its policy, and a script that checks it all.

    The script needs nothing but Python:  python verify.py. Proofs are under a signed checkpoint, so the segment must be
    sealed: a server does that when it ends, and at once where --url names it. With --reveal the readable records have
    what is personal.
    """
    from dataclasses import asdict

    from flyball.cli.output import console, counted, print_json
    from flyball.decision_log.annotations import checked_id, seal
    from flyball.decision_log.proof.export import export as run

    wanted = checked_id(decision_id)
    if url is not None and not seal(url):
        sys.stderr.write(f"{url} does not seal when it is asked to\n")
    exported = run(open_log(journal, kek, reveal=reveal), wanted, out)
    if json:
        print_json(asdict(exported))
        return
    tell = console()
    for name in [*exported.records, *exported.documents]:
        tell.print(f"  {name}", markup=False)
    held = f"{counted(len(exported.records), 'record')} under a checkpoint over {counted(exported.segments, 'segment')}"
    tell.print(f"{out}: {held}", markup=False)
    tell.print(f"Check it:  unzip {out} -d pack && python pack/verify.py", style="dim", markup=False)
