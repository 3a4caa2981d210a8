"""A registry whose PostgreSQL or S3 is killed during acts, while its servers are under load.

A version is registered, signed, approved, promoted and rolled back: in peace, or with a part killed in the middle of one of
these. The part is back soon, or stays away until the act was answered and others were tried. Shared by the tests and
`make claim-registry`. Must not judge latencies.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from bench.claims.registry.people import ENVIRONMENTS, PRODUCTION
from bench.claims.subjects import Subject, ask
from bench.parts.here import until
from flyball.bench.models.perceptron import make_mlp
from flyball.bench.payloads import make_payloads
from flyball.errors import FlyballError, UnavailableError
from flyball.native.load import LoadRun
from flyball.native.load_documents import Arrivals, Warmup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.claims.registry.clerk import Clerk, Said
    from bench.claims.registry.people import People
    from flyball.bench.process import Process
    from flyball.native.load_documents import LoadResult
    from flyball.registry.events.event import Event

NAME, SIZES, ROWS = "fraud", (8, 64, 1), 20
VERBS = ("register", "sign", "approve", *(f"promote {place}" for place in ENVIRONMENTS), "rollback")
UNCHANGED = "nothing was changed"
SERVED_S, WINDOW_S_MAX, BACK_SOON_S = 30.0, 600.0, (0.3, 2.0)


class Part(Protocol):
    """What can be killed and run again."""

    def kill(self) -> None:
        """At once, without a word."""

    def run(self) -> None:
        """Until it answers."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A part that is killed in the middle of an act."""

    part: Part
    verb: str
    back_soon: bool
    artifacts: bool
    """Whether it keeps the artifacts, and nothing else: going back and reading then go on without it."""


@dataclass(frozen=True, slots=True)
class Act:
    """A command, and the event that it leaves."""

    kind: str
    body: Mapping[str, Any]
    words: tuple[str, ...]

    @property
    def verb(self) -> str:
        """As it is typed."""
        return self.words[0]

    def is_in(self, events: Sequence[Event]) -> Event | None:
        """The event, where it is there."""
        return next((one for one in events if one.kind == self.kind and self.body.items() <= one.body.items()), None)


@dataclass(slots=True)
class Found:
    """What all of it showed."""

    outages: int = 0
    answered: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    kept_all_the_same: int = 0
    """Acts that ended with an error, said that they may have been kept, and were."""
    wrong: list[str] = field(default_factory=list)
    calm: list[LoadResult] = field(default_factory=list)
    outage: list[LoadResult] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    """What the acts that failed were told, each once."""
    events: int = 0


class Outages:
    """One registry, with a version in production, and the servers that follow it."""

    def __init__(
        self,
        people: People,
        clerk: Clerk,
        planes: Sequence[Process],
        *,
        rate_per_s: float,
        cpus: list[int] | None,
        seed: int,
    ) -> None:
        self.found = Found()
        self._people, self._clerk, self._planes = people, clerk, planes
        self._rate_per_s, self._cpus, self._chance = rate_per_s, cpus, random.Random(seed)
        path, self._models = make_mlp(people.folder / "first.onnx", SIZES), 0
        self._subject = Subject(NAME, path, make_payloads(path, ROWS, seed=11), 0.0).unchecked  # any version is right
        self._usual_s: dict[str, float] = {}

    def calm(self) -> None:
        """A version comes and goes with every part there."""
        with self._loaded(self.found.calm):
            self._version(None)

    def suffer(self, outage: Outage, verbs: Sequence[str] = VERBS, version: int = 0) -> None:
        """A version comes and goes, with an outage. What was answered must then be there, and serve.

        `verbs`: the last of them alone, for a version that is on its way already.
        """
        with self._loaded(self.found.outage):
            self._version(outage, verbs, version)
        verified = self._people.registry.verify()
        self.found.wrong += [str(finding) for finding in verified.findings]
        self.found.outages, self.found.events = self.found.outages + 1, verified.events

    def _version(self, outage: Outage | None, verbs: Sequence[str] = VERBS, version: int = 0) -> None:
        for verb in verbs:
            act = self._act(verb, version)
            event = self._disturbed(act, outage) if outage and verb == outage.verb else self._done(act)
            version = event.body["version"]
            if event.body.get("environment") == PRODUCTION:
                self._served(version)

    def _act(self, verb: str, version: int) -> Act:
        ref, (name, _, place) = f"{NAME}@{version}", verb.partition(" ")
        match name:
            case "register":
                self._models += 1
                path = make_mlp(self._people.folder / f"model-{self._models}.onnx", SIZES, seed=self._models)
                return self._said("registered", {}, name, NAME, str(path), "--by", "ada")
            case "sign":
                return self._said("signed", {"version": version}, name, ref, "--key", self._key("ada"), "--by", "ada")
            case "approve":
                return self._said("approved", {"version": version}, name, ref, "--key", self._key("bob"))
            case "promote":
                body = {"version": version, "environment": place}
                return self._said("promoted", body, name, ref, "--environment", place, "--by", "ada", "--reason", "better")
        return self._said("rolled_back", {"environment": PRODUCTION}, name, NAME, "--by", "ada", "--reason", "worse")

    def _said(self, kind: str, body: dict[str, Any], *words: str) -> Act:
        return Act(kind, body, (*words, "--registry", str(self._people.home.folder), "--json"))

    def _key(self, name: str) -> str:
        return str(self._people.key(name))

    def _done(self, act: Act) -> Event:
        """An act with every part there."""
        before = self._head()
        self._clerk.begin(*act.words)
        said = self._clerk.end()
        event = self._looked(act, before, said)
        if event is None:
            raise FlyballError(f"{act.verb} failed though every part is there: {said.errors}")
        if said.code == 0:
            self._usual_s[act.verb] = said.took_s
        return event

    def _disturbed(self, act: Act, outage: Outage) -> Event:
        """An act in whose middle a part is killed; done again, as a person would, where it left no event."""
        before = self._head()
        self._clerk.begin(*act.words)
        time.sleep(self._chance.uniform(0.0, self._usual_s.get(act.verb, 0.1)))
        outage.part.kill()
        try:
            if outage.back_soon:
                time.sleep(self._chance.uniform(*BACK_SOON_S))
            else:
                said = self._clerk.end()
                self._tried_without(outage)
                if outage.artifacts and act.verb == "rollback":
                    return self._went_back(act, before, said)
        finally:
            outage.part.run()
        if outage.back_soon:
            said = self._clerk.end()
        return self._looked(act, before, said) or self._done(act)

    def _tried_without(self, outage: Outage) -> None:
        """Others who act while a part is away: a new version needs all parts, reading needs no artifact."""
        self._clerk.begin(*self._act("register", 0).words)
        self._hold("register", self._clerk.end(), works=False)
        self._clerk.begin("status", NAME, "--registry", str(self._people.home.folder), "--json")
        self._hold("status", self._clerk.end(), works=outage.artifacts)

    def _went_back(self, act: Act, before: int, said: Said) -> Event:
        """A rollback while artifacts are away: it is done, and servers follow, by what they have kept."""
        event = self._looked(act, before, said)
        if event is None:
            raise FlyballError(f"a rollback needs no artifact, and failed without them: {said.errors}")
        self._served(event.body["version"])
        return event

    def _looked(self, act: Act, before: int, said: Said) -> Event | None:
        """What the log has of an act, held against what its caller was told."""
        event = act.is_in(self._people.registry.handle.log.of(NAME, after_revision=before))
        if said.code == 0:
            self.found.answered[act.verb] += 1
            if event is None:
                raise FlyballError(f"{act.verb} was answered and is not in the log: {said.out[:200]}")
            return event
        self._hold(act.verb, said, works=False)
        if event is not None and UNCHANGED in said.errors:
            self.found.wrong.append(f"{act.verb} said that {UNCHANGED}, and is event {event.sequence}: {said.errors[:300]}")
        self.found.kept_all_the_same += event is not None
        return event

    def _hold(self, verb: str, said: Said, *, works: bool) -> None:
        """A command against what it should do: one that fails says so by its exit code, in words, and with the next step."""
        if works != (said.code == 0):
            fault = f"{verb} {'fails' if works else 'is answered'} while a part is away: {(said.errors or said.out)[:300]}"
            self.found.wrong += [fault]
        if said.code == 0:
            return
        self.found.failed[f"{verb}, exit {said.code}"] += 1
        try:
            told = json.loads(said.errors)
            words = f"{told['error']}; {told['next']}"
        except (ValueError, KeyError):
            words = ""
        if said.code != UnavailableError.exit_code or not words or not told["next"]:
            self.found.wrong.append(f"{verb} ended with {said.code}: {said.errors[-500:]}")
        elif words not in self.found.words:
            self.found.words.append(words)

    def _head(self) -> int:
        return self._people.registry.handle.log.revision(NAME)

    def _served(self, version: int) -> None:
        """Servers answer with what is placed, some time after it was."""
        for plane in self._planes:
            until(f"{plane.url} serves {NAME}@{version}", partial(self._serves, plane, version), SERVED_S)

    def _serves(self, plane: Process, version: int) -> bool:
        return bool(json.loads(ask(plane, self._subject, 1))["model_version"] == str(version))

    @contextmanager
    def _loaded(self, results: list[LoadResult]) -> Iterator[None]:
        arrivals, warmup = Arrivals(kind="constant", rate_per_s=self._rate_per_s), Warmup(least_s=0.2, most_s=0.2)
        plans = [
            self._subject.plan(plane, 8, arrivals=arrivals, duration_s=WINDOW_S_MAX, warmup=warmup, cpus=self._cpus)
            for plane in self._planes
        ]
        runs = [LoadRun(plan, self._subject.payloads) for plan in plans]
        try:
            yield
        finally:
            for run in runs:
                run.stop()
        results += [run.result() for run in runs]
