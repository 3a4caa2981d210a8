"""Topic: rollbacks under load: the time from the admin API's receipt to the bad version's last answer; no failed request."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from bench.claims.bars import below, none, seconds
from bench.claims.callers import Callers
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.registry.people import AUTHOR, PRODUCTION, Following, People, following
from bench.parts.here import until
from flyball.bench.models.fraud import make_fraud_gbdt
from flyball.native.load import LoadRun
from flyball.native.load_documents import Arrivals, LoadPlan, LoadResult

if TYPE_CHECKING:
    from bench.claims.callers import Answer
    from bench.claims.tails.stand import Stand

TURNS, RATE_PER_S, AROUND_S, BAR_S = 10, 1_000.0, 2.0, 1.0
CALLERS, WAIT_S = 2, 30.0
KEPT, NAME, GOOD, BAD = "turns", "fraud", "1", "2"


@dataclass(slots=True)
class Turn:
    """One rollback: how long the bad version went on to answer after the act was sent, and what failed meanwhile."""

    last_s: float
    acknowledged_s: float
    answers: int
    failed: int
    load: LoadResult
    late: int = field(default=0)
    """Answers of the bad version to questions that were asked after the server's acknowledgement."""


def measure(stand: Stand) -> None:
    """Ten times: the bad version is promoted, loaded, and rolled back over HTTP."""
    people = People(stand.folder / "rollback")
    good = people.version(NAME, stand.fraud.path)
    people.promote(good)
    bad = people.version(NAME, make_fraud_gbdt(stand.folder / "bad.onnx", trees=200, seed=8))
    people.promote(bad, ("dev", "staging"))
    turns = []
    with following(people, stand.server_cpus, stand.generator_cpus) as pair:
        for number in range(stand.repeats(TURNS)):
            people.promote(bad, (PRODUCTION,))
            until("the bad version serves", partial(pair.serves, NAME, int(BAD)), WAIT_S)
            turns.append(_turn(stand, pair))
            stand.tell(f"rollback {number + 1}: last answer after {turns[-1].last_s * 1e3:.0f} ms")
    people.registry.close()
    stand.keep(KEPT, turns)


def _turn(stand: Stand, pair: Following) -> Turn:
    payloads = stand.fraud.unchecked.payloads  # either version is right
    load = LoadRun(_plan(stand, pair.server.url), payloads)
    question = _question(payloads.split(b"\n", 1)[0])
    with Callers(pair.server.url, [lambda _: question] * CALLERS) as callers:
        until("callers are answered by the bad version", lambda: BAD in map(_version, callers.all()), WAIT_S)
        time.sleep(stand.seconds(AROUND_S))
        sent = time.monotonic()
        pair.admin.rollback(NAME, PRODUCTION, actor=AUTHOR, reason="measured")
        until("the good version serves", partial(pair.serves, NAME, int(GOOD)), WAIT_S)
        acknowledged = time.monotonic()
        time.sleep(stand.seconds(AROUND_S))
    load.stop()
    told = callers.all()
    bad = [one for one in told if _version(one) == BAD]
    return Turn(
        last_s=max(one.came for one in bad) - sent,
        acknowledged_s=acknowledged - sent,
        answers=len(told),
        failed=sum(_version(one) is None for one in told),
        load=load.result(),
        late=sum(one.asked >= acknowledged for one in bad),
    )


def _plan(stand: Stand, url: str) -> LoadPlan:
    arrivals = Arrivals(kind="constant", rate_per_s=RATE_PER_S)
    return LoadPlan(
        url=url,
        model=NAME,
        connections=8,
        threads=1,
        arrivals=arrivals,
        duration_s=2 * WAIT_S,
        cpus=list(stand.generator_cpus),
    )


def _question(payload: bytes) -> tuple[str, bytes]:
    return f"/v2/models/{NAME}/infer", json.dumps({"inputs": json.loads(payload)["inputs"]}).encode()


def _version(answer: Answer) -> str | None:
    return answer.content["model_version"] if answer.status == 200 else None


def _slowest(raw: Raw) -> Figure:
    worst = max(raw[KEPT], key=lambda turn: turn["last_s"])
    return Figure(worst["last_s"], f"acknowledged after {worst['acknowledged_s'] * 1e3:.0f} ms")


def _failed(raw: Raw) -> Figure:
    failed = sum(turn["failed"] + turn["load"]["failed"] + turn["load"]["refused"] for turn in raw[KEPT])
    asked = sum(turn["answers"] + turn["load"]["sent"] for turn in raw[KEPT])
    return Figure(failed, f"of {asked:,}", "" if asked else "nothing was asked")


def _late(raw: Raw) -> Figure:
    return Figure(sum(turn["late"] for turn in raw[KEPT]))


TOPIC = Topic(
    "rollback",
    measure,
    subject=f"rollbacks over the admin API under {RATE_PER_S:,.0f}/s",
    sample=f"{TURNS} rollbacks, the slowest counts",
    claims=(
        Claim("last", "from the act to the bad version's last answer", below(BAR_S, seconds), _slowest),
        Claim("failed", "requests that failed meanwhile", none(), _failed),
        Claim("late", "answers of the bad version to requests after the acknowledgement", none(), _late),
    ),
)
