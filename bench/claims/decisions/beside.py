"""Topic: requests per second of card-fraud against the same logic in FastAPI, orjson and ONNX Runtime, on the same core."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.bars import at_least, none, times
from bench.claims.claim import Change, Claim, Topic
from bench.claims.decisions import example
from bench.claims.figures import over_best, wrong_of
from bench.peers.peers import choose, environment, install
from flyball.bench.process import Process
from flyball.bench.run import run_load
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.claims.tails.stand import Stand

CONNECTIONS, WINDOW_S, REPEATS, CARDS = 16, 3.0, 5, 60_000
OVER_MIN = 12.0
COMPARED, WITHIN = 500, 1e-6
OURS, THEIRS = "flyballd", "FastAPI"
_PEER = Path(__file__).with_name("peer.py")
RATES, APART = "card-fraud, per_s", "apart"


def measure(stand: Stand) -> None:
    """Windows in turn. Each has a server of its own, so that what one window counted is not in the next one's windows."""
    (fastapi,) = choose(["fastapi"])
    installed = install(fastapi)
    if isinstance(installed, str):
        stand.not_measured(f"FastAPI did not install: {installed[-200:]}")
        return
    # The peer tells the rules' reasons and computes no contributions, so flyballd does not either.
    made = example.make(stand.folder, CARDS // 20 if stand.quick else CARDS, explain="asked")
    starts: dict[str, Callable[[], Process]] = {
        OURS: lambda: stand.serve_snapshot(made.index),
        THEIRS: lambda: Process(
            [str(installed.python), str(_PEER), str(made.folder)], cpus=stand.server_cpus, environment=environment(fastapi)
        ),
    }
    _keep_logic(stand, made, starts)
    payloads = made.payloads()

    def rate(start: Callable[[], Process]) -> float:
        with start() as server:
            made.warm(server.url)
            plan = made.plan(server, stand.generator_cpus, connections=CONNECTIONS, duration_s=stand.seconds(WINDOW_S))
            result = run_load(plan, payloads)
        if result.failed or result.refused or result.mismatched:
            raise FlyballError(f"{result.failed} failed, {result.refused} refused: {result.first_problem}")
        return result.rate_per_s

    windows = stand.in_turn({name: lambda start=start: rate(start) for name, start in starts.items()}, REPEATS)  # type: ignore[misc]
    stand.keep(RATES, windows)


def _keep_logic(stand: Stand, made: example.Example, starts: dict[str, Callable[[], Process]]) -> None:
    """Both must decide the same, or the comparison is of two different things."""
    answers = {}
    for name, start in starts.items():
        with start() as server:
            made.warm(server.url)
            answers[name] = example.ask_rows(server.url, made.rows[:COMPARED])
    apart = [
        (one, other)
        for one, other in zip(answers[OURS], answers[THEIRS], strict=True)
        if one.get("outcome") != other["outcome"] or abs((one.get("score") or 0.0) - other["score"]) > WITHIN
    ]
    stand.keep(APART, {"total": COMPARED, "wrong": len(apart), "examples": [str(one) for one in apart[:10]]})


_SUBJECT = (
    f"card-fraud without contributions, {CONNECTIONS} connections, closed loop; the same logic in {{}} "
    "and ONNX Runtime, on the same core"
)
_CHANGES = (Change("subject", _SUBJECT.format("FastAPI, NumPy"), "The peer read and wrote JSON by the standard library."),)
TOPIC = Topic(
    "beside",
    measure,
    subject=_SUBJECT.format("FastAPI, orjson, NumPy"),
    sample=f"{REPEATS} windows of {WINDOW_S:g} s a side, in turn, each on a server of its own",
    claims=(
        Claim(
            "same",
            "decisions in which the FastAPI peer differs",
            none(),
            wrong_of(APART),
            sample=f"{COMPARED} rows",
            changes=_CHANGES,
        ),
        Claim(
            "over-fastapi",
            "requests a second over FastAPI's",
            at_least(OVER_MIN, times),
            over_best(RATES, OURS, (THEIRS,)),
            shortfall="The bar was set when the peer read and wrote JSON by the standard library. A decision costs 26 µs: "
            "9 in ONNX Runtime, 8 in the kernel's sockets.",
            changes=_CHANGES,
        ),
    ),
)
