"""`flyball decisions hold`, `release` and `holds`: legal holds, themselves records in the same chain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from flyball.cli.decisions.options import FOLDER, AsJson, Folder, Kek, Key, Url, open_log

_DEADLINE_MS = 600_000  # the whole log is read

Name = Annotated[str, typer.Argument(metavar="NAME", help="The hold's name, such as a case number.")]
By = Annotated[str, typer.Option(metavar="NAME", help="Who orders it.")]
Why = Annotated[str, typer.Option(metavar="TEXT", help="The reason.")]


def hold(
    name: Name,
    by: By,
    why: Why,
    decision: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only records of this decision.", show_default=False)
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only records since then: 2026-01-01, or 30d.", show_default=False)
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only records before then.", show_default=False)] = None,
    url: Url = None,
    journal: Folder = FOLDER,
    kek: Kek = None,
    key: Key = None,
) -> None:
    """Put a legal hold on records: until its release they are kept past retention, and their subjects not erased."""
    from flyball.cli.output import console
    from flyball.decision_log.read.filters import instant

    limits = since and instant(since), until and instant(until)
    if url is not None:
        from flyball.client import Client

        first, last = (_moment(ns) if ns else None for ns in limits)
        with Client(url, deadline_ms=_DEADLINE_MS) as client:
            client.hold(name, by=by, why=why, decision=decision, since=first, until=last)
    else:
        scope = {"decision": decision, "from": limits[0], "to": limits[1]}
        _append(journal, kek, key, {"kind": "hold", "name": name, "by": by, "why": why, **scope})
    console().print(f"{name} is in force", markup=False)


def release(
    name: Name, by: By, why: Why, url: Url = None, journal: Folder = FOLDER, kek: Kek = None, key: Key = None
) -> None:
    """Release a legal hold: its records expire again."""
    from flyball.cli.output import console

    if url is not None:
        from flyball.client import Client

        with Client(url, deadline_ms=_DEADLINE_MS) as client:
            client.release(name, by=by, why=why)
    else:
        _append(journal, kek, key, {"kind": "release", "name": name, "by": by, "why": why})
    console().print(f"{name} is released", markup=False)


def holds(url: Url = None, journal: Folder = FOLDER, json: AsJson = False) -> None:
    """List the legal holds in force."""
    from dataclasses import asdict

    from flyball.cli.output import console, print_json
    from flyball.client import Client
    from flyball.decision_log.retention.holds import holds_in_force

    if url is not None:
        with Client(url, deadline_ms=_DEADLINE_MS) as client:
            found = client.holds()
    else:
        found = [asdict(one) for one in holds_in_force(open_log(journal))]
    if json:
        print_json(found)
        return
    for one in found:
        begin, end = (one["from"], one["to"]) if url is not None else (_day(one["from_ns"]), _day(one["to_ns"]))
        limits = [f"{word} {limit}" for word, limit in (("from", begin), ("until", end)) if limit]
        scope = " ".join([one["decision"] or "every decision", *limits])
        console().print(f"{one['name']}   {scope}   by {one['by']}: {one['why']}", markup=False)
    if not found:
        console().print("no hold is in force")


def _moment(unix_ns: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=unix_ns // 1000)


def _day(unix_ns: int | None) -> str | None:
    return None if unix_ns is None else _moment(unix_ns).date().isoformat()


def _append(journal: Path, kek: str | None, key: Path | None, event: dict[str, Any]) -> None:
    from flyball.native.journal import Journal

    open_log(journal)  # a hold must not create a journal
    with Journal(journal, kek=kek, key=key) as writer:
        writer.append({name: value for name, value in event.items() if value is not None})
