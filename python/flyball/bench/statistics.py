"""Statistics of windows: quantiles with intervals, A against B, trends, memory slopes. Seeded throughout.

With too few measurements there is no interval, and "no difference shown" is a result. Must not know how windows are
measured, nor how figures are printed.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from flyball.bench.record import Window
from flyball.errors import MissingExtraError, UsageError
from flyball.native.load import read_histograms
from flyball.statistics.resampling import RESOLUTION, Resampled, resample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from flyball.bench.record import MemorySample

STEAL_MAX = 0.03  # above it, a window says more about the host than about the server
WINDOWS_MIN = 5  # per side; with three, windows that scatter by 3 % would hide a difference of 20 %
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
BEYOND_MIN = 10  # with fewer answers beyond it, a quantile depends on a few requests
_BLOCKS_MIN = 10
_LEFT_OUT = f"CPU steal above {STEAL_MAX:.0%}, or a saturated generator"
_TREND_P_MAX, _TREND_MIN = 0.01, 0.10
_SAMPLES_MAX = 1000  # the slope uses every pair of samples

Verdict = Literal["faster", "slower", "higher", "lower", "no difference shown"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure; without an interval if there were too few measurements."""

    value: float
    interval: Interval | None


class Latencies:
    """Latencies in one histogram, merged from encoded ones."""

    def __init__(self, encoded: Sequence[str]) -> None:
        merged = read_histograms(encoded)
        self.count = merged.count
        self.max_us = merged.max_us
        self.mean_us = merged.mean_us
        self._values_us = np.asarray(merged.values_us)
        self._below = np.cumsum(merged.counts)

    @classmethod
    def of(cls, windows: Sequence[Window]) -> Latencies:
        """From the time at which each request was due."""
        return cls([window.result.histogram for window in windows])

    @classmethod
    def of_service(cls, windows: Sequence[Window]) -> Latencies:
        """From the time at which each request was sent."""
        return cls([window.result.service_histogram for window in windows])

    def quantile(self, share: float) -> float:
        """The smallest latency that covers this share, in µs; NaN without answers."""
        if not self.count:
            return math.nan
        rank = max(math.ceil(share * self.count - 1e-9), 1)
        return min(float(self._values_us[np.searchsorted(self._below, rank)]), self.max_us)


def figures(windows: Sequence[Window], level: float = 0.95) -> dict[str, Estimate]:
    """Over all windows: p50 … p999, max and mean in µs, `rate` of correct answers per second, `error_share` of sent.

    Without any answer the latencies are NaN.
    """
    if not windows:
        raise UsageError("no window to compute figures from")
    results = [window.result for window in windows]
    latencies, resampled = Latencies.of(windows), resample(results, QUANTILES)
    sent, answered = sum(result.sent for result in results), sum(result.answered for result in results)
    seconds = sum(result.elapsed_s for result in results)
    values = {name: latencies.quantile(share) for name, share in QUANTILES.items()}
    values["mean"] = latencies.mean_us if latencies.count else math.nan
    values["rate"] = answered / seconds if seconds else 0.0
    values["error_share"] = 1 - answered / sent if sent else 0.0
    intervals = {name: _interval(name, value, resampled, latencies.count, level) for name, value in values.items()}
    if sent - answered < BEYOND_MIN:
        # Resampling cannot find what never happened: no failure in n requests is no proof that there is none.
        intervals["error_share"] = _rare(sent - answered, sent, level)
    found = {name: Estimate(value, intervals[name]) for name, value in values.items()}
    return {**found, "max": Estimate(latencies.max_us if latencies.count else math.nan, None)}


def errors_by_reason(windows: Sequence[Window]) -> Counter[str]:
    """How many requests failed for each reason."""
    counts = Counter[str]()
    for error in (error for window in windows for error in window.result.errors):
        counts[error.reason] += error.count
    return counts


def mean_interval(values: Sequence[float], level: float = 0.95) -> Estimate:
    """The geometric mean with Student's t on the logarithm: rates and latencies are positive, with relative errors."""
    if not values:
        raise UsageError("no value to average")
    if min(values) <= 0:
        return Estimate(sum(values) / len(values), None)
    logs = np.log(values)
    centre = float(logs.mean())
    if len(logs) < 2:
        return Estimate(math.exp(centre), None)
    half = _student(level, len(logs) - 1) * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    return Estimate(math.exp(centre), Interval(math.exp(centre - half), math.exp(centre + half)))


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure of A and B: each side's mean, and B over A with its interval."""

    name: str
    a: float
    b: float
    ratio: float
    interval: Interval
    verdict: Verdict

    def __str__(self) -> str:
        span = f"{_percent(self.interval.low)} to {_percent(self.interval.high)} %"
        return f"{self.name} {_percent(self.ratio)} % ({span})"


@dataclass(frozen=True, slots=True)
class Comparison:
    """B compared with A. `windows` were used per side, `left_out` skipped on both together; `notes` qualify it."""

    figures: list[Difference]
    paired: bool
    level: float
    windows: int
    left_out: int
    shown: bool
    summary: str
    notes: list[str]


def compare(a: Sequence[Window], b: Sequence[Window], *, paired: bool, level: float = 0.95) -> Comparison:
    """Whether B differs from A in p50, p99, the share of correct answers or, in a closed loop, rate; `level` is joint.

    Each window gives one value of a figure, so that correlated requests are not mistaken for many samples.
    """
    if paired and len(a) != len(b):
        raise UsageError(f"pairs need equal numbers of windows: {len(a)} of A and {len(b)} of B")
    calm_a, calm_b = _undisturbed(a, b, paired=paired)
    left_out = len(a) + len(b) - len(calm_a) - len(calm_b)
    fewest = min(len(calm_a), len(calm_b))
    if fewest < WINDOWS_MIN:
        stolen = f" after {left_out} were skipped: {_LEFT_OUT}" if left_out else ""
        raise UsageError(
            f"a comparison needs {WINDOWS_MIN} windows per side, found {fewest}{stolen}",
            next_step=f"measure more:  --repeats {WINDOWS_MIN + left_out}",
        )
    closed = all(window.plan.arrivals.kind == "closed" for window in (*calm_a, *calm_b))
    names = ["p50", "p99", *(["rate"] if closed else [])]
    if any(window.result.answered < window.result.sent for window in (*calm_a, *calm_b)):
        names.append("answered")  # else refusing slow requests would look faster
    each = level ** (1 / len(names))  # Šidák: jointly valid at `level`
    found = [_difference(name, calm_a, calm_b, paired=paired, level=each) for name in names]
    shown = any(difference.verdict != "no difference shown" for difference in found)
    sides = _names(calm_a, calm_b)
    return Comparison(
        figures=found,
        paired=paired,
        level=level,
        windows=fewest,
        left_out=left_out,
        shown=shown,
        summary=_summary(found, sides, f"{fewest} {'pairs' if paired else 'windows per side'}, {level:.0%} level"),
        notes=_notes(calm_a, calm_b, sides, left_out),
    )


def trend(window: Window) -> str | None:
    """A text if the median of a window's intervals drifted; None if it was steady or varies by design."""
    if window.plan.arrivals.kind == "ramp":
        return None
    read = [(interval.start_s, Latencies([interval.histogram])) for interval in window.result.timeline]
    points = [(start_s, latencies.quantile(0.5)) for start_s, latencies in read if latencies.count]
    if len(points) < _BLOCKS_MIN:
        return None
    stats = _scipy("stats")
    times, medians = np.array(points).T
    change = stats.theilslopes(medians, times).slope * (times[-1] - times[0]) / np.median(medians)
    # Size first: among hundreds of intervals the smallest drift is significant.
    if abs(change) < _TREND_MIN or not stats.kendalltau(times, medians).pvalue < _TREND_P_MAX:
        return None
    return f"p50 {'rose' if change > 0 else 'fell'} by {abs(change):.0%} from the start of the window to its end"


def memory_slope(samples: Sequence[MemorySample], level: float = 0.95) -> Estimate:
    """Growth in bytes per hour by Theil–Sen, which is robust against a few jumps."""
    if len(samples) < 2:
        raise UsageError("a slope needs at least two memory samples")
    thinned = samples[:: math.ceil(len(samples) / _SAMPLES_MAX)]
    hours, sizes = np.array([(sample.at_s / 3600, sample.memory_bytes) for sample in thinned]).T
    found = _scipy("stats").theilslopes(sizes, hours, level)
    enough = len(thinned) >= _BLOCKS_MIN
    return Estimate(float(found.slope), Interval(float(found.low_slope), float(found.high_slope)) if enough else None)


def _interval(name: str, value: float, resampled: Resampled, count: int, level: float) -> Interval | None:
    """None with too few measurements."""
    beyond = count * (1 - QUANTILES[name]) if name in QUANTILES else math.inf
    if resampled.blocks < _BLOCKS_MIN or beyond < BEYOND_MIN - 1e-6 or not value > 0:
        return None
    drawn = np.quantile(resampled.figures[name], ((1 - level) / 2, (1 + level) / 2))
    normal = float(_scipy("special").ndtri((1 + level) / 2))
    wider = resampled.disagreement[name] * _student(level, resampled.freedom[name]) / normal
    low, high = (float(edge) for edge in drawn)
    # Bounded by zero below, and by a finite value above.
    low = value / (1 + wider * max(value / low - 1, 0.0)) if low > 0 else 0.0
    high = value + wider * max(high - value, 0.0)
    blur = RESOLUTION / 2 if name in QUANTILES else 0.0
    return Interval(low * (1 - blur), min(high, 1.0) if name == "error_share" else high * (1 + blur))


def _rare(events: int, count: int, level: float) -> Interval | None:
    """The interval of a share with few events: Clopper–Pearson, exact for independent events."""
    if not count:
        return None
    inverse, miss = _scipy("special").betaincinv, (1 - level) / 2
    low = float(inverse(events, count - events + 1, miss)) if events else 0.0
    return Interval(low, float(inverse(events + 1, count - events, 1 - miss)) if events < count else 1.0)


def _undisturbed(a: Sequence[Window], b: Sequence[Window], *, paired: bool) -> tuple[list[Window], list[Window]]:
    """Skip windows disturbed by the host or a saturated generator; of a pair, both."""

    def calm(window: Window) -> bool:
        return window.host.steal_share <= STEAL_MAX and window.result.bottleneck is None

    if not paired:
        return [window for window in a if calm(window)], [window for window in b if calm(window)]
    pairs = [(left, right) for left, right in zip(a, b, strict=True) if calm(left) and calm(right)]
    return [left for left, _ in pairs], [right for _, right in pairs]


def _difference(name: str, a: Sequence[Window], b: Sequence[Window], *, paired: bool, level: float) -> Difference:
    left, right = ([_figure(name, window) for window in side] for side in (a, b))
    logs_a, logs_b = np.log(left), np.log(right)
    centre = float(logs_b.mean() - logs_a.mean())
    if paired:
        variance, freedom = float((logs_b - logs_a).var(ddof=1)) / len(logs_a), float(len(logs_a) - 1)
    else:
        variance, freedom = _welch(logs_a, logs_b)
    # Differences below the histogram's resolution do not count, however often repeated.
    half = _student(level, freedom) * math.sqrt(variance) + RESOLUTION
    interval = Interval(math.exp(centre - half), math.exp(centre + half))
    up, down = ("higher", "lower") if name in ("rate", "answered") else ("slower", "faster")
    verdict: Any = up if interval.low > 1 else down if interval.high < 1 else "no difference shown"
    return Difference(name, median(left), median(right), math.exp(centre), interval, verdict)


def _figure(name: str, window: Window) -> float:
    result = window.result
    match name:
        case "rate":
            value = result.rate_per_s
        case "answered":
            value = result.answered / result.sent if result.sent else 0.0
        case _:
            value = float(getattr(result.latency_us, name))
    if value <= 0:
        raise UsageError(
            f"a window of {window.subject} has no correct answer, so there is nothing to compare",
            next_step=f"see its first problem: {result.first_problem}" if result.first_problem else None,
        )
    return value


def _welch(a: NDArray[np.float64], b: NDArray[np.float64]) -> tuple[float, float]:
    """The variance of a difference of means, and its degrees of freedom; the sides' variances may differ."""
    parts = [float(side.var(ddof=1)) / len(side) for side in (a, b)]
    weights = [part**2 / (len(side) - 1) for part, side in zip(parts, (a, b), strict=True)]
    return sum(parts), sum(parts) ** 2 / sum(weights) if sum(weights) > 0 else float(len(a) + len(b) - 2)


def _summary(found: list[Difference], sides: tuple[str, str], basis: str) -> str:
    """One sentence."""
    a, b = sides
    shown = [f"{difference}, {difference.verdict}" for difference in found if difference.verdict != "no difference shown"]
    rest = [difference for difference in found if difference.verdict == "no difference shown"]
    if not shown:
        return f"no difference shown between {a} and {b}: {', '.join(map(str, rest))}; {basis}"
    without = f"; no difference shown in {' and '.join(difference.name for difference in rest)}" if rest else ""
    return f"{b} differs from {a}: {'; '.join(shown)}{without}; {basis}"


def _notes(a: Sequence[Window], b: Sequence[Window], sides: tuple[str, str], left_out: int) -> list[str]:
    notes = []
    if left_out:
        notes.append(f"{left_out} windows were skipped: {_LEFT_OUT}")
    for name, side in zip(sides, (a, b), strict=True):
        sent, answered = (sum(getattr(window.result, key) for window in side) for key in ("sent", "answered"))
        if answered < sent:
            notes.append(f"{name} gave no correct answer to {(sent - answered) / sent:.2%} of its requests")
    return notes


def _names(a: Sequence[Window], b: Sequence[Window]) -> tuple[str, str]:
    """The sides' names; records of the same subject get letters."""
    left, right = a[0].subject, b[0].subject
    return (left, right) if left != right else ("A", "B")


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f}"


def _student(level: float, freedom: float) -> float:
    """The half-width of an interval in standard errors."""
    return float(_scipy("special").stdtrit(freedom, (1 + level) / 2))


def _scipy(part: str) -> Any:
    """Imported late, because `scipy.stats` takes longer to import than `flyball --help` may."""
    try:
        return importlib.import_module(f"scipy.{part}")
    except ImportError as error:
        raise MissingExtraError(
            f"intervals require scipy, which is not installed ({error})",
            next_step="install it:  pip install 'flyball[bench]'",
        ) from error
