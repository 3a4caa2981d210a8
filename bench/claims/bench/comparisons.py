"""Topic: the same server against itself, and against one that is 20 % slower, again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.claims.bars import at_least, share
from bench.claims.bench import subjects
from bench.claims.bench.subjects import SERVICE_US, SLOWER_US, echo
from bench.claims.claim import Change, Claim, Figure, Topic
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
WIDTH_MAX = SLOWER_US / SERVICE_US - 1
_WARMUP = Warmup(least_s=0.3, most_s=0.3)


def measure(stand: Stand) -> None:
    """Of each comparison it is kept what it shows, and how wide its interval is."""
    gbdt, rounds = subjects.gbdt(stand), stand.repeats(ROUNDS)
    rows = subjects.rows_of(gbdt)
    with flyballd(gbdt, stand.folder) as server:
        same = Server("A", server.url), Server("B", server.url)
        stand.keep("flyballd", [_compared(gbdt.name, gbdt.payloads, same, None, stand.folder) for _ in range(rounds)])
    with echo("--service-us", SERVICE_US) as a, echo("--service-us", SLOWER_US) as b:
        same = Server("A", a.url, path="/"), Server("B", a.url, path="/")
        stand.keep("known", [_compared("echo", rows, same, "/", stand.folder) for _ in range(rounds)])
        apart = Server("A", a.url, path="/"), Server("B", b.url, path="/")
        stand.keep("slower", [_compared("echo", rows, apart, "/", stand.folder) for _ in range(rounds)])


def _compared(model: str, rows: bytes, sides: tuple[Server, Server], path: str | None, folder: Path) -> dict[str, Any]:
    cores = Cores.here()
    requests = Requests(model, None, rows, PayloadSource())
    plan = LoadPlan(
        url=sides[0].url, model=model, path=path, connections=4, duration_s=0.5, warmup=_WARMUP, cpus=cores.generator
    )
    with Measurement(new_record(["claim-bench"], requests, cores), folder / "pairs.json", rows) as measurement:
        found = measure_pairs(measurement, sides, plan, repeats=PAIRS, progress=_Silent())
    p50 = next(one for one in found.figures if one.name == "p50")
    return {"shown": found.shown, "p50": p50.verdict, "width": p50.interval.high / p50.interval.low - 1}


def _alike(name: str) -> Callable[[Raw], Figure]:
    """No difference shown, by an interval in which a server that is slower by a fifth would have been found."""

    def figure(raw: Raw) -> Figure:
        found = raw[name]
        right = sum(not one["shown"] and one["width"] <= WIDTH_MAX for one in found)
        widest = max(one["width"] for one in found)
        return Figure(right / len(found), f"{right} of {len(found)}; the widest interval of p50 {share(widest)}")

    return figure


def _slower(raw: Raw) -> Figure:
    right = sum(one["p50"] == "slower" for one in raw["slower"])
    return Figure(right / len(raw["slower"]), f"{right} of {len(raw['slower'])}")


class _Silent:
    """Progress that shows nothing."""

    def begin(self, name: str, total: float) -> _Silent:
        del name, total
        return self

    def update(self, completed: float, told: str) -> None:
        pass

    def end(self, told: str) -> None:
        pass


_ALIKE = at_least(RIGHT_MIN, share, f"p50 in an interval of at most {share(WIDTH_MAX)}")
_CHANGES = (Change("bar", ">= 90 %", "An interval of any width counted: the noisier the windows, the more surely."),)
TOPIC = Topic(
    "comparisons",
    measure,
    subject="`flyball bench compare`, 4 connections, closed loop",
    sample=f"{ROUNDS} comparisons of {PAIRS} pairs of windows",
    claims=(
        Claim(
            "flyballd",
            "flyballd against itself: no difference shown",
            _ALIKE,
            _alike("flyballd"),
            changes=_CHANGES,
        ),
        Claim(
            "known",
            "a server with a known service time against itself: no difference shown",
            _ALIKE,
            _alike("known"),
            changes=_CHANGES,
        ),
        Claim(
            "slower",
            f"service time {SLOWER_US} µs against {SERVICE_US} µs: found slower",
            at_least(RIGHT_MIN, share),
            _slower,
        ),
    ),
)
