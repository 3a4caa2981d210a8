"""Topic: card-fraud's cost without waiting and the model, from the server's stage histograms."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from bench.claims.bars import at_most, us
from bench.claims.claim import Change, Claim, Figure, Raw, Topic
from bench.claims.decisions import example
from flyball.bench.run import run_load
from flyball.bench.stages import metrics, server_side
from flyball.errors import FlyballError
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from bench.claims.tails.stand import Stand
    from flyball.bench.record import ServerSide

RATE_PER_S, CONNECTIONS, WINDOW_S, REPEATS, CARDS = 2_000.0, 16, 5.0, 5, 10_000
LEFT_OUT = ("queue", "infer")
OURS, WINDOWS = "flyballd", "windows"
OWN_MAX_US = 25.0


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

    stand.keep(WINDOWS, stand.in_turn({OURS: window}, REPEATS))


def _figures(seen: ServerSide) -> dict[str, object]:
    p50 = {stage.stage: stage.p50_us for stage in seen.stages}
    left_out = sum(stage.mean_us * stage.count for stage in seen.stages if stage.stage in LEFT_OUT) / seen.whole.count
    return {"p50_us": p50, "own_us": seen.whole.mean_us - left_out, "whole_p50_us": seen.whole.p50_us}


def _own(raw: Raw) -> Figure:
    """In the mean, which adds up and has the slow decisions in it; a sum of the stages' medians is no decision's."""
    sides = raw.windows(WINDOWS)
    stages = sides.values(OURS, "p50_us")[-1]
    told = ", ".join(f"{stage} {took:.1f}" for stage, took in stages.items())
    whole = us(sides.median(OURS, "whole_p50_us"))
    return Figure(sides.median(OURS, "own_us"), f"p50 of the whole walk {whole}, of its stages {told}")


TOPIC = Topic(
    "stages",
    measure,
    subject=f"card-fraud at {RATE_PER_S:,.0f}/s, open loop, Poisson, by the server's own stage histograms",
    sample=f"{REPEATS} windows of {WINDOW_S:g} s, each on a server of its own",
    claims=(
        Claim(
            "own",
            f"a decision without {' and '.join(LEFT_OUT)}",
            at_most(OWN_MAX_US, us, "in the mean"),
            _own,
            shortfall="The stages' medians add up to 15 µs; the mean has the few decisions that the host interrupts.",
            changes=(Change("bar", "<= 25 µs", "It was the sum of the stages' medians, which is no decision's median."),),
        ),
    ),
)
