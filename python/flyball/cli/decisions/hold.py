"""`flyball decisions hold`, `release` and `holds`: records that must stay, whatever their age. Records in the same chain."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.decisions.options import FOLDER, AsJson, Folder, Kek, Key, open_log
from flyball.errors import LockedError, NotFoundError, RefusedError

if TYPE_CHECKING:
    from flyball.decisions.holds import Hold

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the hold, such as the case's number.")]
By = Annotated[str, typer.Option(metavar="NAME", help="Who orders it.")]
Why = Annotated[str, typer.Option(metavar="TEXT", help="And why.")]


def hold(
    name: Name,
    by: By,
    why: Why,
    decision: Annotated[str | None, typer.Option(metavar="NAME", help="One decision only.", show_default=False)] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Records from then on; 2026-01-01, or 30d ago.", show_default=False)
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="And before then.", show_default=False)] = None,
    journal: Folder = FOLDER,
    kek: Kek = None,
    key: Key = None,
) -> None:
    """Keep records though their time is over, and refuse to erase their subjects, until it is released."""
    from flyball.cli.output import console
    from flyball.decisions.filters import instant
    from flyball.decisions.holds import holds_in_force

    if any(found.name == name for found in holds_in_force(open_log(journal))):
        raise RefusedError(f"a hold {name!r} is in force", code="held", next_step="see it:  flyball decisions holds")
    limits = {"decision": decision, "from": since and instant(since), "to": until and instant(until)}
    _append(journal, kek, key, {"kind": "hold", "name": name, "by": by, "why": why, **limits})
    console().print(f"{name} is in force", markup=False)


def release(name: Name, by: By, why: Why, journal: Folder = FOLDER, kek: Kek = None, key: Key = None) -> None:
    """End a hold: what it kept may go when its time is over."""
    from flyball.cli.output import console
    from flyball.decisions.holds import holds_in_force

    names = [found.name for found in holds_in_force(open_log(journal))]
    if name not in names:
        raise NotFoundError(
            f"no hold {name!r} is in force", code="record_not_found", next_step=f"in force: {', '.join(names) or 'none'}"
        )
    _append(journal, kek, key, {"kind": "release", "name": name, "by": by, "why": why})
    console().print(f"{name} is released", markup=False)


def holds(journal: Folder = FOLDER, json: AsJson = False) -> None:
    """Show the holds in force."""
    from dataclasses import asdict

    from flyball.cli.output import console, print_json
    from flyball.decisions.holds import holds_in_force

    found = holds_in_force(open_log(journal))
    if json:
        print_json([asdict(one) for one in found])
        return
    for one in found:
        console().print(f"{one.name}   {_reach(one)}   by {one.by}: {one.why}", markup=False)
    if not found:
        console().print("no hold is in force")


def _reach(one: Hold) -> str:
    limits = [f"from {_day(one.from_ns)}"] if one.from_ns is not None else []
    limits += [f"until {_day(one.to_ns)}"] if one.to_ns is not None else []
    return " ".join([one.decision or "every decision", *limits])


def _day(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 1_000_000_000, UTC).date().isoformat()


def _append(journal: Path, kek: str | None, key: Path | None, event: dict[str, Any]) -> None:
    from flyball.journal import Journal

    try:
        writer = Journal(journal, kek=kek, key=key)
    except LockedError as error:
        raise LockedError(
            f"a server writes to the journal in {journal}", next_step="a hold is told while no server runs: stop it first"
        ) from error
    with writer:
        writer.append({name: value for name, value in event.items() if value is not None})
