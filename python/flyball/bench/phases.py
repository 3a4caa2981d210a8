"""Runs a scenario's phases on a running server.

The search measures rates in windows; a window that the host disturbed, or whose p99 interval contains the limit, is
repeated. Must not know how servers are started.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import zip_longest
from random import Random
from typing import TYPE_CHECKING, Any

from flyball.bench.record import RateKept
from flyball.bench.search import Bisection, Bracket
from flyball.bench.statistics import STEAL_MAX, figures, mean_interval
from flyball.bench.trace import read_trace
from flyball.native.load_documents import Arrivals, LoadPlan, Warmup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from flyball.bench.measure import Measurement, Subject
    from flyball.bench.progress import Progress, Step
    from flyball.bench.record import Phase, Window
    from flyball.bench.scenario import Scenario, Search, Slo
    from flyball.bench.search import Tried

_WINDOWS_FOR_YES, _WINDOWS_MAX = 2, 3
_SILENT_MAX = 3
_SEARCH_BLOCKS = 20  # enough for an interval of p99; more would bloat the record
_REQUESTS_MIN = 1000  # below that, a window's p99 depends on ten requests
_STRETCH_MAX = 10.0
_RAMP_FROM = 0.1
_THREADS_MAX = 8
_WARMUP_LEAST_S, _WARMUP_MOST_S = 0.5, 3.0


class Phases:
    """The phases of one scenario on one server."""

    def __init__(
        self, scenario: Scenario, measurement: Measurement, subject: Subject, cpus: list[int] | None, progress: Progress
    ) -> None:
        self._scenario = scenario
        self._measurement = measurement
        self._subject = subject
        self._cpus = cpus
        self._progress = progress
        trace_file = scenario.arrivals.trace_file
        self._offsets_s = read_trace(trace_file) if trace_file is not None else None  # read once: it may be long

    def steady(self, repeats: int | None = None, first_repeat: int = 0) -> None:
        """Windows at one rate, for the published percentiles."""
        wanted = self._scenario.steady
        if wanted is None:
            return
        count = wanted.repeats if repeats is None else repeats
        plans = (self._open(wanted.rate_per_s, wanted.window_s) for _ in range(count))
        result = f"{count} × {wanted.window_s:g} s at {wanted.rate_per_s:,.0f}/s"
        self._run("steady", plans, count * wanted.window_s, result, first_repeat)

    def search(self, repeats: int | None = None) -> None:
        """Bisect for the highest rate that meets the SLO, and record each; results of earlier calls count too."""
        wanted = self._scenario.search
        if wanted is None:
            return
        count = wanted.repeats if repeats is None else repeats
        step = self._begin("search", count)
        known = self._rate_kept()
        for index in range(count):
            bisection = Bisection(
                partial(self._attempt, partial(step.update, index)),
                step=1 + 3 * wanted.precision if known and known.estimates_per_s else 2.0,
                precision=wanted.precision,
            )
            bracket = bisection.run(self._start(known, wanted))
            known = self._keep_bracket(known, bracket, "the generator was saturated above it" if bisection.unknown else None)
            if bracket.kept is None:
                break
        kept = known.rate_per_s if known else None
        result = f"{kept:,.0f}/s with p99 ≤ {self._scenario.slo.p99_ms:g} ms" if kept else "no rate meets the SLO"
        step.end(f"{result}; {known.note}" if known and known.note else result)

    def curve(self) -> None:
        """Latency against rate."""
        wanted = self._scenario.curve
        if wanted is None:
            return
        kept = self._rate_kept()
        peak = wanted.peak_per_s or (kept.rate_per_s if kept else None)
        if peak is None:
            return
        plans = (self._open(peak * share, wanted.window_s) for share in wanted.shares)
        result = f"{len(wanted.shares)} rates to {peak * max(wanted.shares):,.0f}/s"
        self._run("curve", plans, len(wanted.shares) * wanted.window_s, result)

    def concurrency(self) -> None:
        """A closed loop with increasing connections."""
        wanted = self._scenario.concurrency
        if wanted is None:
            return
        closed, counts = Arrivals(kind="closed"), wanted.connections
        plans = (self._plan(closed, wanted.window_s, connections=count) for count in counts)
        self._run("concurrency", plans, len(counts) * wanted.window_s, f"{counts[0]} to {counts[-1]} connections")

    def soak(self) -> None:
        """One long window, with the server's memory recorded."""
        wanted = self._scenario.soak
        if wanted is None:
            return
        plan = self._open(wanted.rate_per_s, wanted.duration_s)
        self._run("soak", [plan], wanted.duration_s, f"{wanted.duration_s:,.0f} s at {wanted.rate_per_s:,.0f}/s")

    def _start(self, known: RateKept | None, wanted: Search) -> float:
        """The start of a bisection: half the closed-loop rate, later near the last result but not exactly there."""
        if known and known.estimates_per_s:
            jitter = Random(len(known.estimates_per_s)).uniform(-1, 1)
            return known.estimates_per_s[-1] * math.exp(2 * jitter * wanted.precision)
        plan = self._plan(Arrivals(kind="closed"), wanted.window_s)
        return self._measurement.window(self._subject, "search", plan).result.rate_per_s / 2

    def _keep_bracket(self, known: RateKept | None, bracket: Bracket, note: str | None) -> RateKept:
        found = [*(Bracket(*pair) for pair in _pairs(known)), bracket]
        kept = rate_kept(self._subject.name, found, note or (known.note if known else None))
        others = [other for other in self._measurement.record.rates_kept if other.subject != kept.subject]
        self._measurement.keep(rates_kept=[*others, kept])
        return kept

    def _rate_kept(self) -> RateKept | None:
        kept = self._measurement.record.rates_kept
        return next((known for known in kept if known.subject == self._subject.name), None)

    def _attempt(self, tell: Callable[[str], None], rate_per_s: float) -> Tried:
        """Whether a rate meets the SLO: a yes needs two windows, and an inconclusive window is repeated."""
        search, slo = self._scenario.search, self._scenario.slo
        assert search is not None  # noqa: S101 - the caller checked it
        tell(f"trying {rate_per_s:,.0f}/s")
        # Longer at low rates, so that there are enough requests for a p99.
        duration_s = min(max(search.window_s, _REQUESTS_MIN / rate_per_s), _STRETCH_MAX * search.window_s)
        windows: list[Window] = []
        silent = 0
        while len(windows) < _WINDOWS_MAX and silent < _SILENT_MAX:
            plan = self._open(rate_per_s, duration_s).model_copy(update={"interval_s": duration_s / _SEARCH_BLOCKS})
            window = self._measurement.window(self._subject, "search", plan)
            if not says_something(window, slo):
                silent += 1
                continue
            windows.append(window)
            result = clearly_keeps(windows, slo)
            if result is False or (result and len(windows) >= _WINDOWS_FOR_YES):
                return "kept" if result else "broken"
        if len(windows) < _WINDOWS_FOR_YES:
            return "unknown"
        return "kept" if keeps(windows, slo) else "broken"

    def _begin(self, phase: Phase, total: float) -> Step:
        return self._progress.begin(f"{self._subject.name}: {phase}", total)

    def _run(
        self, phase: Phase, plans: Iterable[LoadPlan], total_s: float, result: str, first_repeat: int | None = None
    ) -> None:
        """Measure one window per plan; a plan is made when its window begins."""
        step, done_s = self._begin(phase, total_s), 0.0
        for index, plan in enumerate(plans):
            repeat = 0 if first_repeat is None else first_repeat + index
            progress = partial(_show, step, done_s, plan.duration_s)
            self._measurement.window(self._subject, phase, plan, repeat=repeat, progress=progress)
            done_s += plan.duration_s
        step.end(result)

    def _open(self, rate_per_s: float, duration_s: float) -> LoadPlan:
        # New arrivals in each window: repeats of one draw would not show how arrivals vary.
        seed = self._scenario.arrivals.seed + len(self._measurement.record.windows)
        return self._plan(arrivals_at(self._scenario, rate_per_s, seed, self._offsets_s), duration_s)

    def _plan(self, arrivals: Arrivals, duration_s: float, **changes: Any) -> LoadPlan:
        scenario = self._scenario
        plan = LoadPlan(
            url=self._subject.url,
            model=scenario.model.name,
            protocol=scenario.protocol,
            connections=scenario.connections,
            streams=scenario.streams,
            arrivals=arrivals,
            duration_s=duration_s,
            warmup=Warmup(least_s=min(_WARMUP_LEAST_S, duration_s / 2), most_s=min(_WARMUP_MOST_S, duration_s)),
            timeout_ms=scenario.timeout_ms,
            deadline_ms=scenario.deadline_ms,
            cpus=self._cpus,
            threads=threads_on(self._cpus, scenario.connections),
            path=self._subject.path,
        )
        return plan.model_copy(update=changes)


def _show(step: Step, before_s: float, window_s: float, gone_s: float, count: int) -> None:
    step.update(before_s + min(gone_s, window_s), f"{count:,} requests")


def arrivals_at(scenario: Scenario, rate_per_s: float, seed: int, offsets_s: list[float] | None = None) -> Arrivals:
    """The scenario's arrivals at a rate; `offsets_s` come from its trace."""
    wanted = scenario.arrivals
    match wanted.kind:
        case "constant":
            return Arrivals(kind="constant", rate_per_s=rate_per_s)
        case "poisson":
            return Arrivals(kind="poisson", rate_per_s=rate_per_s, seed=seed)
        case "ramp":
            return Arrivals(kind="ramp", from_per_s=rate_per_s * _RAMP_FROM, to_per_s=rate_per_s)
        case "burst":
            burst = wanted.burst
            assert burst is not None  # noqa: S101 - the scenario was checked
            return Arrivals(
                kind="burst",
                rate_per_s=rate_per_s,
                burst_per_s=rate_per_s * burst.times,
                burst_s=burst.burst_s,
                every_s=burst.every_s,
            )
        case "trace":
            assert offsets_s is not None  # noqa: S101 - the scenario was checked, so there is a trace
            return Arrivals(kind="trace", offsets_s=offsets_s)


def threads_on(cpus: list[int] | None, connections: int) -> int:
    """One thread per generator core, up to what it takes to saturate a server on the others."""
    return min(len(cpus or [0]), connections, _THREADS_MAX)


def says_something(window: Window, slo: Slo) -> bool:
    """Whether a window is conclusive: not disturbed by the host, and no violation by a saturated generator."""
    if window.host.steal_share > STEAL_MAX:
        return False
    return window.result.bottleneck is None or keeps([window], slo)


def keeps(windows: list[Window], slo: Slo) -> bool:
    """Whether all these windows together meet the SLO."""
    found = figures(windows)
    return found["p99"].value <= slo.p99_ms * 1e3 and found["error_share"].value <= slo.error_budget


def clearly_keeps(windows: list[Window], slo: Slo) -> bool | None:
    """The same; None if p99's interval contains the limit, so that another window may change the result."""
    found = figures(windows)
    if found["error_share"].value > slo.error_budget:
        return False
    p99, limit_us = found["p99"], slo.p99_ms * 1e3
    if p99.interval is not None and p99.interval.low <= limit_us <= p99.interval.high:
        return None
    return p99.value <= limit_us


def rate_kept(subject: str, brackets: Sequence[Bracket], note: str | None) -> RateKept:
    """Combine several bisections. The true rate is between a met and a missed one, so the interval reaches from the lowest
    met rate to the highest missed one.
    """
    kept = [bracket.kept for bracket in brackets if bracket.kept is not None]
    broken = [bracket.broken for bracket in brackets if bracket.broken is not None]
    if len(kept) < len(brackets):
        note = "a search found no rate that meets the SLO"
    if not kept:
        nothing = {"rate_per_s": None, "low_per_s": None, "high_per_s": None}
        return RateKept(subject=subject, estimates_per_s=[], broken_per_s=broken, note=note, **nothing)
    low = mean_interval(kept)
    high = mean_interval(broken) if len(broken) == len(kept) else None
    several = len(kept) > 1 and low.interval is not None and high is not None and high.interval is not None
    return RateKept(
        subject=subject,
        estimates_per_s=kept,
        broken_per_s=broken,
        rate_per_s=low.value,
        low_per_s=low.interval.low if several and low.interval else None,
        high_per_s=high.interval.high if several and high and high.interval else None,
        note=note,
    )


def _pairs(known: RateKept | None) -> list[tuple[float, float | None]]:
    if known is None:
        return []
    return list(zip_longest(known.estimates_per_s, known.broken_per_s[: len(known.estimates_per_s)]))
