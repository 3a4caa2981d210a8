"""How the commands speak: tables and errors for people, JSON for machines. Colour only on a terminal."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from flyball.errors import FlyballError

_REFUSED = (3, 4)


def console(*, stderr: bool = False) -> Console:
    """A console that colours only where a terminal is; wide enough elsewhere that no table is cut."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 160
    return Console(file=stream, width=width, highlight=False, soft_wrap=not stream.isatty(), emoji=False)


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def counted(number: int, thing: str) -> str:
    """How many there are: "1 segment", "2 segments"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def report(error: FlyballError, *, as_json: bool = False) -> None:
    """An error on stderr: one red word, what is wrong, every fault, and what to do next."""
    if as_json:
        faults = [fault.document() for fault in error.faults]
        document = {"error": error.message, "code": error.code, "faults": faults, "next": error.next_step}
        sys.stderr.write(json.dumps(document) + "\n")
        return
    from rich.text import Text

    word = "Refused" if error.exit_code in _REFUSED else "Error"
    out = console(stderr=True)
    out.print(Text.assemble((f"{word}:", "bold red"), f" {error.message}"))
    for fault in error.faults:
        out.print(Text(f"  {fault}"))
    if error.next_step:
        out.print(Text(f"  {error.next_step}", style="dim"))
