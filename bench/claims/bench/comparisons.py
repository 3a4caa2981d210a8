"""Topic: the same server against itself, and against one that is 20 % slower, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.claims.bars import at_least, share
from bench.claims.bench import subjects
from bench.claims.bench.subjects import SERVICE_US, SLOWER_US, echo
from bench.claims.claim import Claim, Figure, Topic
from bench.claims.subjects import flyballd
from flyball.bench.compare import measure_pairs
from flyball.bench.measure import Measurement
from flyball.bench.measure import Subject as Server
from flyball.bench.scenario import PayloadSource
from flyball.bench.scenario_run import Cores, Requests, new_record
from flyball.native.load_documents import LoadPlan, Warmup

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.claims.claim import Raw
    from bench.claims.tails.stand import Stand

ROUNDS, RIGHT_MIN, PAIRS = 10, 0.9, 8
_WARMUP = Warmup(least_s=0.3, most_s=0.3)


def measure(stand: Stand) -> None:
    """Each comparison's verdict is kept: whether it shows a difference."""
    gbdt, rounds = subjects.gbdt(stand), stand.repeats(ROUNDS)
    rows = subjects.rows_of(gbdt)
    with flyballd(gbdt, stand.folder) as server:
        same = Server("A", server.url), Server("B", server.url)
        shown = [_differs(gbdt.name, gbdt.payloads, same, None, stand.folder) for _ in range(rounds)]
    stand.keep("flyballd", shown)
    with echo("--service-us", SERVICE_US) as a, echo("--service-us", SLOWER_US) as b:
        same = Server("A", a.url, path="/"), Server("B", a.url, path="/")
        stand.keep("known", [_differs("echo", rows, same, "/", stand.folder) for _ in range(rounds)])
        apart = Server("A", a.url, path="/"), Server("B", b.url, path="/")
        stand.keep("slower", [_differs("echo", rows, apart, "/", stand.folder) for _ in range(rounds)])


def _differs(model: str, rows: bytes, sides: tuple[Server, Server], path: str | None, folder: Path) -> bool:
    cores = Cores.here()
    requests = Requests(model, None, rows, PayloadSource())
    plan = LoadPlan(
        url=sides[0].url, model=model, path=path, connections=4, duration_s=0.5, warmup=_WARMUP, cpus=cores.generator
    )
    with Measurement(new_record(["claim-bench"], requests, cores), folder / "pairs.json", rows) as measurement:
        return measure_pairs(measurement, sides, plan, repeats=PAIRS, progress=_Silent()).shown


def _right(name: str, *, differs: bool) -> Callable[[Raw], Figure]:
    def figure(raw: Raw) -> Figure:
        right = sum(shown == differs for shown in raw[name])
        return Figure(right / len(raw[name]), f"{right} of {len(raw[name])}")

    return figure


class _Silent:
    """Progress that shows nothing."""

    def begin(self, name: str, total: float) -> _Silent:
        del name, total
        return self

    def update(self, completed: float, told: str) -> None:
        pass

    def end(self, told: str) -> None:
        pass


TOPIC = Topic(
    "comparisons",
    measure,
    subject="`flyball bench compare`, 4 connections, closed loop",
    sample=f"{ROUNDS} comparisons of {PAIRS} pairs of windows",
    claims=(
        Claim(
            "flyballd",
            "flyballd against itself: no difference shown",
            at_least(RIGHT_MIN, share),
            _right("flyballd", differs=False),
        ),
        Claim(
            "known",
            "a server with a known service time against itself: no difference shown",
            at_least(RIGHT_MIN, share),
            _right("known", differs=False),
        ),
        Claim(
            "slower",
            f"service time {SLOWER_US} µs against {SERVICE_US} µs: found slower",
            at_least(RIGHT_MIN, share),
            _right("slower", differs=True),
        ),
    ),
)
