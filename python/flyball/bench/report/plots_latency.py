"""Plots of the headline's windows: latency by percentile, and over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.bench.report.drawing import ALARM, DASHED, DOTTED, SOFT, latency_axis, legend, look, new_figure, slo_line
from flyball.bench.statistics import Latencies

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from flyball.bench.report.summary import SubjectFigures, Summary

_NINES_MAX = 5
_STEPS_PER_NINE = 60
_HIDDEN_MIN = 1.001
_ONE_COLUMN_MAX = 3
_P50: dict[str, Any] = {"linewidth": 1.3, "linestyle": DOTTED}
_P99: dict[str, Any] = {"linewidth": 1.7}
_MAX: dict[str, Any] = {"marker": ".", "markersize": 4, "linestyle": "none"}
_LOST: dict[str, Any] = {"marker": "x", "markersize": 6, "linestyle": "none"}


def draw_percentiles(summary: Summary) -> Figure:
    """HdrHistogram's axis: 90 to 99 % takes as much space as 99 to 99.9 %."""
    figure, (axes,) = new_figure("Latency by percentile", height_in=4.6)
    handles, labels, counts, hidden = [], [], [], False
    for position, subject in enumerate(summary.subjects):
        if not subject.windows:
            continue
        due = Latencies.of(subject.windows)
        sent = Latencies.of_service(subject.windows)
        counts.append(due.count)
        colour = look(position)["color"]
        handles += axes.plot(*_by_percentile(due), color=colour)
        labels.append(subject.name)
        if due.mean_us > _HIDDEN_MIN * sent.mean_us:
            hidden = True
            axes.plot(*_by_percentile(sent), color=colour, linewidth=1.4, linestyle=DASHED)
    if hidden:
        handles += axes.plot([], [], color=SOFT, linewidth=1.4, linestyle=DASHED)
        labels.append("counted from the actual send")
    latency_axis(axes)
    slo_line(axes, summary.slo_ms)
    if summary.slo_ms:  # the corner that the lines must pass below
        axes.plot((2, 2), (axes.get_ylim()[0], summary.slo_ms * 1e3), color=ALARM, linewidth=1.0, linestyle=DASHED)
    axes.set_xlim(0, _nines(max(counts)))
    nines = range(1, math.floor(_nines(max(counts))) + 1)
    axes.set_xticks([0, *nines], ["0 %", *(f"{100 * (1 - 10.0**-nine):.8g} %" for nine in nines)])
    axes.set_xlabel("percentile of requests")
    legend(figure, handles, labels)
    return figure


def draw_timelines(summary: Summary) -> Figure:
    """One panel per subject: its windows one after another, with marks at lost requests."""
    subjects = [(position, subject) for position, subject in enumerate(summary.subjects) if subject.windows]
    columns = 1 if len(subjects) <= _ONE_COLUMN_MAX else 2
    rows = math.ceil(len(subjects) / columns)
    figure, panels = new_figure("Latency over time", rows, columns, height_in=1.0 + 2.2 * rows, sharey=True)
    for (position, subject), axes in zip(subjects, panels, strict=False):
        _timeline(axes, subject, look(position)["color"])
        latency_axis(axes, "")
        slo_line(axes, summary.slo_ms)
        axes.set_title(subject.name)
    for spare in panels[len(subjects) :]:
        spare.set_visible(False)
    for axes in panels[: len(subjects)][-columns:]:
        axes.set_xlabel("seconds measured")
    first = panels[0]
    handles = [
        *first.plot([], [], color=SOFT, **_P50),
        *first.plot([], [], color=SOFT, **_P99),
        *first.plot([], [], color=SOFT, **_MAX),
        *first.plot([], [], color=ALARM, **_LOST),
    ]
    legend(figure, handles, ["p50", "p99", "max", "requests were refused or failed"])
    return figure


def _timeline(axes: Axes, subject: SubjectFigures, colour: str) -> None:
    begun_s = 0.0
    for window in subject.windows:
        read = [(begun_s + each.start_s, Latencies([each.histogram])) for each in window.result.timeline]
        at_s = [start_s for start_s, here in read if here.count]
        found = [here for _, here in read if here.count]
        axes.plot(at_s, [here.max_us for here in found], color=SOFT, **_MAX)
        axes.plot(at_s, [here.quantile(0.5) for here in found], color=colour, **_P50)
        axes.plot(at_s, [here.quantile(0.99) for here in found], color=colour, **_P99)
        lost = [begun_s + each.start_s for each in window.result.timeline if each.sent > each.answered]
        axes.plot(lost, [0.95] * len(lost), color=ALARM, transform=axes.get_xaxis_transform(), **_LOST)
        if begun_s:
            axes.axvline(begun_s, color=SOFT, linewidth=0.8)
        begun_s += window.result.elapsed_s
    axes.set_xlim(0, begun_s)


def _nines(count: int) -> float:
    """The right end of the axis: the last percentile with an answer beyond it."""
    return min(max(math.log10(max(count, 2)), 1.0), _NINES_MAX)


def _by_percentile(found: Latencies) -> tuple[list[float], list[float]]:
    """Axis positions and their latencies."""
    positions = np.linspace(0.0, _nines(found.count), _STEPS_PER_NINE * _NINES_MAX)
    return positions.tolist(), [found.quantile(1 - 10.0**-position) for position in positions.tolist()]
