"""Topic: PostgreSQL and an S3-compatible server are killed and restarted during acts, with servers under load.

Nothing that was answered is lost, every act that fails says so clearly, and the data planes never notice.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING

from bench.claims.registry.clerk import Clerk
from bench.claims.registry.outages import NAME, SIZES, Found, Outage, Outages
from bench.claims.registry.people import People, controlled, serving
from bench.claims.report import median
from bench.claims.subjects import FLYBALLD, need
from bench.claims.tails.stand import slim
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
CLAIM = "PostgreSQL and S3 killed in the midst of register, sign, approve, promote and rollback"


def measure(stand: Stand) -> None:
    """Each part so many times, in turn; every act is disturbed with the part back soon, and with it away."""
    with ExitStack() as stack:
        try:
            database = stack.enter_context(postgres.running())
            objects = stack.enter_context(_s3(stand))
        except NotHereError as missing:
            stand.report.not_measured(CLAIM, "nothing lost, clear errors, no failed request", missing.message)
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
    _record(stand, outages.found, alive=alive)


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


def _record(stand: Stand, found: Found, *, alive: bool) -> None:
    report = stand.report
    windows = {"calm": [slim(one) for one in found.calm], "outage": [slim(one) for one in found.outage]}
    stand.keep("found", {**{part.name: getattr(found, part.name) for part in fields(found)}, **windows})
    title = f"{CLAIM}, {found.outages} times"
    fault = "".join(f": {one}" for one in found.wrong[:1])
    figure = f"{found.answered.total()} acts answered, {found.events} events; {len(found.wrong)} faults{fault}"
    report.record(f"{title}: nothing lost", figure, "every answered act is there, all verifies", holds=not found.wrong)
    acts = ", ".join(f"{count} {what}" for what, count in sorted(found.failed.items()))
    figure = f"{found.failed.total()}: {acts}; {found.kept_all_the_same} of them stood, and said so"
    bar = "exit 5, words and the next step; never a false word"
    report.record(f"{title}: acts that failed", figure, bar, holds=not found.wrong and found.failed.total() > 0)
    asked = sum(one.sent for one in found.calm + found.outage)
    lost = asked - sum(one.answered for one in found.calm + found.outage)
    report.record(f"{title}: requests that failed", f"{lost:,} of {asked:,}", "none", holds=alive and not lost and asked > 0)
    figures = {
        part: [median([getattr(one.latency_us, part) for one in side]) for side in (found.outage, found.calm)]
        for part in ("p50", "p99")
    }
    told = "; ".join(f"{part} {latency(away)}, before {latency(calm)}" for part, (away, calm) in figures.items())
    report.record(f"{title}: latency in the windows with an outage", told, "told, not judged", holds=True)
