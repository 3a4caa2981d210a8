"""Topic: the source of a feature is killed, started again and stopped in the middle, under load.

The open loop brings a deadline with each request. In one run every answer counts, so that lateness is seen; in the other
only those without a remedy are right, so that the generator's own count of remedies can be held against the server's.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Self

from bench.claims.decisions import specs
from bench.claims.decisions.counts import DECIDED, REMEDIED, count, gained
from bench.claims.tails.stand import slim
from flyball.bench.run import run_load
from flyball.bench.table import latency
from flyball.engine import Arrivals, LoadPlan, Warmup
from flyball.errors import FlyballError
from flyball.spec import Decision

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process
    from flyball.engine import LoadResult

DECISION = "looked-up"
RATE_PER_S, CONNECTIONS, ACCOUNTS = 1_000.0, 16, 200
PHASE_S, DEADLINE_MS, SOURCE_TIMEOUT_MS = 3.0, 50, 10
LATE_MAX = 0.001
REMEDY = "feature_unavailable"
_POLL_S, _START_S = 0.02, 10.0


def measure(stand: Stand) -> None:
    """Both runs, then one that shows that all is well again, on the same server from beginning to end."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        stand.report.not_measured("a source killed, slowed and restarted under load", "", "redis-server is not here")
        return
    with _Redis(program, stand.folder) as redis:
        path = specs.write(stand.folder / DECISION, specs.looked_up(redis.url, SOURCE_TIMEOUT_MS), DECISION)
        index = Decision.load(path).bundle().write(path.parent / "snapshot")
        with stand.serve_snapshot(index) as server:
            pid = server.pid
            every = _counted(stand, server, '"outcome":', lambda: redis.suffer(stand.seconds(PHASE_S)), phases=5)
            right = _counted(stand, server, '"remedy":null', lambda: redis.suffer(stand.seconds(PHASE_S)), phases=5)
            after = _counted(stand, server, '"remedy":null', None, phases=1)
            alive = server.alive() and server.pid == pid
    _judge(stand, every, right, after, alive=alive)


Counted = tuple["LoadResult", dict[str, int], dict[str, int]]


def _counted(stand: Stand, server: Process, holds: str, faults: Callable[[], None] | None, phases: int) -> Counted:
    """A window, and what the server counted in it: decisions by outcome, remedies by cause."""
    bodies = [{"account": f"a{place}", "amount": float(place)} for place in range(ACCOUNTS)]
    payloads = b"\n".join(json.dumps({"body": {"input": row}, "holds": holds}).encode() for row in bodies)
    plan = LoadPlan(
        url=server.url,
        model=DECISION,
        protocol="json",
        path=f"/v1/decisions/{DECISION}",
        connections=CONNECTIONS,
        arrivals=Arrivals(kind="poisson", rate_per_s=RATE_PER_S, seed=7),
        duration_s=phases * stand.seconds(PHASE_S),
        warmup=Warmup(least_s=0.0, most_s=0.0),
        deadline_ms=DEADLINE_MS,
        timeout_ms=5_000,
        cpus=stand.generator_cpus,
    )
    before = count(server.url, DECIDED, DECISION, "outcome"), count(server.url, REMEDIED, DECISION, "cause")
    trouble = threading.Thread(target=faults or (lambda: None))
    trouble.start()
    result = run_load(plan, payloads)
    trouble.join()
    outcomes = gained(before[0], count(server.url, DECIDED, DECISION, "outcome"))
    remedies = gained(before[1], count(server.url, REMEDIED, DECISION, "cause"))
    stand.tell(
        f"{result.sent:,} sent, {result.answered:,} answered, remedies {remedies}, p99 {latency(result.latency_us.p99)}"
    )
    return result, outcomes, remedies


def _judge(stand: Stand, every: Counted, right: Counted, after: Counted, *, alive: bool) -> None:
    for name, (result, outcomes, remedies) in {"every": every, "right": right, "after": after}.items():
        stand.keep(name, {"result": slim(result), "outcomes": outcomes, "remedies": remedies})
    title = f"source killed, restarted and stopped at {RATE_PER_S:,.0f}/s"
    result, outcomes, remedies = every
    answered = f"{result.answered:,} of {result.sent:,}"
    stand.report.judge(f"{title}: answered", answered, "all", holds=result.answered == result.sent)
    late = result.past_deadline / max(result.sent, 1)
    figure = f"{late:.3%} later, p99 {latency(result.latency_us.p99)}"
    stand.report.judge(f"{title}: within {DEADLINE_MS} ms", figure, f"{1 - LATE_MAX:.1%} of them", holds=late <= LATE_MAX)
    used = sum(remedies.values())
    holds = set(remedies) == {REMEDY} and sum(outcomes.values()) == result.sent and outcomes.get("review") == used
    figure = f"{used:,} by {', '.join(remedies) or 'nothing'}; outcomes {outcomes}"
    stand.report.judge(f"{title}: decisions counted add up", figure, f"{result.sent:,} in all", holds=holds)
    result, _, remedies = right
    used = sum(remedies.values())
    figure = f"{used:,} by the server, {result.mismatched:,} by the caller"
    holds = 0 < used == result.mismatched
    stand.report.judge(f"{title}: remedies that callers saw", figure, "the same", holds=holds)
    result, _, remedies = after
    holds = alive and not remedies and result.answered == result.sent
    figure = f"{sum(remedies.values())} remedies in {result.sent:,}, the same process" if alive else "it ended"
    stand.report.judge(f"{title}: recovered without a restart", figure, "0", holds=holds)


class _Redis:
    """A Redis that can be made to suffer; leaving ends it."""

    def __init__(self, program: str, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self._command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def suffer(self, phase_s: float) -> None:
        """Well, dead, well, stuck, well."""
        time.sleep(phase_s)
        self._kill()
        time.sleep(phase_s)
        self._start()
        time.sleep(phase_s)
        self._signal(signal.SIGSTOP)
        time.sleep(phase_s)
        self._signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self._fill()
                return
            time.sleep(_POLL_S)
        raise FlyballError("redis-server does not answer")

    def _fill(self) -> None:
        """Records as `flyball features push` writes them."""
        now_ms = int(time.time() * 1000)
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            for place in range(ACCOUNTS):
                record = json.dumps({"v": 1, "at": now_ms, "fields": {"risk": place / ACCOUNTS}})
                words = [b"SET", f"flyball:accounts:a{place}".encode(), record.encode()]
                connection.sendall(b"*3\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
            answers = connection.makefile("rb")
            if [answers.readline() for _ in range(ACCOUNTS)] != [b"+OK\r\n"] * ACCOUNTS:
                raise FlyballError("redis-server refuses the records")

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
