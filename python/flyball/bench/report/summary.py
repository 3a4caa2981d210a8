"""All figures of a report, computed once from a record; every output shows these.

A window with a saturated generator says nothing about the server: its figures are dropped here. Must not know outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING

from flyball.bench.record import SubjectRecord
from flyball.bench.statistics import BEYOND_MIN, QUANTILES, Comparison, Estimate, Latencies, compare, figures, memory_slope
from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flyball.bench.record import BenchRecord, MemorySample, Phase, RateKept, StageTime, Window

_HEADLINE: tuple[Phase, ...] = ("steady", "gate", "compare", "soak")
_SAMPLES_MIN = 3


@dataclass(frozen=True, slots=True)
class SubjectFigures:
    """One row of the headline. `latency_us` has only quantiles with enough answers, from `windows`."""

    record: SubjectRecord
    kept: RateKept | None
    windows: list[Window]
    left_out: int
    latency_us: dict[str, Estimate]
    service_p99_us: float | None
    rate_per_s: Estimate | None
    error_share: float | None

    @property
    def name(self) -> str:
        """The subject's name."""
        return self.record.name

    @property
    def kept_per_s(self) -> float | None:
        """The highest rate that meets the SLO, if one was found."""
        return self.kept.rate_per_s if self.kept else None


@dataclass(frozen=True, slots=True)
class Point:
    """One window of a sweep. `few`: p99 has fewer than ten answers beyond it."""

    subject: str
    connections: int
    offered_per_s: float
    answered_per_s: float
    p50_us: float | None
    p99_us: float | None
    few: bool
    error_share: float
    bottleneck: str | None


@dataclass(frozen=True, slots=True)
class StageShare:
    """One stage: its own times, and what it adds to the mean of all requests."""

    stage: str
    mean_us: float
    p50_us: float
    p99_us: float
    adds_us: float


@dataclass(frozen=True, slots=True)
class Breakdown:
    """The server's view beside the client's, of the same windows. `waited_us`: due, but not yet sent."""

    subject: str
    stages: list[StageShare]
    walk: StageShare
    client_mean_us: float
    client_p50_us: float
    client_p99_us: float
    waited_us: float
    mean_batch_rows: float | None

    @property
    def gap_us(self) -> float:
        """Time that the client sees and the server does not."""
        return self.client_mean_us - self.walk.mean_us

    @property
    def path_us(self) -> float:
        """The gap without the wait before sending: network, kernel, and the client itself."""
        return self.gap_us - self.waited_us

    @property
    def between_us(self) -> float:
        """Time of the walk outside all stages."""
        return self.walk.mean_us - sum(stage.adds_us for stage in self.stages)


@dataclass(frozen=True, slots=True)
class Soak:
    """A server's memory over one long window."""

    subject: str
    samples: list[MemorySample]
    slope_per_h: Estimate | None

    @property
    def grows(self) -> bool | None:
        """Whether growth is proven; None if there are too few samples."""
        interval = self.slope_per_h.interval if self.slope_per_h else None
        return interval.low > 0 if interval else None


@dataclass(frozen=True)
class Summary:
    """A record's figures. `phase` supplies the windows of the headline's percentiles."""

    record: BenchRecord
    phase: Phase | None
    subjects: list[SubjectFigures]

    @property
    def slo_ms(self) -> float | None:
        """The p99 limit of the SLO."""
        if self.record.scenario:
            return self.record.scenario.slo.p99_ms
        return self.record.contract.p99_ms if self.record.contract else None

    @cached_property
    def curve(self) -> list[Point]:
        """Latency against rate."""
        return sorted(self._points("curve"), key=lambda point: point.offered_per_s)

    @cached_property
    def tried(self) -> list[Point]:
        """The open-loop windows of the search."""
        return [point for point, window in self._pairs("search") if window.plan.arrivals.kind != "closed"]

    @cached_property
    def concurrency(self) -> list[Point]:
        """Closed loops with increasing connections."""
        return sorted(self._points("concurrency"), key=lambda point: point.connections)

    @cached_property
    def breakdowns(self) -> list[Breakdown]:
        """Stage times, for each subject that reports them."""
        found = (_breakdown(subject.name, [w for w in subject.windows if w.server]) for subject in self.subjects)
        return [breakdown for breakdown in found if breakdown]

    @cached_property
    def soaks(self) -> list[Soak]:
        """Memory over time."""
        windows = [window for window in self.record.windows if window.phase == "soak" and window.memory]
        return [Soak(window.subject, window.memory, _slope(window.memory)) for window in windows]

    @cached_property
    def comparison(self) -> Comparison | str | None:
        """The comparison of A and B if measured in turn, or why there is none."""
        if self.phase != "compare" or len(self.subjects) != 2:
            return None
        a, b = ({window.repeat: window for window in subject.windows} for subject in self.subjects)
        pairs = sorted(a.keys() & b.keys())  # an unusable window drops its partner too
        try:
            return compare([a[pair] for pair in pairs], [b[pair] for pair in pairs], paired=True)
        except UsageError as error:
            return error.message

    def points_of(self, subject: str, points: Sequence[Point]) -> list[Point]:
        """One subject's part of a sweep."""
        return [point for point in points if point.subject == subject]

    def _pairs(self, phase: Phase) -> list[tuple[Point, Window]]:
        return [(_point(window), window) for window in self.record.windows if window.phase == phase and window.result.sent]

    def _points(self, phase: Phase) -> list[Point]:
        return [point for point, _ in self._pairs(phase)]


def summarise(record: BenchRecord | Summary) -> Summary:
    """A record's figures, even if it is partial. Intervals are slow to compute: do this once for several outputs."""
    if isinstance(record, Summary):
        return record
    measured = {window.phase for window in record.windows}
    phase = next((phase for phase in _HEADLINE if phase in measured), None)
    names = [subject.name for subject in record.subjects]
    unknown = dict.fromkeys(window.subject for window in record.windows if window.subject not in names)
    subjects = [*record.subjects, *(SubjectRecord(name=name) for name in unknown)]
    return Summary(record, phase, [_subject(record, subject, phase) for subject in subjects])


def errors_of(windows: Sequence[Window]) -> float | None:
    """The share of requests without a correct answer."""
    sent = sum(window.result.sent for window in windows)
    return 1 - sum(window.result.answered for window in windows) / sent if sent else None


def enough(count: int, quantile: float) -> bool:
    """Whether there are enough answers for a quantile."""
    return count * (1 - quantile) >= BEYOND_MIN - 1e-6


def _subject(record: BenchRecord, subject_record: SubjectRecord, phase: Phase | None) -> SubjectFigures:
    windows = record.windows_of(subject_record.name, phase) if phase else []
    believed = [window for window in windows if window.result.bottleneck is None]
    used = [window for window in believed if window.result.answered + window.result.timed_out]
    kept = next((kept for kept in record.rates_kept if kept.subject == subject_record.name), None)
    latency_us: dict[str, Estimate] = {}
    rate_per_s = service_p99_us = None
    if used:
        found = figures(used)
        count = Latencies.of(used).count
        latency_us = {key: found[key] for key, q in QUANTILES.items() if enough(count, q)}
        latency_us |= {"max": found["max"], "mean": found["mean"]}
        rate_per_s = found["rate"]
        service = Latencies.of_service(used)
        service_p99_us = service.quantile(QUANTILES["p99"]) if "p99" in latency_us else None
    return SubjectFigures(
        record=subject_record,
        kept=kept,
        windows=used,
        left_out=len(windows) - len(believed),
        latency_us=latency_us,
        service_p99_us=service_p99_us,
        rate_per_s=rate_per_s,
        error_share=errors_of(believed),
    )


def _point(window: Window) -> Point:
    result = window.result
    answers = result.answered + result.timed_out
    return Point(
        subject=window.subject,
        connections=window.plan.connections,
        offered_per_s=result.offered_per_s,
        answered_per_s=result.rate_per_s,
        p50_us=result.latency_us.p50 if answers else None,
        p99_us=result.latency_us.p99 if answers else None,
        few=not enough(answers, QUANTILES["p99"]),
        error_share=errors_of([window]) or 0.0,
        bottleneck=result.bottleneck,
    )


def _breakdown(subject: str, windows: list[Window]) -> Breakdown | None:
    views = [window.server for window in windows if window.server and window.server.whole.count]
    if not views:
        return None
    walks = sum(view.whole.count for view in views)
    names = list(dict.fromkeys(stage.stage for view in views for stage in view.stages))
    by_name = {name: [stage for view in views for stage in view.stages if stage.stage == name] for name in names}
    client = Latencies.of(windows)
    service = Latencies.of_service(windows)
    rows = [view.mean_batch_rows for view in views if view.mean_batch_rows is not None]
    return Breakdown(
        subject=subject,
        stages=[_merged(name, times, walks) for name, times in by_name.items()],
        walk=_merged("whole", [view.whole for view in views], walks),
        client_mean_us=client.mean_us,
        client_p50_us=client.quantile(QUANTILES["p50"]),
        client_p99_us=client.quantile(QUANTILES["p99"]),
        waited_us=client.mean_us - service.mean_us,
        mean_batch_rows=sum(rows) / len(rows) if rows else None,
    )


def _merged(name: str, times: list[StageTime], walks: int) -> StageShare:
    """Means over all requests; a quantile is the median over the windows, because the server reports no buckets."""
    count = sum(time.count for time in times)
    total_us = sum(time.mean_us * time.count for time in times)
    return StageShare(
        stage=name,
        mean_us=total_us / count if count else 0.0,
        p50_us=_median([time.p50_us for time in times if time.count]),
        p99_us=_median([time.p99_us for time in times if time.count]),
        adds_us=total_us / walks,
    )


def _median(values: list[float]) -> float:
    return median(values) if values else 0.0


def _slope(samples: list[MemorySample]) -> Estimate | None:
    return memory_slope(samples) if len(samples) >= _SAMPLES_MIN else None
