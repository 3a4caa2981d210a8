"""Topic: a feature's source is killed, restarted and paused, under load.

The open loop brings a deadline with each request. In one run every answer counts, so that lateness is seen; in the other
only those without a remedy are right, so that the generator's own count of remedies can be held against the server's.
"""

from __future__ import annotations

import json
import threading
import time
from typing import TYPE_CHECKING

from bench.claims.bars import at_most, none, share
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.decisions import specs
from bench.claims.decisions.counts import DECIDED, REMEDIED, count, gained
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
        stand.not_measured(missing.message)
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
    for name, (result, outcomes, remedies) in {"every": every, "right": right, "after": after}.items():
        stand.keep(name, {"result": result, "outcomes": outcomes, "remedies": remedies})
    stand.keep("alive", alive)


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


def _unanswered(raw: Raw) -> Figure:
    result = raw["every"]["result"]
    return Figure(
        result["sent"] - result["answered"], f"of {result['sent']:,}", "" if result["sent"] else "nothing was sent"
    )


def _late(raw: Raw) -> Figure:
    result = raw["every"]["result"]
    return Figure(result["past_deadline"] / max(result["sent"], 1), f"p99 {latency(result['latency_us']['p99'])}")


def _uncounted(raw: Raw) -> Figure:
    """Requests that are in no outcome, and remedies of another cause or without their outcome."""
    result, outcomes, remedies = (raw["every"][part] for part in ("result", "outcomes", "remedies"))
    used = sum(remedies.values())
    fault = (
        "" if set(remedies) == {REMEDY} and outcomes.get("review") == used else f"remedies {remedies}, outcomes {outcomes}"
    )
    return Figure(abs(result["sent"] - sum(outcomes.values())), f"of {result['sent']:,}; {used:,} remedied", fault)


def _unseen(raw: Raw) -> Figure:
    used, seen = sum(raw["right"]["remedies"].values()), raw["right"]["result"]["mismatched"]
    return Figure(abs(used - seen), f"{used:,} by the server, {seen:,} by callers", "" if used else "no remedy was needed")


def _after(raw: Raw) -> Figure:
    result, used = raw["after"]["result"], sum(raw["after"]["remedies"].values())
    faults = ["the process ended"] if not raw["alive"] else []
    faults += [f"{result['answered']:,} answered"] if result["answered"] != result["sent"] else []
    return Figure(used, f"of {result['sent']:,}, the same process", "; ".join(faults))


TOPIC = Topic(
    "redis",
    measure,
    subject=f"a decision with a feature from Redis at {RATE_PER_S:,.0f}/s; Redis is killed, started, stopped, let go",
    sample=f"phases of {PHASE_S:g} s, every request with a deadline of {DEADLINE_MS} ms",
    claims=(
        Claim("answered", "requests without an answer", none(), _unanswered),
        Claim("late", "answered after the deadline", at_most(LATE_MAX, share), _late),
        Claim(
            "counted", "requests that the server's outcomes do not count", none("remedies only for the feature"), _uncounted
        ),
        Claim("seen", "remedies on which server and callers differ", none(), _unseen),
        Claim("after", "remedies once Redis is well", none("the same process"), _after),
    ),
)
