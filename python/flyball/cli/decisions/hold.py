"""`flyball decisions hold`, `release` and `holds`: records that must stay, whatever their age. Records in the same chain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flyball.cli.decisions.options import FOLDER, AsJson, Folder, Kek, Key, Url, open_log

if TYPE_CHECKING:
    from flyball.decision_log.retention.holds import Hold

_DEADLINE_MS = 600_000  # all of the log is read

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
    url: Url = None,
    journal: Folder = FOLDER,
    kek: Kek = None,
    key: Key = None,
) -> None:
    """Keep records though their time is over, and refuse to erase their subjects, until it is released."""
    from flyball.cli.output import console
    from flyball.decision_log.read.filters import instant

    limits = since and instant(since), until and instant(until)
    if url is not None:
        from flyball.client import Client

        first, last = (_moment(ns) if ns else None for ns in limits)
        with Client(url, deadline_ms=_DEADLINE_MS) as client:
            client.hold(name, by=by, why=why, decision=decision, since=first, until=last)
    else:
        told = {"decision": decision, "from": limits[0], "to": limits[1]}
        _append(journal, kek, key, {"kind": "hold", "name": name, "by": by, "why": why, **told})
    console().print(f"{name} is in force", markup=False)


def release(
    name: Name, by: By, why: Why, url: Url = None, journal: Folder = FOLDER, kek: Kek = None, key: Key = None
) -> None:
    """End a hold: what it kept may go when its time is over."""
    from flyball.cli.output import console

    if url is not None:
        from flyball.client import Client

        with Client(url, deadline_ms=_DEADLINE_MS) as client:
            client.release(name, by=by, why=why)
    else:
        _append(journal, kek, key, {"kind": "release", "name": name, "by": by, "why": why})
    console().print(f"{name} is released", markup=False)


def holds(url: Url = None, journal: Folder = FOLDER, json: AsJson = False) -> None:
    """Show the holds in force."""
    from dataclasses import asdict

    from flyball.cli.output import console, print_json
    from flyball.decision_log.retention.holds import holds_in_force

    if url is not None:
        _remote_holds(url, json)
        return
    found = holds_in_force(open_log(journal))
    if json:
        print_json([asdict(one) for one in found])
        return
    for one in found:
        console().print(f"{one.name}   {_reach(one)}   by {one.by}: {one.why}", markup=False)
    if not found:
        console().print("no hold is in force")


def _remote_holds(url: str, json: bool) -> None:
    from flyball.cli.output import console, print_json
    from flyball.client import Client

    with Client(url, deadline_ms=_DEADLINE_MS) as client:
        found = client.holds()
    if json:
        print_json(found)
        return
    for one in found:
        limits = [f"from {one['from']}"] if one["from"] else []
        limits += [f"until {one['to']}"] if one["to"] else []
        reach = " ".join([one["decision"] or "every decision", *limits])
        console().print(f"{one['name']}   {reach}   by {one['by']}: {one['why']}", markup=False)
    if not found:
        console().print("no hold is in force")


def _moment(unix_ns: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=unix_ns // 1000)


def _reach(one: Hold) -> str:
    limits = [f"from {_day(one.from_ns)}"] if one.from_ns is not None else []
    limits += [f"until {_day(one.to_ns)}"] if one.to_ns is not None else []
    return " ".join([one.decision or "every decision", *limits])


def _day(unix_ns: int) -> str:
    return datetime.fromtimestamp(unix_ns // 1_000_000_000, UTC).date().isoformat()


def _append(journal: Path, kek: str | None, key: Path | None, event: dict[str, Any]) -> None:
    from flyball.native.journal import Journal

    open_log(journal)  # a journal that is not there is not begun by a hold
    with Journal(journal, kek=kek, key=key) as writer:
        writer.append({name: value for name, value in event.items() if value is not None})
