"""Topic: card-fraud's cost without waiting and the model, from the server's stage histograms."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from bench.claims.decisions import example
from bench.claims.report import discarded, median
from bench.claims.tails.stand import raw
from flyball.bench.run import run_load
from flyball.bench.stages import metrics, server_side
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand
    from flyball.bench.record import ServerSide

RATE_PER_S, CONNECTIONS, WINDOW_S, REPEATS, CARDS = 2_000.0, 16, 5.0, 5, 10_000
LEFT_OUT = ("queue", "infer")
OWN_MAX_US, APART_MAX_US = 25.0, 2.0


def measure(stand: Stand) -> None:
    """Some windows, each on a server of its own whose cache has seen every card."""
    made = example.make(stand.folder / "stages", CARDS // 10 if stand.quick else CARDS)
    payloads, seeds = made.payloads(), count(1)

    def window() -> dict[str, object]:
        with stand.serve_snapshot(made.index) as server:
            made.warm(server.url)
            before = metrics(server.url)
            plan = made.plan(
                server,
                stand.generator_cpus,
                connections=CONNECTIONS,
                arrivals=Arrivals(kind="poisson", rate_per_s=RATE_PER_S, seed=next(seeds)),
                duration_s=stand.seconds(WINDOW_S),
            )
            result = run_load(plan, payloads)
            seen = server_side(before, metrics(server.url), example.NAME)
        if result.failed or result.refused or result.mismatched or seen is None:
            raise FlyballError(f"{result.failed} failed, {result.refused} refused: {result.first_problem}")
        return _figures(seen)

    windows = stand.in_turn({"flyballd": window}, REPEATS)
    stand.keep("windows", raw(windows))
    title = f"card-fraud at {RATE_PER_S:,.0f}/s"
    own_claim, own_bar = f"{title}: all stages but {' and '.join(LEFT_OUT)}, p50", f"<= {OWN_MAX_US:g} µs"
    sum_claim, sum_bar = f"{title}: stages sum to the total, means", f"within {APART_MAX_US:g} µs"
    if doubt := stand.doubt(windows):
        stand.report.not_measured(own_claim, own_bar, doubt)
        stand.report.not_measured(sum_claim, sum_bar, doubt)
        return
    own = median([value["own_us"] for value in windows["flyballd"].values])
    apart = max(abs(value["apart_us"]) for value in windows["flyballd"].values)
    shown = windows["flyballd"].values[-1]["p50_us"]
    figure = f"{own:.1f} µs ({', '.join(f'{name} {took:.1f}' for name, took in shown.items())})"
    stand.report.record(own_claim, figure, f"{own_bar}, {discarded(windows)}", holds=own <= OWN_MAX_US)
    stand.report.record(sum_claim, f"{apart:.2f} µs apart", sum_bar, holds=apart <= APART_MAX_US)


def _figures(seen: ServerSide) -> dict[str, object]:
    p50 = {stage.stage: stage.p50_us for stage in seen.stages}
    return {
        "p50_us": p50,
        "own_us": sum(took for stage, took in p50.items() if stage not in LEFT_OUT),
        "apart_us": sum(stage.mean_us * stage.count for stage in seen.stages) / seen.whole.count - seen.whole.mean_us,
        "whole_p50_us": seen.whole.p50_us,
    }
