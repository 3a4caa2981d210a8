"""Plots of sweeps: the rate that is kept, latency against rate, closed loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.bench.report.drawing import (
    DOTTED,
    INK,
    PAPER,
    SOFT,
    halo,
    latency_axis,
    legend,
    look,
    new_figure,
    plain_axis,
    rate_axis,
    slo_line,
)
from flyball.bench.table import rate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from flyball.bench.record import RateKept
    from flyball.bench.report.summary import Point, Summary

_LOG_FROM = 3.0  # subjects further apart than this factor need a logarithmic axis
_P50: dict[str, Any] = {"markersize": 3.0, "linewidth": 1.3}
_NAMED_MAX = 3  # more labels would overlap; the plot of kept rates has them


def draw_kept(summary: Summary) -> Figure:
    """A bar for each subject that meets the SLO at some rate."""
    found = [(index, subject.name, subject.kept) for index, subject in enumerate(summary.subjects) if subject.kept_per_s]
    figure, (axes,) = new_figure("The rate that each keeps", height_in=0.9 + 0.42 * len(found))
    for row, (index, _, kept) in enumerate(found):
        value, low, high = _span(kept)
        axes.barh(row, value, color=look(index)["color"], height=0.62)
        axes.plot((low, high), (row, row), color=INK, linewidth=1.6, solid_capstyle="butt")
        axes.annotate(f"{rate(value)} /s", (high, row), xytext=(6, 0), textcoords="offset points", va="center", fontsize=10)
    axes.set_yticks(range(len(found)), [name for _, name, _ in found])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.12)
    axes.set_xlim(left=0)
    rate_axis(axes, f"requests per second at p99 ≤ {summary.slo_ms:g} ms")
    return figure


def draw_rates(summary: Summary) -> Figure:
    """The curve, or without one the rates that the search tried, not joined by lines."""
    figure, (axes,) = new_figure("Latency against rate", height_in=4.6)
    joined = bool(summary.curve)
    handles, labels, tops = [], [], []
    for index, subject in enumerate(summary.subjects):
        points = summary.points_of(subject.name, summary.curve or summary.tried)
        if not points:
            continue
        tops.append(max(point.offered_per_s for point in points))
        handles.append(_quantiles(axes, points, index, lambda point: point.offered_per_s, joined=joined))
        labels.append(subject.name)
        if subject.kept and subject.kept.rate_per_s and summary.slo_ms:
            _mark_kept(axes, subject.kept, summary.slo_ms, look(index)["color"], named=len(summary.subjects) <= _NAMED_MAX)
    if max(tops) > _LOG_FROM * min(tops):
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0)
    latency_axis(axes)
    slo_line(axes, summary.slo_ms)
    rate_axis(axes, "requests per second, offered")
    legend(figure, [*handles, *_samples(axes, joined=joined)], [*labels, "p99", "p50"])
    return figure


def draw_concurrency(summary: Summary) -> Figure:
    """Answers per second and latency, both against the number of connections."""
    figure, (answers, waits) = new_figure("Closed loops", columns=2, height_in=4.2)
    handles, labels = [], []
    for index, subject in enumerate(summary.subjects):
        points = summary.points_of(subject.name, summary.concurrency)
        if not points:
            continue
        at = [(float(point.connections), point.answered_per_s, point.bottleneck is not None) for point in points]
        _line(answers, at, look(index))
        handles.append(_quantiles(waits, points, index, lambda point: float(point.connections), joined=True))
        labels.append(subject.name)
    numbers = sorted({point.connections for point in summary.concurrency})
    for axes in (answers, waits):
        axes.set_xscale("log", base=2)
        axes.set_xticks(numbers, [str(number) for number in numbers])
        axes.minorticks_off()
        axes.set_xlabel("connections")
    plain_axis(answers)
    answers.set_ylim(bottom=0)
    answers.set_title("Answers per second")
    latency_axis(waits, "")
    waits.set_title("Latency")
    legend(figure, [*handles, *_samples(waits, joined=True)], [*labels, "p99", "p50"])
    return figure


def _quantiles(axes: Axes, points: list[Point], index: int, x: Callable[[Point], float], *, joined: bool) -> Any:
    """p99 and, thinner, p50; returns p99's handle."""
    limits = [point.bottleneck is not None for point in points]
    style = look(index)
    p50 = [(x(point), point.p50_us, limit) for point, limit in zip(points, limits, strict=True)]
    p99 = [(x(point), point.p99_us, limit) for point, limit in zip(points, limits, strict=True)]
    _line(axes, p50, style | _P50, DOTTED if joined else "none")
    return _line(axes, p99, style, "-" if joined else "none")


def _line(axes: Axes, at: Sequence[tuple[float, float | None, bool]], style: dict[str, Any], linestyle: Any = "-") -> Any:
    """A line through the server's points; hollow and unjoined where the generator was saturated."""
    joined_points = [(x, y) for x, y, limit in at if y is not None and not limit]
    hollow = [(x, y) for x, y, limit in at if y is not None and limit]
    (drawn,) = axes.plot([x for x, _ in joined_points], [y for _, y in joined_points], **style, linestyle=linestyle)
    axes.plot([x for x, _ in hollow], [y for _, y in hollow], **style, linestyle="none", markerfacecolor=PAPER)
    return drawn


def _samples(axes: Axes, *, joined: bool) -> list[Any]:
    """Legend samples of p99 and p50 for any subject."""
    style: dict[str, Any] = {"color": SOFT, "marker": "o"}
    p99 = axes.plot([], [], **style, linestyle="-" if joined else "none")
    return p99 + axes.plot([], [], **style | _P50, linestyle=DOTTED if joined else "none")


def _mark_kept(axes: Axes, kept: RateKept, slo_ms: float, colour: str, *, named: bool) -> None:
    value, low, high = _span(kept)
    level = slo_ms * 1e3
    axes.plot((low, high), (level, level), color=colour, linewidth=4.0, alpha=0.55, solid_capstyle="butt", zorder=2.5)
    axes.plot(value, level, color=colour, marker="v", markersize=10, markeredgecolor=PAPER, zorder=4)
    if named:
        index: dict[str, Any] = {"xytext": (-9, 8), "textcoords": "offset points", "ha": "right"}
        text = axes.annotate(f"{rate(value)} /s", (value, level), color=colour, fontweight="bold", zorder=5, **index)
        text.set_path_effects(halo())


def _span(kept: RateKept | None) -> tuple[float, float, float]:
    value = (kept.rate_per_s if kept else None) or 0.0
    low, high = (kept.low_per_s, kept.high_per_s) if kept else (None, None)
    return value, low or value, high or value
