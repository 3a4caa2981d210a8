"""Builds a long history quickly: events are chained like the registry's, written in bulk, then folded once.

Must not know what is measured on it.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert

from flyball.registry.events.event import GENESIS, Draft, Head
from flyball.registry.events.log import EventLog, chained, row_of
from flyball.registry.tables.schema import events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from flyball.registry.tables.database import Database

BEGUN = 1_767_225_600_000_000  # 2026-01-01, in microseconds
STEP = 20_000_000  # an event every 20 s: a million are about eight months
_BATCH = 10_000
_ENVIRONMENTS = ("dev", "staging", "production")
_SERVERS = 4


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is."""

    names: int
    versions: int
    events: int


def write(database: Database, size: Size, seed: int, tell: Callable[[str], None]) -> int:
    """Write the history, and the tables from it; gives the time of its last event."""
    head, at, revisions = Head(0, GENESIS), BEGUN, defaultdict[str, int](int)
    with database.writing() as connection:
        rows: list[dict[str, Any]] = []
        for draft in _drafts(size, random.Random(seed)):
            at += STEP
            (event,) = chained([draft], head, at, revisions)
            head = event.head
            rows.append(row_of(event))
            if len(rows) == _BATCH:
                connection.execute(insert(events), rows)
                rows.clear()
                if head.sequence % 200_000 == 0:
                    tell(f"{head.sequence:,} events written")
        if rows:
            connection.execute(insert(events), rows)
    tell(f"{EventLog(database).rebuild():,} events folded into the tables")
    return at


def _drafts(size: Size, chance: random.Random) -> Iterator[Draft]:
    """Versions are registered, signed and approved throughout; between them the names are promoted and rolled back.

    Whatever is placed is acknowledged by the environment's servers, and refused by a few of them.
    """
    names = [f"model-{number:05}" for number in range(size.names)]
    acts = size.events // size.versions - 4
    for turn in range(size.versions):
        number, place = divmod(turn, size.names)
        yield from _new_version(names[place], number + 1)
        left = acts
        while left > 0:
            some = chance.randrange(min(turn + 1, size.names))
            act = _act(names[some], chance.randint(1, number + (some <= place)), chance)
            placed = act.kind in ("promoted", "rolled_back") and not act.body.get("candidate")
            drafts = [act, *(_acknowledged(act, server, chance) for server in range(_SERVERS if placed else 0))][:left]
            yield from drafts
            left -= len(drafts)


def _new_version(name: str, number: int) -> Iterator[Draft]:
    root, other = _digest(f"{name}@{number}"), _digest("other")
    facts = {"root": root, "manifest": other, "meta": other, "tier": "high", "author": "ana", "kind": "model"}
    yield Draft(name, "registered", {"version": number, **facts, "references": []}, "ana", "a new one")
    signed = {"bundle": other, "release": other, "key": "a" * 64, "name": "payments-risk"}
    yield Draft(name, "signed", {"version": number, **signed}, "ana")
    for approver in ("bo", "cy"):
        approval = {"environments": list(_ENVIRONMENTS), "key": "b" * 64, "signature": "MEUCIQ" * 16, "approver": approver}
        yield Draft(name, "approved", {"version": number, **approval}, approver, "looks right")


def _act(name: str, number: int, chance: random.Random) -> Draft:
    place = chance.choice(_ENVIRONMENTS)
    match chance.randrange(10):
        case 0:
            return Draft(name, "refused", {"act": "promote", "code": "forbidden", "words": "eve may not promote"}, "eve")
        case 1:
            return Draft(
                name, "aliased", {"alias": chance.choice(("best", "next")), "version": number, "previous": None}, "bo"
            )
        case 2 | 3:
            return Draft(name, "rolled_back", {"environment": place, "version": number, "from": None}, "bo", "worse")
        case 4:
            terms = {"candidate": {"share": 0.05, "shadow": False}}
            return Draft(name, "promoted", {"version": number, "environment": place, "previous": None, **terms}, "bo")
        case _:
            evidence = [{"gate": "latency", "passed": True, "words": "p99 0.9 ms, contract 5 ms"}]
            said = {"previous": None, "evidence": evidence, "candidate": None, "break_glass": False}
            return Draft(name, "promoted", {"version": number, "environment": place, **said}, "bo", "better")


def _acknowledged(act: Draft, server: int, chance: random.Random) -> Draft:
    """A server of the environment took a version, or went on with another one."""
    name, number, place = act.name, act.body["version"], act.body["environment"]
    node, refused = f"http://web-{server}.{place}:8080", chance.randrange(50) == 0
    serving = {"version": max(1, number - refused), "digest": _digest(f"{name}@{number - refused}"), "since": BEGUN}
    state = {"state": "refused", "reason": "expired: its release ended"} if refused else {"state": "applied", "reason": ""}
    wanted = {"version": number, "digest": _digest(f"{name}@{number}"), "generation": 1}
    body = {"name": name, "node": node, "environment": place, **wanted, **state, "serving": serving}
    return Draft(f"@nodes.{place}", "acknowledged", body, "control")


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
