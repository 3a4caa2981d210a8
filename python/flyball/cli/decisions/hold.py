"""`flyball decisions hold`, `release` and `holds`: legal holds, themselves records in the same chain."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from flyball.cli.decisions.options import FOLDER, Folder, Kek, Key, Url, open_log
from flyball.cli.option import AsJson, argument, option
from flyball.cli.output import console, printed_as_json
from flyball.decision_log.annotations import append, moment_of

_DEADLINE_MS = 600_000  # the whole log is read

Name = Annotated[str, argument("The hold's name, such as a case number.", metavar="NAME")]
By = Annotated[str, option("Who orders it.", "--by", metavar="NAME", envvar="FLYBALL_ACTOR")]
Why = Annotated[str, option("The reason.", "--reason", metavar="TEXT")]


def hold(
    name: Name,
    by: By,
    why: Why,
    decision: Annotated[str | None, option("Only records of this decision.", metavar="NAME")] = None,
    since: Annotated[str | None, option("Only records since then: 2026-01-01, or 30d.", metavar="TIME")] = None,
    until: Annotated[str | None, option("Only records before then.", metavar="TIME")] = None,
    url: Url = None,
    journal: Folder = FOLDER,
    kek: Kek = None,
    key: Key = None,
) -> None:
    """Put a legal hold on records: until its release they are kept past retention, and their subjects not erased.

    flyball decisions hold case-12 --decision credit --since 2026-01-01 --by ana --reason 'case 12'
    """
    from flyball.decision_log.read.filters import instant

    limits = since and instant(since, "--since"), until and instant(until, "--until")
    if url is not None:
        from flyball.client import Client

        first, last = (moment_of(ns) if ns else None for ns in limits)
        with Client(url, deadline_ms=_DEADLINE_MS) as client:
            client.hold(name, by=by, why=why, decision=decision, since=first, until=last)
    else:
        scope = {"decision": decision, "from": limits[0], "to": limits[1]}
        _append(journal, kek, key, {"kind": "hold", "name": name, "by": by, "why": why, **scope})
    console().print(f"{name} is in force", markup=False)


def release(
    name: Name, by: By, why: Why, url: Url = None, journal: Folder = FOLDER, kek: Kek = None, key: Key = None
) -> None:
    """Release a legal hold: its records expire again.

    flyball decisions release case-12 --by ana --reason 'case 12 is closed'
    """
    if url is not None:
        from flyball.client import Client

        with Client(url, deadline_ms=_DEADLINE_MS) as client:
            client.release(name, by=by, why=why)
    else:
        _append(journal, kek, key, {"kind": "release", "name": name, "by": by, "why": why})
    console().print(f"{name} is released", markup=False)


def holds(url: Url = None, journal: Folder = FOLDER, json: AsJson = False) -> None:
    """List the legal holds in force.

    flyball decisions holds
    """
    from flyball.client import Client
    from flyball.decision_log.retention.holds import holds_in_force

    if url is not None:
        with Client(url, deadline_ms=_DEADLINE_MS) as client:
            found = client.holds()
    else:
        found = [asdict(one) for one in holds_in_force(open_log(journal))]
    if printed_as_json(found, json):
        return
    for one in found:
        begin, end = (one["from"], one["to"]) if url is not None else (_day(one["from_ns"]), _day(one["to_ns"]))
        limits = [f"{word} {limit}" for word, limit in (("from", begin), ("until", end)) if limit]
        scope = " ".join([one["decision"] or "every decision", *limits])
        console().print(f"{one['name']}   {scope}   by {one['by']}: {one['why']}", markup=False)
    if not found:
        console().print("no hold is in force")


def _day(unix_ns: int | None) -> str | None:
    return None if unix_ns is None else moment_of(unix_ns).date().isoformat()


def _append(journal: Path, kek: str | None, key: Path | None, event: dict[str, Any]) -> None:
    open_log(journal)  # a hold must not create a journal
    append(journal, kek, key, [{name: value for name, value in event.items() if value is not None}])
