"""`flyball score`: decides the rows of a file with the same code as a server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, printed_as_json
from flyball.cli.progress import progress_on

if TYPE_CHECKING:
    from flyball.decision.score.score import Scored


def score(
    decision: Annotated[Path, argument("The decision's YAML file.", metavar="SPEC")],
    data: Annotated[Path, option("Rows: .parquet, .csv or .jsonl.", metavar="ROWS")],
    out: Annotated[Path, option("Output file, the rows with their decisions: .parquet, .csv or .jsonl.", metavar="ROWS")],
    prefix: Annotated[str, option("Prefix of the new columns' names.")] = "",
    explain: Annotated[bool, option("Reasons for every row, not only for adverse outcomes.", "--explain")] = False,
    json: AsJson = False,
) -> None:
    """Decide every row of a file, with the same answers as a server.

    Columns are named after the input's fields and features. Windows are never written. If a row cannot be decided, the
    column `fault` has the reason.

        flyball score card-fraud.yaml --data payments.parquet --out scored.parquet
    """
    from flyball.decision.decision import Decision
    from flyball.decision.score.score import score_file

    loaded = Decision.load(decision)
    began = time.monotonic()
    with progress_on(console(stderr=True)) as progress:
        step = progress.begin(f"score {loaded.name}", 1.0)
        scored = score_file(
            loaded,
            data,
            out,
            prefix=prefix,
            explain=explain,
            progress=lambda done, total: step.update(done / max(total, 1), f"{done:,} of {total:,}"),
        )
        took_s = time.monotonic() - began
        step.end(f"{scored.rows:,} rows in {took_s:.1f} s")
    if printed_as_json({"out": str(out), **_document(scored)}, json):
        return
    shown = console()
    for outcome, count in scored.outcomes.most_common():
        shown.print(f"  {outcome:<12} {count:>10,}   {count / max(scored.rows, 1):6.2%}", markup=False)
    if scored.remedied:
        shown.print(f"  {scored.remedied:,} decided by a remedy: see the column {prefix}remedy", markup=False)
    if scored.faults:
        shown.print(f"  {scored.faults:,} could not be decided: see the column {prefix}fault", markup=False)
    shown.print(f"{out}", markup=False)


def _document(scored: Scored) -> dict[str, object]:
    return {
        "rows": scored.rows,
        "outcomes": dict(scored.outcomes),
        "remedied": scored.remedied,
        "faults": scored.faults,
    }
