"""`flyball decisions tail`: shows records as they are written."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

from flyball.cli.decisions.options import FOLDER, Folder, open_log
from flyball.cli.option import AsJson, option
from flyball.cli.output import console
from flyball.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text


def tail(
    decision: Annotated[str | None, option("Only this decision.", metavar="NAME")] = None,
    kind: Annotated[
        list[str] | None, option("decision, failed, outcome, override, gap, …; may be repeated.", metavar="KIND")
    ] = None,
    last: Annotated[int, option("Start with this many past records.", "--last", min=0, max=10_000)] = 10,
    limit: Annotated[int | None, option("End after this many; by default on Ctrl-C.", "--limit", "-n", min=1)] = None,
    journal: Folder = FOLDER,
    json: AsJson = False,
) -> None:
    """Show records as they are written, one line each, until Ctrl-C.

    Reads the log's files: a slow reader does not affect the server. With --json each line is a whole record. Personal
    data is never decrypted.

        flyball decisions tail --decision card-fraud --last 20
    """
    import json as json_
    import sys

    unknown = [name for name in kind or () if name not in _KINDS]
    if unknown:
        raise UsageError(f"--kind: unknown kind {unknown[0]!r}", next_step=f"kinds: {', '.join(_KINDS)}")

    from flyball.decision_log.read.tail import follow

    out = console()
    for record in islice(follow(open_log(journal), kinds=kind, decision=decision, last=last), limit):
        if json:
            sys.stdout.write(json_.dumps(record) + "\n")
            sys.stdout.flush()
        else:
            out.print(_line(record))


def _line(record: dict[str, Any]) -> Text:
    from rich.text import Text

    when = str(record.get("time", "")).replace("T", " ")[:23]
    about = str(record.get("id"))
    head = f"{when}   {'–' if about == _NO_ID else about:<36}   "
    if record["kind"] == "decision":
        score = record.get("score")
        outcome = record["outcome"] + (f" ({score:.3f})" if isinstance(score, float) else "")
        codes = " ".join(reason["code"] for reason in record.get("reasons") or [])
        return Text.assemble(head, f"{record['decision']}   ", (outcome, "bold"), f"   {record['route']}   {codes}".rstrip())
    rest = "  ".join(f"{name}={value}" for name, value in record.items() if name in _SHOWN and value is not None)
    return Text.assemble(head, (record["kind"], "yellow"), f"   {rest}")


_NO_ID = "00000000-0000-0000-0000-000000000000"
_KINDS = (
    "decision",
    "failed",
    "shadow",
    "undelivered",
    "tensors",
    "outcome",
    "override",
    "erased",
    "hold",
    "release",
    "served",
    "registry",
    "recovered",
    "gap",
    "quarantined",
)
_SHOWN = (
    "decision",
    "fault",
    "variant",
    "outcome",
    "agrees",
    "truth",
    "source",
    "by",
    "why",
    "caller",
    "name",
    "environment",
    "sequence",
    "count",
    "reasons",
    "open",
)
