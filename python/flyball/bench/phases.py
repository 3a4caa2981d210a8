"""What a scenario measures, phase by phase, on one server that is up.

The search tries rates in windows; a window that the host disturbed, or whose p99 cannot be told from the limit, is tried
again. Must not know how servers are started.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from flyball.bench.record import RateKept
from flyball.bench.search import highest_rate
from flyball.bench.statistics import STEAL_MAX, figures, mean_interval
from flyball.bench.trace import read_trace
from flyball.engine import Arrivals, LoadPlan, Warmup
from flyball.errors import FlyballError

if TYPE_CHECKING:
    from collections.abc import Callable

    from flyball.bench.measure import Measurement, Subject
    from flyball.bench.progress import Progress, Step
    from flyball.bench.record import Phase, Window
    from flyball.bench.scenario import Scenario, Slo

_TRIES_MAX = 3
_REQUESTS_MIN = 1000  # below, a window's p99 is the luck of ten requests
_STRETCH_MAX = 10.0
_RAMP_FROM = 0.1
_WARMUP = Warmup(least_s=0.5, most_s=3.0)


class GeneratorLimitError(FlyballError):
    """The generator could not send fast enough to find the server's limit."""

    code = "generator_limit"


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

    def steady(self, repeats: int | None = None, first_repeat: int = 0) -> None:
        """Windows at one rate: the percentiles that are published."""
        wanted = self._scenario.steady
        if wanted is None:
            return
        count = wanted.repeats if repeats is None else repeats
        step = self._begin("steady", count * wanted.window_s)
        for place in range(count):
            plan = self._open(wanted.rate_per_s, wanted.window_s)
            self._run("steady", plan, step, place * wanted.window_s, repeat=first_repeat + place)
        step.end(f"{count} × {wanted.window_s:g} s at {wanted.rate_per_s:,.0f}/s")

    def search(self, repeats: int | None = None) -> RateKept | None:
        """Bisections for the highest rate that keeps the SLO; estimates of earlier calls are kept."""
        wanted = self._scenario.search
        if wanted is None:
            return None
        count = wanted.repeats if repeats is None else repeats
        known = next((kept for kept in self._measurement.record.rates_kept if kept.subject == self._subject.name), None)
        estimates = list(known.estimates_per_s) if known else []
        step = self._begin("search", count)
        note = known.note if known else None
        for place in range(count):
            tell = partial(step.update, place)
            start, width = (estimates[-1], 1 + 3 * wanted.precision) if estimates else (self._peak(tell) / 2, 2.0)
            try:
                found = highest_rate(partial(self._keeps, tell), start, step=width, precision=wanted.precision)
            except GeneratorLimitError as limit:
                note = limit.message
                break
            if found is None:
                note = f"p99 ≤ {self._scenario.slo.p99_ms:g} ms is not kept at any rate"
                break
            estimates.append(found)
        kept = _rate_kept(self._subject.name, estimates, note)
        others = [other for other in self._measurement.record.rates_kept if other.subject != kept.subject]
        self._measurement.keep(rates_kept=[*others, kept])
        step.end(f"{kept.rate_per_s:,.0f}/s keep p99 ≤ {self._scenario.slo.p99_ms:g} ms" if kept.rate_per_s else note or "")
        return kept

    def curve(self) -> None:
        """Latency against rate."""
        wanted = self._scenario.curve
        if wanted is None:
            return
        kept = next((kept for kept in self._measurement.record.rates_kept if kept.subject == self._subject.name), None)
        peak = wanted.peak_per_s or (kept.rate_per_s if kept else None)
        if peak is None:
            return
        step = self._begin("curve", len(wanted.shares) * wanted.window_s)
        for place, share in enumerate(wanted.shares):
            self._run("curve", self._open(peak * share, wanted.window_s), step, place * wanted.window_s)
        step.end(f"{len(wanted.shares)} rates to {peak * max(wanted.shares):,.0f}/s")

    def concurrency(self) -> None:
        """A closed loop with more and more connections."""
        wanted = self._scenario.concurrency
        if wanted is None:
            return
        step = self._begin("concurrency", len(wanted.connections) * wanted.window_s)
        for place, connections in enumerate(wanted.connections):
            plan = self._plan(Arrivals(kind="closed"), wanted.window_s, connections=connections)
            self._run("concurrency", plan, step, place * wanted.window_s)
        step.end(f"{wanted.connections[0]} to {wanted.connections[-1]} connections")

    def soak(self) -> None:
        """One long window with the server's memory watched."""
        wanted = self._scenario.soak
        if wanted is None:
            return
        step = self._begin("soak", wanted.duration_s)
        self._run("soak", self._open(wanted.rate_per_s, wanted.duration_s), step, 0.0)
        step.end(f"{wanted.duration_s:,.0f} s at {wanted.rate_per_s:,.0f}/s")

    def _peak(self, tell: Callable[[str], None]) -> float:
        """Where to start the search: what a closed loop reaches."""
        search = self._scenario.search
        assert search is not None  # noqa: S101 - asked for by the caller
        plan = self._plan(Arrivals(kind="closed"), search.window_s)
        tell("a closed loop first")
        return max(self._measurement.window(self._subject, "search", plan).result.rate_per_s, 2.0)

    def _keeps(self, tell: Callable[[str], None], rate_per_s: float) -> bool:
        """Whether the SLO is kept at a rate; windows that cannot tell are tried again, and the last word is the estimate."""
        search = self._scenario.search
        assert search is not None  # noqa: S101 - asked for by the caller
        tell(f"trying {rate_per_s:,.0f}/s")
        # At low rates longer, so that there is a p99 to speak of.
        duration_s = min(max(search.window_s, _REQUESTS_MIN / rate_per_s), _STRETCH_MAX * search.window_s)
        slo = self._scenario.slo
        windows: list[Window] = []
        for _ in range(_TRIES_MAX):
            window = self._measurement.window(self._subject, "search", self._open(rate_per_s, duration_s))
            if says_something(window, slo):
                windows.append(window)
                told = clearly_keeps(windows, slo)
                if told is not None:
                    return told
        if not windows:
            limit = window.result.bottleneck
            if limit:
                raise GeneratorLimitError(f"the generator was the limit at {rate_per_s:,.0f}/s: {limit}")
            windows.append(window)  # the host disturbed them all: the last one is what there is
        return keeps(windows, slo)

    def _begin(self, phase: Phase, total: float) -> Step:
        return self._progress.begin(f"{self._subject.name}: {phase}", total)

    def _run(self, phase: Phase, plan: LoadPlan, step: Step, done_s: float, repeat: int = 0) -> None:
        self._measurement.window(
            self._subject,
            phase,
            plan,
            repeat=repeat,
            told=lambda gone, count: step.update(done_s + min(gone, plan.duration_s), f"{count:,} requests"),
        )

    def _open(self, rate_per_s: float, duration_s: float) -> LoadPlan:
        return self._plan(arrivals_at(self._scenario, rate_per_s), duration_s)

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
            warmup=_WARMUP,
            timeout_ms=scenario.timeout_ms,
            deadline_ms=scenario.deadline_ms,
            cpus=self._cpus,
            path=self._subject.path,
        )
        return plan.model_copy(update=changes)


def arrivals_at(scenario: Scenario, rate_per_s: float) -> Arrivals:
    """The scenario's arrivals at a rate."""
    wanted = scenario.arrivals
    match wanted.kind:
        case "constant":
            return Arrivals(kind="constant", rate_per_s=rate_per_s)
        case "poisson":
            return Arrivals(kind="poisson", rate_per_s=rate_per_s, seed=wanted.seed)
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
            assert wanted.trace_file is not None  # noqa: S101 - the scenario was checked
            return Arrivals(kind="trace", offsets_s=read_trace(wanted.trace_file))


def says_something(window: Window, slo: Slo) -> bool:
    """Not one that the host disturbed, nor a broken promise while the generator was at its limit; a kept one is kept."""
    if window.host.steal_share > STEAL_MAX:
        return False
    return window.result.bottleneck is None or keeps([window], slo)


def keeps(windows: list[Window], slo: Slo) -> bool:
    """Whether the SLO was kept over all these windows."""
    found = figures(windows)
    return found["p99"].value <= slo.p99_ms * 1e3 and found["error_share"].value <= slo.error_budget


def clearly_keeps(windows: list[Window], slo: Slo) -> bool | None:
    """The same; None where p99's interval has the limit inside, so that another window may change the word."""
    if figures(windows)["error_share"].value > slo.error_budget:
        return False
    interval = figures(windows)["p99"].interval
    if interval is not None and interval.low <= slo.p99_ms * 1e3 <= interval.high:
        return None
    return keeps(windows, slo)


def _rate_kept(subject: str, estimates: list[float], note: str | None) -> RateKept:
    if not estimates:
        return RateKept(subject=subject, estimates_per_s=[], rate_per_s=None, low_per_s=None, high_per_s=None, note=note)
    mean = mean_interval(estimates)
    low, high = (mean.interval.low, mean.interval.high) if mean.interval else (None, None)
    return RateKept(
        subject=subject, estimates_per_s=estimates, rate_per_s=mean.value, low_per_s=low, high_per_s=high, note=note
    )
