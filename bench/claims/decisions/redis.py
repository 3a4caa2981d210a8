"""Topic: a feature's source is killed, restarted and paused, under load.

The open loop brings a deadline with each request. In one run every answer counts, so that lateness is seen; in the other
only those without a remedy are right, so that the generator's own count of remedies can be held against the server's.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

from bench.claims.decisions import specs
from bench.claims.decisions.counts import DECIDED, REMEDIED, count, gained
from bench.claims.tails.stand import slim
from bench.parts.here import NotHereError
from bench.parts.redis import RedisServer
from flyball.bench.run import run_load
from flyball.bench.table import latency
from flyball.decision.decision import Decision
from flyball.native.load_documents import Arrivals, LoadPlan, Warmup

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process
    from flyball.native.load_documents import LoadResult

DECISION = "looked-up"
RATE_PER_S, CONNECTIONS, ACCOUNTS = 1_000.0, 16, 200
PHASE_S, DEADLINE_MS, SOURCE_TIMEOUT_MS = 3.0, 50, 10
LATE_MAX = 0.001
REMEDY = "feature_unavailable"


def measure(stand: Stand) -> None:
    """Both runs, then one that shows that all is well again, on the same server from beginning to end."""
    try:
        redis = RedisServer(stand.folder)
    except NotHereError as missing:
        stand.report.not_measured("a source killed, slowed and restarted under load", "", missing.message)
        return
    try:
        _fill(redis)
        path = specs.write(stand.folder / DECISION, specs.looked_up(redis.url, SOURCE_TIMEOUT_MS), DECISION)
        index = Decision.load(path).bundle().write(path.parent / "snapshot")
        with stand.serve_snapshot(index) as server:
            pid = server.pid

            def faults() -> None:
                _suffer(redis, stand.seconds(PHASE_S))

            every = _counted(stand, server, '"outcome":', faults, phases=5)
            right = _counted(stand, server, '"remedy":null', faults, phases=5)
            after = _counted(stand, server, '"remedy":null', None, phases=1)
            alive = server.alive() and server.pid == pid
    finally:
        redis.kill()
    _record(stand, every, right, after, alive=alive)


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


def _record(stand: Stand, every: Counted, right: Counted, after: Counted, *, alive: bool) -> None:
    for name, (result, outcomes, remedies) in {"every": every, "right": right, "after": after}.items():
        stand.keep(name, {"result": slim(result), "outcomes": outcomes, "remedies": remedies})
    title = f"source killed, restarted and stopped at {RATE_PER_S:,.0f}/s"
    result, outcomes, remedies = every
    answered = f"{result.answered:,} of {result.sent:,}"
    stand.report.record(f"{title}: answered", answered, "all", holds=result.answered == result.sent)
    late = result.past_deadline / max(result.sent, 1)
    figure = f"{late:.3%} later, p99 {latency(result.latency_us.p99)}"
    stand.report.record(f"{title}: within {DEADLINE_MS} ms", figure, f"{1 - LATE_MAX:.1%} of them", holds=late <= LATE_MAX)
    used = sum(remedies.values())
    holds = set(remedies) == {REMEDY} and sum(outcomes.values()) == result.sent and outcomes.get("review") == used
    figure = f"{used:,} by {', '.join(remedies) or 'nothing'}; outcomes {outcomes}"
    stand.report.record(f"{title}: decisions counted add up", figure, f"{result.sent:,} in all", holds=holds)
    result, _, remedies = right
    used = sum(remedies.values())
    figure = f"{used:,} by the server, {result.mismatched:,} by the caller"
    holds = 0 < used == result.mismatched
    stand.report.record(f"{title}: remedies that callers saw", figure, "the same", holds=holds)
    result, _, remedies = after
    holds = alive and not remedies and result.answered == result.sent
    figure = f"{sum(remedies.values())} remedies in {result.sent:,}, the same process" if alive else "it ended"
    stand.report.record(f"{title}: recovered without a restart", figure, "0", holds=holds)


def _suffer(redis: RedisServer, phase_s: float) -> None:
    """Well, dead, well, stuck, well."""
    time.sleep(phase_s)
    redis.kill()
    time.sleep(phase_s)
    redis.run()
    _fill(redis)
    time.sleep(phase_s)
    redis.hold()
    time.sleep(phase_s)
    redis.let_go()


def _fill(redis: RedisServer) -> None:
    for place in range(ACCOUNTS):
        redis.put(f"flyball:accounts:a{place}", {"risk": place / ACCOUNTS})
