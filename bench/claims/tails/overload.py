"""Topic: twice the server's capacity for a minute; then the cost of refusals where runs are cheap."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from bench.claims.tails import refusals
from bench.claims.tails.curve import CONNECTIONS, capacity_per_s, draw_curve, rivals_curves
from bench.claims.tails.loads import run_watched, time_line
from bench.claims.tails.stand import goodput_per_s, slim
from flyball.bench.machine import HostWatch
from flyball.bench.statistics import STEAL_MAX
from flyball.bench.table import latency, size
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from bench.claims.subjects import Subject
    from bench.claims.tails.loads import Watched
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

RUN_MS, DEADLINE_MS = 1.6, 50
OVER, LASTS_S, HALF_S, SHORT_S = 2.0, 60.0, 5.0, 3.0
GOODPUT_MIN, EACH_SECOND_MIN = 0.90, 0.80
MEMORY_WITHIN, BACK_S_MAX = 0.05, 0.100
_SETTLE_S, _TRIES = 1.0, 2


def measure(stand: Stand) -> None:
    """The slow model's minute with its curve beside the rivals', then the GBDT's refusals."""
    slow = stand.cnn("slow", RUN_MS)
    curve = draw_curve(stand, "flyballd", slow, lambda: stand.serve(slow), DEADLINE_MS)
    with stand.serve(slow) as server:
        capacity = capacity_per_s(stand, slow, server)
        peak = max(capacity, *(point["goodput_per_s"] for point in curve["points"] if point["multiple"] <= 1))
        usual = median(_watched(stand, slow, server, capacity / 2, HALF_S).depth_loaded)
        # Buffers for so many connections come with the first overload; what may not be is growth while it lasts.
        at_half_load = server.rss_bytes()
        _watched(stand, slow, server, OVER * capacity, SHORT_S)
        before = server.rss_bytes()
        stand.tell(f"{OVER:g} times {capacity:,.0f}/s, {stand.seconds(LASTS_S):g} s")
        for _ in range(_TRIES):  # a minute that the host disturbed is measured once more
            with HostWatch() as host:
                minute = _watched(stand, slow, server, OVER * capacity, LASTS_S)
            if host.seen.steal_share <= STEAL_MAX:
                break
        time.sleep(_SETTLE_S)
        after = server.rss_bytes()
    stand.keep("deadline_ms", DEADLINE_MS)
    stand.keep("minute", {**slim(minute.result), "steal_share": host.seen.steal_share, "capacity_per_s": capacity})
    stand.keep("minute_by_second", time_line(minute.result, DEADLINE_MS))
    stand.keep("depth", {"usual": usual, "samples": minute.depth})
    stand.keep("memory_bytes", {"half load": at_half_load, "before": before, "after": after})
    _judge_minute(stand, minute, capacity, peak, _doubt(host.seen.steal_share))
    _judge_rest(stand, minute, usual, (before, after))
    stand.keep("curves", {"flyballd": curve, **rivals_curves(stand, slow, DEADLINE_MS)})
    refusals.measure(stand)


def _watched(stand: Stand, subject: Subject, server: Process, rate_per_s: float, seconds: float) -> Watched:
    plan = subject.plan(
        server,
        CONNECTIONS,
        arrivals=Arrivals(kind="poisson", rate_per_s=rate_per_s, seed=2),
        duration_s=stand.seconds(seconds),
        interval_s=1.0,
        deadline_ms=DEADLINE_MS,
        timeout_ms=1000,
    )
    return run_watched(plan, subject.payloads, server.url)


def _doubt(steal_share: float) -> str | None:
    return f"the host took {steal_share:.0%} of the CPU time, {_TRIES} times" if steal_share > STEAL_MAX else None


def _judge_minute(stand: Stand, minute: Watched, capacity: float, peak: float, doubt: str | None) -> None:
    result = minute.result
    good, p99 = goodput_per_s(result), result.latency_us.p99
    # The last interval may be a part of a second.
    lines = [line for line in time_line(result, DEADLINE_MS) if line["start_s"] + 1 <= stand.seconds(LASTS_S)]
    worst = min((line["in_time"] + line["late"] for line in lines), default=0.0)
    where = f"{RUN_MS:g} ms a run, {OVER:g} × capacity, {stand.seconds(LASTS_S):g} s"
    verdicts = [
        (
            f"{where}: goodput of peak",
            f"{good / peak:.0%} ({good:,.0f}/s of {peak:,.0f}/s; {result.refused:,} refused)",
            f">= {GOODPUT_MIN:.0%}",
            good >= GOODPUT_MIN * peak,
        ),
        (f"{where}: p99 of accepted", latency(p99), f"<= {DEADLINE_MS} ms, the deadline", p99 <= DEADLINE_MS * 1e3),
        (
            f"{where}: accepted in every second",
            f"worst {worst / capacity:.0%} ({worst:,.0f} of {capacity:,.0f})",
            f">= {EACH_SECOND_MIN:.0%} of capacity",
            worst >= EACH_SECOND_MIN * capacity,
        ),
    ]
    for claim, figure, bar, holds in verdicts:
        if doubt:
            stand.report.not_measured(claim, bar, doubt)
        else:
            stand.report.record(claim, figure, bar, holds=holds)


def _judge_rest(stand: Stand, minute: Watched, usual: float, memory: tuple[int, int]) -> None:
    before, after = memory
    stand.report.record(
        "overload: memory at its end over after its first seconds",
        f"{after / before:.3f} ({size(before)}, {size(after)})",
        f"within {MEMORY_WITHIN:.0%}",
        holds=abs(after / before - 1) <= MEMORY_WITHIN,
    )
    back_s = minute.back_after_s(usual)
    stand.report.record(
        "overload: queue depth back at its median after the load's end",
        "never" if back_s is None else f"{max(back_s, 0) * 1e3:.0f} ms (median {usual:g} at half load)",
        f"<= {BACK_S_MAX * 1e3:.0f} ms",
        holds=back_s is not None and back_s <= BACK_S_MAX,
    )
