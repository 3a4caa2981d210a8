"""`flyball decisions show`: one decision with its reasons and its proof."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from flyball.cli.decisions.options import FOLDER, ID_WORDS, Folder, Kek, Reveal, open_log
from flyball.cli.option import AsJson, argument
from flyball.cli.output import console, print_json


def show(
    decision_id: Annotated[str, argument(ID_WORDS, metavar="ID")],
    journal: Folder = FOLDER,
    reveal: Reveal = False,
    kek: Kek = None,
    json: AsJson = False,
) -> None:
    """Show one decision: outcome, model and policy, reasons, timings, and later annotations.

    The last line but one is its proof: its position in the log, and since when a signed checkpoint covers it. Personal
    data stays encrypted without --reveal. For an erased subject it shows when, by whom and, with --reveal, why.

        flyball decisions show last

        flyball decisions show 0192f6c1 --reveal
    """
    from flyball.decision_log.read.records import erasure, find
    from flyball.decision_log.read.reviews import reason_texts
    from flyball.decision_log.read.show import lines, prove

    log = open_log(journal, kek, reveal=reveal)
    history = find(log, decision_id)
    proven = prove(log, history.decision)
    erased = erasure(log, history.decision)
    if json:
        erased_document = None if erased is None else erased.model_dump()
        print_json({"records": history.documents, "proof": asdict(proven), "erasure": erased_document})
        return
    out = console()
    for line in lines(history, proven, *reason_texts(log, history), erased):
        out.print(line)
