"""Pictures of loads over time: an overload's curve and minute, and bursts. Drawn from raw values, like those of plots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.claims.tails import bursts, overload
from flyball.bench.report.drawing import ALARM, INK, SOFT, legend, look, new_figure, plain_axis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PARTS = {"in_time": "in time", "late": "late", "failed": "failed", "refused": "refused"}
_COLOURS = {"in_time": "#0072b2", "late": "#e69f00", "failed": ALARM, "refused": "#c3c9d2"}
_AROUND_S = (-0.3, 0.5)


def draw_overload(raw: Mapping[str, Any]) -> Figure:
    """Goodput against load, the minute second by second, and the queue around its end."""
    figure, (curve, minute, depth) = new_figure(
        f"{overload.OVER:g} × capacity for {overload.LASTS_S:g} s, a deadline of {raw['deadline_ms']} ms",
        3,
        1,
        height_in=8.2,
    )
    _curve(curve, {name: one for name, one in raw["curves"].items() if "points" in one})
    capacity = raw["capacity_per_s"]
    _parts(minute, raw["minute_by_second"], 1.0)
    minute.axhline(capacity, color=INK, linewidth=1.1, linestyle=(0, (5, 3)))
    minute.annotate("capacity", (0, capacity), xytext=(4, 3), textcoords="offset points", fontsize=9)
    minute.set_title("the minute: requests by the second in which they were due")
    minute.set_ylabel("requests a second")
    samples = [(at_s, count) for at_s, count in raw["depth"]["samples"] if _AROUND_S[0] <= at_s <= _AROUND_S[1]]
    depth.plot([at_s * 1e3 for at_s, _ in samples], [count for _, count in samples], color=look(0)["color"])
    depth.axhline(raw["depth"]["usual"], color=SOFT, linewidth=1.1, linestyle=":")
    depth.axvline(overload.BACK_MS_MAX, color=ALARM, linewidth=1.1, linestyle=(0, (5, 3)))
    depth.set_title("requests in the server around the load's end; dotted: the median at half load")
    depth.set_xlabel("ms after the last request was due")
    plain_axis(depth)
    handles, labels = minute.get_legend_handles_labels()
    legend(figure, handles, labels)
    return figure


def draw_goodput(raw: Mapping[str, Any]) -> Figure:
    """Goodput against load, beside others."""
    title = f"Right answers within {raw['deadline_ms']} ms, at up to twice each server's capacity"
    figure, (curve,) = new_figure(title, height_in=3.0)
    _curve(curve, {name: one for name, one in raw["curves"].items() if "points" in one})
    curve.set_title("")
    curve.set_ylabel("in time, of capacity")
    return figure


def draw_bursts(raw: Mapping[str, Any]) -> Figure:
    """The first window, interval by interval."""
    title = f"Bursts of {bursts.TIMES:g} × capacity for {bursts.BURST_S * 1e3:.0f} ms, a deadline of {raw['deadline_ms']} ms"
    figure, (axes,) = new_figure(title, height_in=3.6)
    _parts(axes, raw["time_lines"][0], bursts.BURST_S)
    axes.axhline(raw["capacity_per_s"], color=INK, linewidth=1.1, linestyle=(0, (5, 3)))
    axes.annotate("capacity", (0, raw["capacity_per_s"]), xytext=(4, 3), textcoords="offset points", fontsize=9)
    axes.set_xlabel("seconds")
    axes.set_ylabel("requests a second")
    handles, labels = axes.get_legend_handles_labels()
    legend(figure, handles, labels)
    return figure


def _curve(axes: Axes, curves: Mapping[str, Any]) -> None:
    for place, (name, found) in enumerate(curves.items()):
        good = [point["goodput_per_s"] / found["capacity_per_s"] for point in found["points"]]
        label = f"{name} ({found['capacity_per_s']:,.0f}/s)"
        axes.plot([point["multiple"] for point in found["points"]], good, label=label, **look(place))
    axes.axhline(overload.GOODPUT_MIN, color=ALARM, linewidth=1.1, linestyle=(0, (5, 3)))
    axes.set_title("right answers in time, of each server's own capacity")
    axes.set_xlabel("offered load, times capacity")
    axes.set_ylabel("goodput")
    axes.set_ylim(bottom=0)
    axes.legend(loc="best")


def _parts(axes: Axes, lines: Sequence[Mapping[str, float]], interval_s: float) -> None:
    at = [line["start_s"] + interval_s / 2 for line in lines]
    below = [0.0] * len(lines)
    for part, label in _PARTS.items():
        values = [line[part] / interval_s for line in lines]
        axes.bar(at, values, width=interval_s, bottom=below, color=_COLOURS[part], label=label)
        below = [one + other for one, other in zip(below, values, strict=True)]
    axes.set_ylim(bottom=0)
    plain_axis(axes)
