"""The control loop's decisions in virtual time: seeded histories of a registry, its files and its servers."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from flyball.control.acknowledged import Proven
from flyball.control.compile import REVOKED, Snapshot
from flyball.control.fetches import FETCHING
from flyball.control.step import (
    COMPILE_AGAIN_S_MAX,
    REFUSALS_WAIT_S,
    REPORT_S,
    Action,
    Applied,
    Apply,
    Ask,
    Compile,
    Compiled,
    Drop,
    Keep,
    Observation,
    RegistrySeen,
    Report,
    Reported,
    ServersSeen,
    State,
    step,
)
from flyball.documents.snapshot.store import digest_of
from flyball.errors import FlyballError
from flyball.native.server_documents import Deployments, DeploymentState
from flyball.registry.events.event import Head

NAMES = ("fraud", "credit", "churn")
POLL_S = 0.25


class BrokenError(Exception):
    """A call of the loop that failed: nothing of it happened."""


def document(name: str, version: int) -> bytes:
    signed = {"version": version, "packages": [{"name": name, "version": version}]}
    return json.dumps({"name": name, "signed": signed}).encode()


def version_of(content: bytes) -> int:
    return int(json.loads(content)["signed"]["version"])


@dataclass
class Server:
    """Looks at what it was given when it gets round to it; what it refuses leaves what it had."""

    refuses: set[str] = field(default_factory=set)
    generation: int = 0
    serving: dict[str, bytes] = field(default_factory=dict)
    rows: dict[str, DeploymentState] = field(default_factory=dict)
    away: bool = False

    def look(self, generation: int, given: dict[str, bytes]) -> None:
        if self.away:
            return
        self.serving = {name: content for name, content in self.serving.items() if name in given}
        self.generation, self.rows = generation, {}
        for name, content in given.items():
            digest, same = digest_of(content), self.serving.get(name) == content
            if digest in self.refuses and not same:
                self.rows[name] = DeploymentState(
                    name=name, digest=digest, generation=generation, state="refused", reason="no"
                )
            else:
                self.serving[name] = content

    def said(self) -> Deployments:
        served = [
            DeploymentState(name=name, digest=digest_of(content), generation=self.generation, state="applied")
            for name, content in self.serving.items()
        ]
        return Deployments(generation=self.generation, deployments=[*served, *self.rows.values()])


@dataclass
class World:
    """A registry, its packages, servers that watch a folder, and a loop between them."""

    random: random.Random
    now: float = 1000.0
    head: int = 0
    placed: dict[str, int] = field(default_factory=dict)
    revoked: set[tuple[str, int]] = field(default_factory=set)
    missing: dict[tuple[str, int], str] = field(default_factory=dict)
    """Packages that cannot be had, with the code of the refusal."""
    came: bool = False
    trust_changed: bool = False
    failing: bool = False
    servers: list[Server] = field(default_factory=list)
    given: dict[str, bytes] = field(default_factory=dict)
    generation: int = 0
    taken: set[str] = field(default_factory=set)
    compiled_at: list[float] = field(default_factory=list)
    reported_at: float = 0.0
    state: State = field(default_factory=lambda: State(Proven({})))

    def snapshot(self) -> Snapshot:
        documents, refusals = {}, {}
        for name, version in self.placed.items():
            code = REVOKED if (name, version) in self.revoked else self.missing.get((name, version))
            if code is None:
                documents[name] = document(name, version)
            else:
                refusals[name] = FlyballError("not compiled", code=code)
        head, revoked = Head(self.head, "0" * 64), frozenset(self.revoked)
        return Snapshot("production", head, documents, dict(self.placed), refusals, {}, revoked)

    def looked(self) -> RegistrySeen:
        looked = RegistrySeen(self.now, self.head, self.head != self.state.seen, self.trust_changed, self.came)
        self.trust_changed = self.came = False
        return looked

    def tick(self) -> None:
        self.now += POLL_S
        for server in self.servers:
            if server.generation != self.generation and self.random.random() < 0.5:
                server.look(self.generation, self.given)
        try:
            self.carry_out(step(self.state, self.looked()))
        except BrokenError:
            return

    def carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            if (seen := self.done(action)) is not None:
                self.carry_out(step(self.state, seen))

    def done(self, action: Action) -> Observation | None:
        if self.failing and self.random.random() < 0.5:
            raise BrokenError
        match action:
            case Compile():
                self.compiled_at.append(self.now)
                return Compiled(self.now, self.snapshot(), action)
            case Keep(good, _):
                assert {digest_of(one) for one in good.values()} <= self.taken, "only what a server took is good"
            case Apply(documents):
                self.give(documents)
                return Applied(self.now, documents)
            case Ask():
                heard = {str(place): server.said() for place, server in enumerate(self.servers) if not server.away}
                waiting = any(server.away or server.generation != self.generation for server in self.servers)
                for server in self.servers:
                    self.taken |= {digest_of(content) for content in server.serving.values()}
                return ServersSeen(self.now, heard, waiting)
            case Report():
                self.reported_at = self.now
                return Reported(self.now)
            case Drop():
                pass
        return None

    def give(self, documents: dict[str, bytes]) -> None:
        for content in documents.values():
            assert not self.state.compiled.has_revoked(content), "a revoked version is never given to servers"
        assert documents.keys() <= self.placed.keys() | self.state.compiled.versions.keys()
        self.given, self.generation = documents, self.generation + 1

    def happen(self) -> None:
        """One thing that people, disks and servers do."""
        name = self.random.choice(NAMES)
        match self.random.choice(["place", "place", "revoke", "remove", "lose", "come", "refuse", "take", "trust", "away"]):
            case "place":
                version = self.random.randint(1, 5)
                if (name, version) not in self.revoked:
                    self.placed[name], self.head = version, self.head + 1
            case "revoke":
                self.revoked.add((name, self.random.randint(1, 5)))
                self.head += 1
            case "remove":
                if self.placed.pop(name, None) is not None:
                    self.head += 1
            case "lose":
                self.missing[name, self.random.randint(1, 5)] = self.random.choice([FETCHING, "package_missing"])
            case "come":
                self.came = FETCHING in self.missing.values()
                self.missing = {key: code for key, code in self.missing.items() if code != FETCHING}
            case "refuse":
                self.random.choice(self.servers).refuses.add(digest_of(document(name, self.random.randint(1, 5))))
            case "take":
                self.random.choice(self.servers).refuses.clear()
            case "trust":
                self.trust_changed = True
            case "away":
                server = self.random.choice(self.servers)
                server.away = not server.away

    def quiet(self) -> None:
        """From now on nothing stands in the way."""
        self.missing, self.came, self.trust_changed, self.failing = {}, True, True, False
        self.head += 1
        for server in self.servers:
            server.refuses, server.away = set(), False

    def wanted(self) -> dict[str, bytes]:
        return {name: document(name, one) for name, one in self.placed.items() if (name, one) not in self.revoked}


def worlds(seed: int) -> Iterator[World]:
    for number in range(25):
        chance = random.Random(seed * 1000 + number)
        yield World(chance, servers=[Server() for _ in range(chance.randint(1, 3))])


@pytest.mark.parametrize("seed", range(20))
def test_in_any_history_only_what_servers_took_is_good_and_in_the_end_all_serve_what_is_placed(seed: int) -> None:
    for world in worlds(seed):
        for _ in range(world.random.randint(5, 60)):
            world.happen()
            world.failing = world.random.random() < 0.2
            for _ in range(world.random.randint(0, 12)):
                world.tick()
        world.quiet()
        for _ in range(int((COMPILE_AGAIN_S_MAX + REPORT_S + REFUSALS_WAIT_S) / POLL_S)):
            world.tick()
        assert world.given == world.wanted()
        assert all(server.serving == world.wanted() for server in world.servers)
        assert world.state.proven.good == world.wanted()
        assert world.now - world.reported_at <= REPORT_S


def test_a_file_that_stays_away_is_looked_for_ever_more_seldom() -> None:
    world = World(random.Random(1), servers=[Server()])
    world.placed, world.head, world.missing = {"fraud": 1}, 1, {("fraud", 1): "package_missing"}
    for _ in range(int(600 / POLL_S)):
        world.tick()
    assert len(world.compiled_at) <= 600 / COMPILE_AGAIN_S_MAX + 6


def test_a_document_that_all_servers_refuse_gives_way_to_the_last_good_one_and_comes_back_with_a_new_policy() -> None:
    world = World(random.Random(1), servers=[Server(), Server()])
    good, bad = document("fraud", 1), document("fraud", 2)
    world.placed, world.head = {"fraud": 1}, 1
    for _ in range(40):
        world.tick()
    for server in world.servers:
        server.refuses = {digest_of(bad)}
    world.placed, world.head = {"fraud": 2}, 2
    for _ in range(80):
        world.tick()
    assert (world.given, world.servers[0].serving) == ({"fraud": good}, {"fraud": good})
    for server in world.servers:
        server.refuses = set()
    world.trust_changed = True
    for _ in range(40):
        world.tick()
    assert world.given == {"fraud": bad}
