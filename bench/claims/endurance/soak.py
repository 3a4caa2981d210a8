"""Topic `soak`: twenty minutes of all loads at once on one server.

Honest callers check every answer while hostile clients, reloads, revocations, erasures and a dying Redis go on beside them.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import re
import secrets
import socket
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from bench.claims.decisions.specs import write_model
from bench.claims.endurance import soaked
from bench.claims.endurance.soaked import ACCOUNTS, GUARDED, LOOKED_UP, PAY, PLAIN, SWING, Caller, Tally
from bench.claims.journal.commands import decisions
from bench.claims.protocol.beside import Kind, standing
from bench.claims.registry.people import PRODUCTION, People, controlled
from bench.claims.subjects import FLYBALLD, need
from bench.parts.here import NotHereError, until
from bench.parts.redis import RedisServer
from flyball.bench.stages import metrics
from flyball.errors import FlyballError
from flyball.native.load import LoadRun
from flyball.native.load_documents import Arrivals, LoadPlan, Warmup

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

SOAK_S, QUICK_S, PLAIN_PER_S = 1_200.0, 40.0, 200.0
MEMORY_APART_MAX, WAIT_S, REVOKED_S_MAX = 0.05, 60.0, 5.0
CROWDS = [
    Kind("idle", 200, "200 idle connections"),
    Kind("slow-heads", 50, "50 slow heads"),
    Kind("slow-bodies", 50, "50 slow bodies"),
    Kind("resets", 1, "1,000 stream resets a second"),
]
_STARTS = [
    b"",
    b"POST /v2/models/fraud/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 64\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]
ASKED = {SWING: 2, GUARDED: 1, PAY: 2, LOOKED_UP: 2}


@dataclass(slots=True)
class Trouble:
    """What was done to the server meanwhile."""

    reloads: int = 0
    revocations: int = 0
    slow_revocations: list[float] = field(default_factory=list)
    erased: int = 0
    erasures_failed: list[str] = field(default_factory=list)
    redis_kills: int = 0
    bad_bytes: int = 0
    broken: list[str] = field(default_factory=list)
    """What ended a kind of trouble early: the soak then shows less than it says."""


def measure(stand: Stand) -> None:
    """Serve, soak, and hold every count against its other side."""
    try:
        redis = RedisServer(stand.folder)
    except NotHereError as missing:
        stand.not_measured(missing.message)
        return
    people, swing = _placed(stand, redis)
    key = _caller(stand.folder)
    journal, config = stand.folder / "journal", stand.folder / "soak.json"
    config.write_text(json.dumps({"journal_folder": str(journal), "callers": str(stand.folder / "callers.json")}))
    tally, trouble, stop = Tally(), Trouble(), threading.Event()
    try:
        with controlled(people, need(FLYBALLD), None, ["--config", str(config)]) as server:
            until("everything serves", lambda: _ready(server.url, key), WAIT_S)
            soak = Soak(stand, server, people, swing, redis, key, tally, trouble, stop)
            memory = soak.run()
            until("nothing is in flight", lambda: _sum(server.url, "flyball_in_flight") == 0, WAIT_S)
            page, alive = metrics(server.url), server.alive()
    finally:
        redis.kill()
        people.registry.close()
    _keep(stand, soak, page, memory, alive=alive)
    verified = decisions(journal, "verify", fails=True)
    stand.keep("verified", {"frames": verified["frames"], "findings": verified["findings"][:10]})


@dataclass(slots=True)
class Soak:
    """One server and everything that is done to it."""

    stand: Stand
    server: Process
    people: People
    swing: list[str]
    redis: RedisServer
    key: str
    tally: Tally
    trouble: Trouble
    stop: threading.Event
    load: Any = None

    def run(self) -> list[float]:
        """Everything at once; gives the resident memory, once a second."""
        seconds = QUICK_S if self.stand.quick else SOAK_S
        url, memory = self.server.url, []
        callers = [
            Caller(url, subject, self.key, tally=self.tally, stop=self.stop, seed=1000 * place)
            for subject, count in ASKED.items()
            for place in range(count)
        ]
        steps = [self._reload, self._revoke, self._erase, self._starve, self._babble]
        workers = [threading.Thread(target=self._repeat, args=(step,), daemon=True) for step in steps]
        load = LoadRun(self._plan(seconds), self.stand.fraud.payloads)
        with ExitStack() as crowds:
            for kind in CROWDS:
                crowds.enter_context(standing(kind, self.server, self.stand.generator_cpus))
            for thread in [*callers, *workers]:
                thread.start()
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                memory.append(float(self.server.rss_bytes()))
                time.sleep(1.0)
                if len(memory) % 60 == 0:
                    self.stand.tell(f"{self.tally.right.total():,} right, {self.tally.wrong.total()} wrong")
            self.stop.set()
            for thread in [*callers, *workers]:
                thread.join(WAIT_S)
        load.stop()
        self.load = load.result()
        return memory

    def _repeat(self, step: Callable[[], None]) -> None:
        try:
            while not self.stop.is_set():
                step()
        except FlyballError as error:
            self.trouble.broken.append(f"{step.__name__}: {error}"[:300])

    def _plan(self, seconds: float) -> LoadPlan:
        return LoadPlan(
            url=self.server.url,
            model=PLAIN,
            connections=4,
            arrivals=Arrivals(kind="poisson", rate_per_s=PLAIN_PER_S, seed=3),
            duration_s=seconds + WAIT_S,
            warmup=Warmup(least_s=0.0, most_s=0.0),
            timeout_ms=10_000,
            cpus=list(self.stand.generator_cpus),
        )

    def _reload(self) -> None:
        """The other version, every few seconds."""
        self.people.promote(self.swing[self.trouble.reloads % 2], (PRODUCTION,))
        self.trouble.reloads += 1
        self.stop.wait(4.0)

    def _revoke(self) -> None:
        """A signer's key is revoked for a while: what it signed stops, and comes back with the key."""
        self.stop.wait(8.0)
        if self.stop.is_set():
            return
        self.people.revoke("eve")
        began = time.monotonic()
        with suppress(Exception):
            until("what a revoked key signed stops", lambda: not self._guarded_answers(), WAIT_S)
        took = time.monotonic() - began
        self.trouble.revocations += 1
        if took > REVOKED_S_MAX:
            self.trouble.slow_revocations.append(took)
        self.stop.wait(4.0)
        self.people.revoke()
        self.stop.wait(8.0)

    def _guarded_answers(self) -> bool:
        path, body = soaked.question(GUARDED, 1)
        return _post(self.server.url, path, body, self.key)[0] == 200

    def _erase(self) -> None:
        """One subject after the other; each has had decisions by then."""
        self.stop.wait(2.0)
        subject = f"a{self.trouble.erased % ACCOUNTS}"
        status, said = _post(self.server.url, "/v1/erasures", {"subject": subject, "by": "soak", "why": "soak"}, self.key)
        if status == 200:
            self.trouble.erased += 1
        else:
            self.trouble.erasures_failed.append(f"{status} {said}"[:200])

    def _starve(self) -> None:
        """Redis dies, stays away, and comes back with what it had."""
        self.stop.wait(10.0)
        self.redis.kill()
        self.trouble.redis_kills += 1
        self.stop.wait(3.0)
        self.redis.run()
        _fill(self.redis)

    def _babble(self) -> None:
        """Bytes that are no protocol, or nearly one."""
        chance = random.Random(self.trouble.bad_bytes)
        host, _, port = urlsplit(self.server.url).netloc.rpartition(":")
        with suppress(OSError), socket.create_connection((host, int(port)), 5.0) as connection:
            connection.sendall(chance.choice(_STARTS) + chance.randbytes(chance.randrange(1, 2000)))
        self.trouble.bad_bytes += 1
        self.stop.wait(0.02)


def _placed(stand: Stand, redis: RedisServer) -> tuple[People, list[str]]:
    """The registry with all five in production; gives the versions that take turns, too."""
    people, folder = People(stand.folder / "soak"), stand.folder / "soaked"
    paths = soaked.write_specs(folder, redis.url)
    models = {version: write_model(folder / f"{version}.onnx", weights) for version, weights in soaked.WEIGHTS.items()}
    swing = [people.version(SWING, models["1"]), people.version(SWING, models["2"])]
    refs = [people.version(PLAIN, stand.fraud.path), people.version(GUARDED, models["1"], signer="eve"), *swing]
    refs += [people.version(name, decision=path) for name, path in paths.items()]
    for ref in refs:
        people.promote(ref)
    _fill(redis)
    return people, swing


def _caller(folder: Path) -> str:
    """A callers file: one caller with the rights that the soak needs, and the load on the plain model without a key."""
    key = secrets.token_urlsafe(32)
    known = {"name": "soak", "keys_sha256": [hashlib.sha256(key.encode()).hexdigest()]}
    callers = [
        {**known, "may": ["infer", "decide", "erase"]},
        {"name": "anonymous", "may": [f"infer:{PLAIN}", "metrics"]},
    ]
    (folder / "callers.json").write_text(json.dumps({"callers": callers}))
    return key


def _fill(redis: RedisServer) -> None:
    for account in range(ACCOUNTS):
        redis.put(f"flyball:accounts:a{account}", {"risk": float(soaked.risk(account))})


def _keep(stand: Stand, soak: Soak, page: str, memory: list[float], *, alive: bool) -> None:
    tally = soak.tally
    asked = {kind: getattr(tally, kind) for kind in ("right", "refused", "remedied", "wrong")}
    stand.keep("answers", {**asked, "examples": tally.examples, "load": soak.load})
    stand.keep("trouble", {name: getattr(soak.trouble, name) for name in soak.trouble.__slots__})
    stand.keep("memory", memory)
    stand.keep("alive", alive)
    totals = {
        "ended": _total(page, "flyball_requests_total"),
        "received": _total(page, "flyball_received_total"),
        "decided": _total(page, "flyball_decisions_total"),
        "records": _total(page, "flyball_journal_records_total", kind="decision"),
        "gaps": _total(page, "flyball_journal_gap_decisions_total"),
    }
    stand.keep("counts", totals)


def _total(page: str, family: str, **labels: str) -> int:
    wanted = [f'{name}="{value}"' for name, value in labels.items()]
    lines = re.findall(rf"^{family}(\{{[^}}]*\}})? (\S+)$", page, re.MULTILINE)
    return sum(int(float(value)) for found, value in lines if all(one in found for one in wanted))


def _sum(url: str, family: str) -> int:
    return _total(metrics(url), family)


def _ready(url: str, key: str) -> bool:
    return all(_post(url, *soaked.question(subject, 1), key)[0] == 200 for subject in ASKED)


def _post(url: str, path: str, body: Mapping[str, Any], key: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=WAIT_S)
    try:
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", "X-Api-Key": key})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)
    finally:
        connection.close()
