"""Topic: twice the server's capacity for a minute; then the cost of refusals where runs are cheap."""

from __future__ import annotations

import math
import time
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.claims.bars import at_least, at_most, ms, none, share, us
from bench.claims.claim import Claim, Figure, NotMeasuredError, Raw, Topic
from bench.claims.tails import refusals
from bench.claims.tails.curve import CONNECTIONS, capacity_per_s, draw_curve, rivals_curves
from bench.claims.tails.loads import back_after_s, failed_of, goodput_of, run_watched, time_line, unsent_of
from bench.claims.windows import Windows
from flyball.bench.machine import HostWatch
from flyball.bench.table import size
from flyball.native.load_documents import Arrivals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.claims.subjects import Subject
    from bench.claims.tails.loads import Watched
    from bench.claims.tails.stand import Stand
    from flyball.bench.process import Process

RUN_MS, DEADLINE_MS = 1.6, 50
OVER, LASTS_S, HALF_S, SHORT_S = 2.0, 60.0, 5.0, 3.0
GOODPUT_MIN, EACH_SECOND_MIN, UNSENT_MAX = 0.90, 0.80, 0.01
MEMORY_WITHIN, BACK_MS_MAX = 0.05, 100.0
_SETTLE_S, _TRIES = 1.0, 2
OURS, MINUTE = "flyballd", "minute"


def measure(stand: Stand) -> None:
    """The slow model's minute with its curve beside the rivals' and the GBDT's, then the GBDT's refusals."""
    slow = stand.cnn("slow", RUN_MS)
    curve = draw_curve(stand, OURS, slow, lambda: stand.serve(slow), DEADLINE_MS)
    with stand.serve(slow) as server:
        capacity = capacity_per_s(stand, slow, server)
        usual = median(_watched(stand, slow, server, capacity / 2, HALF_S).depth_loaded)
        # Buffers for so many connections come with the first overload; what may not be is growth while it lasts.
        at_half_load = server.rss_bytes()
        _watched(stand, slow, server, OVER * capacity, SHORT_S)
        before = server.rss_bytes()
        stand.tell(f"{OVER:g} times {capacity:,.0f}/s, {stand.seconds(LASTS_S):g} s")
        windows, lines, depths = Windows(), [], []
        for _ in range(_TRIES):  # a minute that the host disturbed is measured once more
            with HostWatch() as host:
                minute = _watched(stand, slow, server, OVER * capacity, LASTS_S)
            lines.append(time_line(minute.result, DEADLINE_MS))
            depths.append(minute.depth)
            if windows.keep(minute.result, host.seen.steal_share):
                break
        time.sleep(_SETTLE_S)
        after = server.rss_bytes()
    stand.keep("deadline_ms", DEADLINE_MS)
    stand.keep("capacity_per_s", capacity)
    stand.keep("lasts_s", stand.seconds(LASTS_S))
    stand.keep("minute", {MINUTE: windows})
    stand.keep("minute_by_second", lines[-1])
    stand.keep("depth", {"usual": usual, "samples": depths[-1]})
    stand.keep("memory_bytes", {"half load": at_half_load, "before": before, "after": after})
    curves = {OURS: curve, refusals.CURVE: refusals.curve(stand)}
    stand.keep("curves", curves)
    curves.update(rivals_curves(stand, slow, DEADLINE_MS))
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


def _minute(raw: Raw) -> Mapping[str, Any]:
    """The minute that counts: the host left it alone."""
    windows = raw.windows("minute").found[MINUTE]
    if not windows["values"]:
        raise NotMeasuredError(f"{len(windows['discarded'])} minutes discarded: {windows['discarded'][-1]['reason']}")
    minute: Mapping[str, Any] = windows["values"][0]
    return minute


def _goodput(raw: Raw) -> Figure:
    minute, points = _minute(raw), raw["curves"][OURS]["points"]
    peak = max(raw["capacity_per_s"], *(point["goodput_per_s"] for point in points if point["multiple"] <= 1))
    good = goodput_of(minute)
    return Figure(good / peak, f"{good:,.0f}/s of {peak:,.0f}/s; {minute['refused']:,} refused")


def _failed(raw: Raw) -> Figure:
    """Without those that the generator did not send; where these are many, the server was not offered the load."""
    minute = _minute(raw)
    unsent = unsent_of(minute)
    fault = f"the generator did not send {unsent:,}" if unsent > UNSENT_MAX * minute["sent"] else ""
    return Figure(failed_of(minute), f"of {minute['sent']:,}; {unsent:,} were not sent", fault)


def _p99(raw: Raw) -> Figure:
    return Figure(_minute(raw)["latency_us"]["p99"])


def _every_second(raw: Raw) -> Figure:
    _minute(raw)
    # The last interval may be a part of a second.
    whole = [line for line in raw["minute_by_second"] if line["start_s"] + 1 <= raw["lasts_s"]]
    worst, capacity = min((line["in_time"] + line["late"] for line in whole), default=0.0), raw["capacity_per_s"]
    return Figure(worst / capacity, f"the worst {worst:,.0f} of {capacity:,.0f}")


def _memory(raw: Raw) -> Figure:
    before, after = raw["memory_bytes"]["before"], raw["memory_bytes"]["after"]
    return Figure(abs(after / before - 1), f"{size(before)}, {size(after)}")


def _back(raw: Raw) -> Figure:
    usual = raw["depth"]["usual"]
    back = back_after_s(raw["depth"]["samples"], usual)
    return Figure(math.inf if back is None else max(back, 0) * 1e3, f"median {usual:g} at half load")


TOPIC = Topic(
    "overload",
    measure,
    subject=f"CNN of {RUN_MS:g} ms at {OVER:g} × capacity, open loop, {CONNECTIONS} connections, deadline {DEADLINE_MS} ms",
    sample=f"one minute of {LASTS_S:g} s; measured again if the host disturbed it",
    claims=(
        Claim("goodput", "goodput of peak", at_least(GOODPUT_MIN, share), _goodput),
        Claim("failed", "requests that failed or were answered wrongly", none(f"{1 - UNSENT_MAX:.0%} were sent"), _failed),
        Claim("p99", "p99 of accepted requests, the deadline", at_most(DEADLINE_MS * 1e3, us), _p99),
        Claim("every-second", "accepted in every second, of capacity", at_least(EACH_SECOND_MIN, share), _every_second),
        Claim("memory", "memory at its end beside after its first seconds, apart", at_most(MEMORY_WITHIN, share), _memory),
        Claim("queue", "queue depth back at its median after the load's end", at_most(BACK_MS_MAX, ms), _back),
        *refusals.CLAIMS,
    ),
)
