"""Random histories: the tables, time travel and `verify` against a naive model that plays every event from the start."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from flyball.registry.events.event import Draft, Event
from flyball.registry.events.log import EventLog
from flyball.registry.events.state import fold
from flyball.registry.events.verify import verify
from flyball.registry.tables.database import Database
from flyball.registry.tables.projections import Placement, Projections
from flyball.registry.tables.timeline import Moment, Timeline
from tests.support import registry_events

NODES, BEGUN = ["web-1", "web-2"], 1_700_000_000_000_000
NAMES, PLACES, ALIASES = ["fraud", "churn"], ["staging", "production"], ["best", "production"]


@dataclass
class Naive:
    """What a history means, said in the plainest way: dictionaries that each event changes."""

    versions: dict[tuple[str, int], str] = field(default_factory=dict)
    approvals: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    served: dict[tuple[str, str], int] = field(default_factory=dict)
    candidates: dict[tuple[str, str], tuple[int, float, bool]] = field(default_factory=dict)
    aliases: dict[tuple[str, str], int] = field(default_factory=dict)
    keys: dict[str, list[str]] = field(default_factory=dict)
    said: dict[tuple[str, str, str], tuple[str, int | None, int | None]] = field(default_factory=dict)

    @classmethod
    def after(cls, events: Sequence[Event]) -> "Naive":
        state = cls()
        for event in events:
            state.play(event.name, event.kind, event.body)
        return state

    def play(self, name: str, kind: str, body: dict[str, Any]) -> None:
        version, place = (name, body.get("version")), (name, body.get("environment"))
        if kind == "registered":
            self.versions[version] = "registered"
        elif kind in ("signed", "rejected", "retired", "revoked"):
            self.versions[version] = kind
            if kind in ("signed", "rejected"):
                self.approvals.pop(version, None)
        elif kind == "approved":
            self.approvals.setdefault(version, []).append(body["approver"])
        elif kind == "promoted" and body["candidate"]:
            self.candidates[place] = (body["version"], body["candidate"]["share"], body["candidate"]["shadow"])
        elif kind in ("promoted", "rolled_back"):
            self.candidates.pop(place, None)
            self._point(self.served, place, body["version"])
        elif kind == "aliased":
            self._point(self.aliases, (name, body["alias"]), body["version"])
        elif kind == "key_added":
            self.keys[body["name"]] = body["roles"]
        elif kind == "key_removed":
            self.keys.pop(body["name"], None)
        elif kind == "forgotten":
            self.said = {spot: said for spot, said in self.said.items() if spot[1:] != (body["environment"], body["node"])}
        elif kind == "acknowledged":
            spot = (body["name"], body["environment"], body["node"])
            self.said.pop(spot, None)
            if body["state"] != "removed":
                self.said[spot] = (body["state"], body["version"], (body["serving"] or {}).get("version"))

    @staticmethod
    def _point(where: dict[Any, int], key: Any, version: int | None) -> None:
        where.pop(key, None)
        if version is not None:
            where[key] = version

    def spots(self) -> dict[tuple[str, str, str], Any]:
        return {
            **{(name, "champion", place): (version, None, None) for (name, place), version in self.served.items()},
            **{(name, "candidate", place): terms for (name, place), terms in self.candidates.items()},
            **{(name, "alias", alias): (version, None, None) for (name, alias), version in self.aliases.items()},
        }


def spots_of(placements: Sequence[Placement]) -> dict[tuple[str, str, str], Any]:
    found = {(row.name, row.slot, row.place): (row.version, row.share, row.shadow) for row in placements}
    assert len(found) == len(placements), "two rows hold at one spot"
    return found


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, list[Draft]]]:
    """Steps of the clock and what is then written as one; only what the rules would allow, more or less."""
    so_far = Naive()
    batches = []
    for _ in range(draw(st.integers(1, 12))):
        step = draw(st.sampled_from([0, 1, 1_000_000, -5_000_000]))
        batches.append((step, [draw(acts(so_far)) for _ in range(draw(st.integers(1, 4)))]))
    return batches


@st.composite
def acts(draw: st.DrawFn, so_far: Naive) -> Draft:
    name = draw(st.sampled_from(NAMES))
    kind = draw(st.sampled_from(["registered", "signed", "approved", "rejected", "promoted", "promoted", "promoted",
                                 "rolled_back", "rolled_back", "aliased", "revoked", "retired", "refused", "imported",
                                 "key_added", "key_removed", "published", "acknowledged", "acknowledged",
                                 "forgotten"]))  # fmt: skip
    if kind in ("acknowledged", "forgotten"):
        made = draw(by_a_server(name, kind))
    elif kind in ("key_added", "key_removed", "published"):
        made = draw(beside_versions(kind))
    else:
        made = draw(of_a_version(name, kind, so_far))
    so_far.play(made.name, made.kind, made.body)
    return made


@st.composite
def of_a_version(draw: st.DrawFn, name: str, kind: str, so_far: Naive) -> Draft:
    """Nothing happens to what was retired or revoked, and only what is placed has a candidate or is rolled back."""
    states = {number: state for (other, number), state in so_far.versions.items() if other == name}
    living = [number for number, state in states.items() if state not in ("retired", "revoked")]
    if kind == "registered" or not living:
        number = draw(st.sampled_from([number for number in range(1, len(states) + 4) if number not in states]))
        return registry_events.registered(name, number, tier=draw(st.sampled_from(["low", "high"])))
    version = draw(st.sampled_from(living))
    body = draw(others(kind, version))
    if (name, body.get("environment")) not in so_far.served:
        if kind == "rolled_back":
            return registry_events.promoted(name, version, body["environment"], candidate=None)
        if kind == "promoted":
            body["candidate"] = None
    return Draft(name, kind, body, draw(st.sampled_from(["ana", "bo"])), draw(st.sampled_from(["", "why not"])))


def others(kind: str, version: int) -> st.SearchStrategy[dict[str, Any]]:
    digest = st.just(registry_events.digest("blob"))
    maybe = st.sampled_from([None, version])
    candidate = st.none() | st.fixed_dictionaries({"share": st.sampled_from([0.0, 0.05, 1.0]), "shadow": st.booleans()})
    place = st.sampled_from(PLACES)
    promotion = {"environment": place, "previous": maybe, "candidate": candidate, "break_glass": st.booleans()}
    keys: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "signed": {"bundle": digest, "release": digest, "key": st.just("a" * 64), "name": st.just("risk")},
        "approved": {
            "environments": st.just(["production"]), "key": st.just("b" * 64), "signature": st.just("MEUC"),
            "approver": st.sampled_from(["cy", "di"]),
        },
        "rejected": {"why": st.just("no")},
        "promoted": promotion,
        "rolled_back": {"environment": place, "version": maybe, "from": maybe},
        "aliased": {"alias": st.sampled_from(ALIASES), "version": maybe, "previous": maybe},
        "revoked": {"root": digest},
        "imported": {"from": st.just("mlflow")},
        "retired": {},
        "refused": {"act": st.just("promote"), "code": st.just("no"), "words": st.just("no")},
    }  # fmt: skip
    return st.fixed_dictionaries({"version": st.just(version), **keys[kind]} if kind != "refused" else keys[kind])


@st.composite
def beside_versions(draw: st.DrawFn, kind: str) -> Draft:
    key = draw(st.sampled_from(["ci", "ops"]))
    roles = draw(st.sampled_from([["reader"], ["deployer", "auditor"]]))
    place = draw(st.sampled_from(PLACES))
    bodies = {
        "key_added": {"name": key, "roles": roles, "sha256": registry_events.digest(key)[7:]},
        "key_removed": {"name": key},
        "published": {
            "environment": place,
            "generation": draw(st.integers(0, 9)),
            "digest": registry_events.digest("index"),
        },
    }
    return Draft(f"@publish.{place}" if kind == "published" else "@keys", kind, bodies[kind], "ana")


@st.composite
def by_a_server(draw: st.DrawFn, name: str, kind: str) -> Draft:
    """Servers say what they like, about names that are placed nowhere too; some were silent since some time."""
    node, place, heard = draw(st.sampled_from(NODES)), draw(st.sampled_from(PLACES)), draw(st.integers(-1, 2_000_000))
    if kind == "forgotten":
        return Draft(f"@nodes.{place}", kind, {"node": node, "environment": place, "silent_since": BEGUN + heard}, "ana")
    serving = {"version": draw(st.sampled_from([None, 1, 2])), "digest": registry_events.digest("serving"), "since": BEGUN}
    body = {
        "name": name, "node": node, "environment": place, "generation": 7, "version": draw(st.sampled_from([None, 1, 2])),
        "digest": registry_events.digest("wanted"), "state": draw(st.sampled_from(["applied", "refused", "removed"])),
        "reason": "", "serving": draw(st.sampled_from([None, serving])), "unsaid": 0,
        "silent_since": draw(st.sampled_from([None, None, BEGUN + heard])),
    }  # fmt: skip
    return Draft(f"@nodes.{place}", kind, body, node)


def silent_from(events: Sequence[Event], spot: tuple[str, str, str]) -> int | None:
    """Since when nobody had heard of a server, as the next event about it says."""
    for event in events:
        body = event.body
        about = (body.get("name"), body.get("environment"), body.get("node"))
        if (event.kind == "acknowledged" and about == spot) or (event.kind == "forgotten" and about[1:] == spot[1:]):
            since: int | None = body["silent_since"]
            return since
    return None


def heard_of(moment: Moment, events: Sequence[Event], naive: Naive) -> None:
    """What servers had said by a moment, and which of them were gone."""
    said = {(one.name, one.environment, one.node): one for one in (told.confirmation for told in moment.said)}
    assert {spot: (one.state, one.version, one.serving_version) for spot, one in said.items()} == naive.said
    for told in moment.said:
        one = told.confirmation
        since = silent_from(events[moment.sequence :], (one.name, one.environment, one.node))
        assert told.gone_since == (since if since is not None and since < moment.at else None)


def written(url: str, batches: list[tuple[int, list[Draft]]]) -> tuple[Database, list[Event]]:
    """The batches as a registry, under a clock that also steps back."""
    now = [BEGUN]
    database = Database.open(url)
    log = EventLog(database, clock=lambda: now[0])
    for step, drafts in batches:
        now[0] += step
        log.append_all(drafts)
    return database, log.since(0)


def holds_now(database: Database, naive: Naive) -> None:
    held = Projections(database)
    assert spots_of(held.placed(slots=("champion", "candidate", "alias"))) == naive.spots()
    versions = {(row.name, row.number): row.state for row in held.versions()}
    assert versions == naive.versions
    assert {row.name: row.number for row in held.newest(limit=1000)} == _highest(naive)
    approvals = held.approvals_of(list(versions))
    for name, number in versions:
        approvers = [row.approver for row in approvals.get((name, number), ())]
        assert approvers == naive.approvals.get((name, number), [])
    assert {row.name: sorted(row.roles) for row in held.api_keys()} == naive.keys


def rules_see(events: Sequence[Event], naive: Naive) -> None:
    """What acts are judged by is the same as what the tables show."""
    for name in NAMES:
        state = fold(name, [event for event in events if event.name == name])
        served = {(name, place): placed.version for place, placed in state.placements.items()}
        assert served == {spot: version for spot, version in naive.served.items() if spot[0] == name}
        tried = {(name, place): placed.candidate for place, placed in state.placements.items() if placed.candidate}
        candidates = {spot: (one.version, one.share, one.shadow) for spot, one in tried.items()}
        assert candidates == {spot: terms for spot, terms in naive.candidates.items() if spot[0] == name}
        assert {(name, alias): number for alias, number in state.aliases.items()} == {
            spot: version for spot, version in naive.aliases.items() if spot[0] == name
        }
        for number, version in state.versions.items():
            approvers = [approval.approver for approval in version.approvals]
            assert approvers == naive.approvals.get((name, number), [])


def _highest(naive: Naive) -> dict[str, int]:
    return {name: max(number for other, number in naive.versions if other == name) for name, _ in naive.versions}


def held_at_every_time(database: Database, events: Sequence[Event]) -> None:
    timeline = Timeline(database)
    for at in sorted({event.at + step for event in events for step in (-1, 0)}):
        moment = timeline.at(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at))
        by_then = [event for event in events if event.at <= at]
        naive = Naive.after(by_then)
        assert moment.sequence == len(by_then)
        assert spots_of([standing.placement for standing in moment.standings]) == naive.spots()
        heard_of(moment, events, naive)
        for standing in moment.standings:
            key = (standing.placement.name, standing.placement.version)
            assert standing.approvers == naive.approvals.get(key, [])


@settings(max_examples=3)  # what differs from SQLite is how the newest rows are found, and a database costs much to make
@given(histories())
def test_on_postgresql_too_any_history_is_told_at_every_time(postgres, batches):
    database, events = written(postgres.new_database(), batches)
    holds_now(database, Naive.after(events))
    held_at_every_time(database, events)
    database.close()


@given(histories())
def test_any_history_means_what_a_naive_model_says_now_and_at_every_time(batches):
    with TemporaryDirectory() as folder:
        database, events = written(registry_events.new_sqlite(Path(folder)), batches)
        holds_now(database, Naive.after(events))
        rules_see(events, Naive.after(events))
        held_at_every_time(database, events)
        assert verify(database).holds
        assert EventLog(database).rebuild() == len(events)
        holds_now(database, Naive.after(events))
        assert verify(database).holds
        database.close()
