"""`flyball decisions tail`: decisions as they are made."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.decisions.options import FOLDER, AsJson, Folder, open_log
from flyball.errors import UsageError

if TYPE_CHECKING:
    from rich.text import Text


def tail(
    decision: Annotated[str | None, typer.Option(metavar="NAME", help="Of this decision only.", show_default=False)] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND", help="decision, failed, outcome, override, gap, …; may be repeated.", show_default=False
        ),
    ] = None,
    last: Annotated[int, typer.Option("--last", "-n", min=0, max=10_000, help="Begin with so many of the past.")] = 10,
    most: Annotated[
        int | None, typer.Option(min=1, help="End after so many; without it, on Ctrl-C.", show_default=False)
    ] = None,
    journal: Folder = FOLDER,
    json: AsJson = False,
) -> None:
    """Show records as they are written, one line each, until Ctrl-C.

    Reads behind the writer: a reader that is slow, or stopped, costs the server nothing. With --json a line is a whole
    record. Nothing personal is opened.
    """
    import json as json_
    import sys

    unknown = [name for name in kind or () if name not in _KINDS]
    if unknown:
        raise UsageError(f"{unknown[0]!r} is no kind of record", next_step=f"those are: {', '.join(_KINDS)}")

    from flyball.cli.output import console
    from flyball.decision_log.read.tail import follow

    out = console()
    for record in islice(follow(open_log(journal), kinds=kind, decision=decision, last=last), most):
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
        told = record["outcome"] + (f" ({score:.3f})" if isinstance(score, float) else "")
        codes = " ".join(reason["code"] for reason in record.get("reasons") or [])
        return Text.assemble(head, f"{record['decision']}   ", (told, "bold"), f"   {record['route']}   {codes}".rstrip())
    rest = {name: value for name, value in record.items() if name in _TOLD and value is not None}
    told = "  ".join(f"{name}={value}" for name, value in rest.items())
    return Text.assemble(head, (record["kind"], "yellow"), f"   {told}")


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
_TOLD = (
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
