"""Topic: PostgreSQL and an S3-compatible server are killed and restarted during acts, with servers under load.

Nothing that was answered is lost, every act that fails says so clearly, and the data planes never notice.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from statistics import median
from typing import TYPE_CHECKING

from bench.claims.bars import none, shown, times
from bench.claims.claim import Claim, Figure, Raw, Topic
from bench.claims.registry.clerk import Clerk
from bench.claims.registry.outages import NAME, SIZES, Outage, Outages
from bench.claims.registry.people import People, controlled, serving
from bench.claims.subjects import FLYBALLD, need
from bench.parts import postgres, s3
from bench.parts.here import NotHereError
from flyball.bench.models.perceptron import make_mlp
from flyball.bench.table import latency
from flyball.registry.home import RegistrySettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.claims.tails.stand import Stand

ROUNDS, SEED, RATE_PER_S = 10, 20261116, 500.0
VERBS = ("register", "promote production", "rollback", "sign", "approve")
FOUND = "found"


def measure(stand: Stand) -> None:
    """Each part so many times, in turn; every act is disturbed with the part back soon, and with it away."""
    with ExitStack() as stack:
        try:
            database = stack.enter_context(postgres.running())
            objects = stack.enter_context(_s3(stand))
        except NotHereError as missing:
            stand.not_measured(missing.message)
            return
        settings = RegistrySettings(
            database=database.new_database(),
            artifacts=f"s3://{s3.BUCKET}/registry",
            artifacts_endpoint=objects.endpoint,
            artifacts_region=s3.REGION,
        )
        people = People(stand.folder / "parts", settings)
        stack.callback(people.registry.close)
        people.promote(people.version(NAME, make_mlp(stand.folder / "first.onnx", SIZES)))
        clerk = stack.enter_context(Clerk())
        planes = [
            stack.enter_context(serving(people, stand.server_cpus)),
            stack.enter_context(controlled(people, need(FLYBALLD), stand.server_cpus)),
        ]
        outages = Outages(people, clerk, planes, rate_per_s=RATE_PER_S, cpus=stand.generator_cpus, seed=SEED)
        for number in range(stand.repeats(ROUNDS)):
            outages.calm()
            # Every verb twice running: once with the part away, once with it back soon.
            verb, back_soon = VERBS[number // 2 % len(VERBS)], number % 2 == 1
            outages.suffer(Outage(database, verb, back_soon, artifacts=False))
            outages.suffer(Outage(objects, verb, back_soon, artifacts=True))
            stand.tell(f"round {number + 1}: {sum(outages.found.answered.values())} acts answered, {outages.found.failed}")
        alive = all(plane.alive() for plane in planes)
    found = outages.found
    stand.keep(FOUND, {**{part.name: getattr(found, part.name) for part in fields(found)}, "alive": alive})


@contextmanager
def _s3(stand: Stand) -> Iterator[s3.S3Server]:
    """The server, with its credentials where every process of this one finds them."""
    server = s3.S3Server(stand.folder / "s3")
    os.environ.update(server.credentials)
    try:
        yield server
    finally:
        server.kill()
        for name in server.credentials:
            del os.environ[name]


def _lost(raw: Raw) -> Figure:
    found = raw[FOUND]
    told = f"{sum(found['answered'].values())} acts answered, {found['events']} events in {found['outages']} outages"
    return Figure(len(found["wrong"]), told + "".join(f": {one}" for one in found["wrong"][:1]))


def _unclear(raw: Raw) -> Figure:
    """Faults of acts that failed; `wrong` has those without exit 5, words and the next step, and those with false words."""
    found = raw[FOUND]
    acts = ", ".join(f"{count} {what}" for what, count in sorted(found["failed"].items()))
    told = f"{sum(found['failed'].values())} acts failed: {acts}; {found['kept_all_the_same']} of them stood, and said so"
    return Figure(len(found["wrong"]), told, "" if found["failed"] else "no act failed")


def _unanswered(raw: Raw) -> Figure:
    loads = raw[FOUND]["calm"] + raw[FOUND]["outage"]
    asked = sum(one["sent"] for one in loads)
    fault = "" if raw[FOUND]["alive"] and asked else "a server ended, or nothing was asked"
    return Figure(asked - sum(one["answered"] for one in loads), f"of {asked:,}", fault)


def _latency(raw: Raw) -> Figure:
    figures = {
        part: [median(one["latency_us"][part] for one in raw[FOUND][side]) for side in ("outage", "calm")]
        for part in ("p50", "p99")
    }
    told = "; ".join(f"{part} {latency(away)}, without an outage {latency(calm)}" for part, (away, calm) in figures.items())
    return Figure(figures["p50"][0] / figures["p50"][1], told)


TOPIC = Topic(
    "parts",
    measure,
    subject="PostgreSQL and an S3-compatible server killed during register, sign, approve, promote and rollback; "
    f"two servers at {RATE_PER_S:,.0f}/s each",
    sample=f"{ROUNDS} outages of each part, half of them until other acts were tried",
    claims=(
        Claim("lost", "faults: answered acts lost, or something that does not verify", none(), _lost),
        Claim("words", "failed acts without exit 5, a message and the next step, or with false words", none(), _unclear),
        Claim("requests", "requests that failed", none("both servers live"), _unanswered),
        Claim("latency", "p50 with an outage over without", shown(times), _latency),
    ),
)
