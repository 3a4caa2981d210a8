"""Output of the commands: tables and errors for people, JSON for machines. Colour only on a terminal."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

from flyball.cli.plain_words import plainly
from flyball.cli.printable import printable, printable_lines, unescaped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

    from flyball.errors import FlyballError

_REFUSED = (3, 4)


def console(*, stderr: bool = False) -> Console:
    """A console with colour only on a terminal; elsewhere wide enough that no table is cut."""
    from rich.console import Console
    from rich.segment import Segment

    class Escaping(Console):
        """Escapes text before colours are added, which are control characters themselves. One print is one line."""

        def print(self, *objects: Any, **options: Any) -> None:
            super().print(*map(_one_line, objects), **options)

        def render(self, *arguments: Any, **options: Any) -> Iterator[Segment]:
            for segment in super().render(*arguments, **options):
                yield segment if segment.control else Segment(printable_lines(segment.text), segment.style)

    stream = unescaped(sys.stderr if stderr else sys.stdout)
    width = None if stream.isatty() else 160
    # FORCE_COLOR, which Jupyter sets, makes a pipe a terminal for rich; bars that move need a real one.
    return Escaping(
        file=stream,
        width=width,
        highlight=False,
        soft_wrap=not stream.isatty(),
        emoji=False,
        force_interactive=None if stream.isatty() else False,
    )


def _one_line(printed: Any) -> Any:
    """Escape line ends inside the text; those before and after it are the command's own."""
    from rich.text import Text

    plain = printed.plain if isinstance(printed, Text) else printed if isinstance(printed, str) else ""
    inner = plain.strip("\n")
    if "\n" not in inner:
        return printed
    before, after = (len(plain) - len(end) for end in (plain.lstrip("\n"), plain.rstrip("\n")))
    if isinstance(printed, str):
        return "\n" * before + inner.replace("\n", "\\u000a") + "\n" * after
    escaped = Text("\\u000a").join(printed[before : len(plain) - after].split("\n", allow_blank=True))
    return Text("\n" * before) + escaped + Text("\n" * after)


def print_json(document: Any) -> None:
    """Print one JSON document on stdout; models and dataclasses in it become objects."""
    sys.stdout.write(json.dumps(document, indent=2, default=_plain) + "\n")


def printed_as_json(document: Any, as_json: bool) -> bool:
    """Print the document if `as_json`; return whether it was printed."""
    if as_json:
        print_json(document)
    return as_json


def _plain(part: Any) -> Any:
    return asdict(part) if is_dataclass(part) and not isinstance(part, type) else part.model_dump(mode="json")


def counted(number: int, thing: str) -> str:
    """A count with its noun: "1 segment", "2 segments"."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def report(error: FlyballError, *, as_json: bool = False) -> None:
    """Print an error on stderr: the message, every fault, and the next step."""
    if as_json:
        faults = [fault.document() for fault in error.faults]
        document = {"error": plainly(error.message), "code": error.code, "faults": faults, "next": error.next_step}
        sys.stderr.write(json.dumps(document) + "\n")
        return
    from rich.text import Text

    word = "Refused" if error.exit_code in _REFUSED else "Error"
    out = console(stderr=True)
    message = plainly(error.headline())
    out.print(Text.assemble((f"{word}:", "bold red"), f" {printable(message)}"))
    for fault in error.faults:
        if not fault.path and str(fault.found) in error.message:
            continue  # said already
        out.print(Text(f"  {printable(plainly(str(fault)))}"))
    if error.next_step:
        out.print(Text(f"  {printable_lines(error.next_step)}", style="dim"))


def warn_of_root(command: str) -> None:
    """Log a warning if a server runs as root."""
    if os.geteuid() == 0:
        from flyball.documents.log import log

        advice = "start it as another user: User= in a systemd unit, docker run --user 65532"
        log("WARN", f"{command} runs as root without need; {advice}")
