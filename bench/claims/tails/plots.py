"""The picture of each topic, drawn from a report's raw values: nothing is measured here.

Plots of loads over time are in plots_time. A topic without raw values has no picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from bench.claims.tails import cores, neighbour, plots_time, reloads, steady, throughput
from bench.claims.tails.rivals import RIVALS
from flyball.bench.report.drawing import (
    ALARM,
    INK,
    drawing,
    latency_axis,
    legend,
    look,
    new_figure,
    png,
    rate_axis,
    subscribe,
)
from flyball.bench.table import latency, rate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Raw = Mapping[str, Any]


_WHERE = {"apart": "a core of its own", "shared": "two shared cores"}
# In this order everywhere, so that a server keeps its colour.
_SERVERS = (throughput.OURS, throughput.UNBATCHED, throughput.BARE, *RIVALS)


@dataclass(frozen=True, slots=True)
class Plot:
    """One topic's picture, and what it shows."""

    says: str
    needs: str
    draw: Callable[[Raw], Figure]


def picture(plot: Plot, raw: Raw, context: str) -> bytes | None:
    """A plot's PNG; None where its raw values are not there."""
    if plot.needs not in raw:
        return None
    with drawing():
        figure = plot.draw(raw)
        subscribe(figure, context, None)
        return png(figure)


def draw_throughput(raw: Raw) -> Figure:
    """A bar for each server: the middle window, and a line from the lowest to the highest."""
    places = [(name, kind) for kind in _WHERE for name in throughput.BARS]
    figure, panels = new_figure("Requests a second, closed loop, 16 connections", 2, 2, height_in=5.2)
    for axes, (name, kind) in zip(panels, places, strict=True):
        found = raw.get(f"{name}, {kind}, per_s", {})
        _bars(axes, {side: one["values"] for side, one in found.items() if one["values"]}, rate)
        axes.set_title(f"{throughput.BARS[name].title}, {_WHERE[kind]}")
        rate_axis(axes, "requests a second")
    return figure


def draw_steady(raw: Raw) -> Figure:
    """p50 and p99 of each window, ours and the echo's."""
    figure, (axes,) = new_figure(f"The MLP at {steady.RATE_PER_S:,.0f} requests a second, open loop", height_in=3.6)
    _windows(figure, axes, {name: one["values"] for name, one in raw["windows"].items()})
    echo = median(value["latency_us"]["p99"] for value in raw["windows"][steady.ECHO]["values"])
    _bar_line(axes, echo + steady.OVER_ECHO_US, f"the echo's p99 + {latency(steady.OVER_ECHO_US)}")
    return figure


def draw_neighbour(raw: Raw) -> Figure:
    """p50 and p99 of each window, alone and beside."""
    title = f"The GBDT at {neighbour.RATE_PER_S:,.0f}/s beside a saturated CNN of {neighbour.RUN_MS:g} ms, one core"
    figure, (axes,) = new_figure(title, height_in=3.6)
    _windows(figure, axes, {name: one["values"] for name, one in raw["windows"].items()})
    alone = median(value["latency_us"]["p99"] for value in raw["windows"][neighbour.ALONE]["values"])
    most = neighbour.P99_MAX * alone
    _bar_line(axes, most, f"p99 ≤ {latency(most)}")
    return figure


def draw_reloads(raw: Raw) -> Figure:
    """p99 of every pair of windows, with and without a reload in it."""
    pairs = raw["pairs"][reloads.PAIRS]["values"]
    names = {"table": "the model that is reloaded", "fraud": "the GBDT beside it"}
    figure, panels = new_figure(f"{len(pairs)} reloads of 100 MB", 1, 2, height_in=3.6, sharey=True)
    handles: list[Any] = []
    for axes, (name, told) in zip(panels, names.items(), strict=True):
        handles = []
        for place, kind in enumerate(("without", "with")):
            values = [pair[kind][name]["latency_us"]["p99"] for pair in pairs]
            handles += axes.plot(range(1, len(values) + 1), values, linestyle="none", **look(place))
        plain = median(pair["without"][name]["latency_us"]["p99"] for pair in pairs)
        _bar_line(axes, reloads.P99_MAX * plain, f"{reloads.P99_MAX:g} × the median without")
        axes.set_title(f"p99 of {told}")
        latency_axis(axes)
        axes.set_xlabel("pair of windows")
    legend(figure, handles, ["without a reload", "with one"])
    return figure


def draw_cores(raw: Raw) -> Figure:
    """CPU a request, the lanes' CPU times, and p99 at a rate."""
    figure, panels = new_figure("More cores", 1, 3, height_in=3.4)
    cpu, lanes, at_rate = panels
    _bars(cpu, {name: one["values"] for name, one in raw["cpu_us a request"].items()}, latency)
    cpu.set_title("GBDT: CPU a request")
    cpu.set_xlabel("µs")
    times = [median(column) for column in zip(*raw["lane_cpu_s"]["lanes"]["values"], strict=True)]
    lanes.bar(range(len(times)), times, color=look(0)["color"])
    lanes.set_xticks(range(len(times)))
    lanes.set_title("one gRPC connection")
    lanes.set_xlabel("lane")
    lanes.set_ylabel("CPU time in s")
    _windows(figure, at_rate, {f"MLP at {cores.RATE_PER_S:,.0f}/s": raw["at rate"]["rate"]["values"]})
    _bar_line(at_rate, cores.P99_US_MAX, f"p99 < {latency(cores.P99_US_MAX)}")
    at_rate.set_title(f"MLP, {cores.RATE_CORES} cores")
    return figure


def _bars(axes: Axes, sides: Mapping[str, Sequence[float]], told: Callable[[float], str]) -> None:
    for row, (name, values) in enumerate(sides.items()):
        place = _SERVERS.index(name) if name in _SERVERS else row
        axes.barh(row, median(values), color=look(place)["color"], height=0.62)
        axes.plot((min(values), max(values)), (row, row), color=INK, linewidth=1.4, solid_capstyle="butt")
        axes.annotate(
            told(median(values)), (max(values), row), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9
        )
    axes.set_yticks(range(len(sides)), list(sides), fontsize=9)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.25)
    axes.set_xlim(left=0)


def _windows(figure: Figure, axes: Axes, sides: Mapping[str, Sequence[Raw]]) -> None:
    handles, labels = [], []
    for place, (name, values) in enumerate(sides.items()):
        at = range(1, len(values) + 1)
        axes.set_xticks(at)
        for which, style in (("p99", "-"), ("p50", ":")):
            handles += axes.plot(at, [value["latency_us"][which] for value in values], linestyle=style, **look(place))
            labels.append(f"{name}, {which}")
    latency_axis(axes)
    axes.set_xlabel("window")
    legend(figure, handles, labels)


def _bar_line(axes: Axes, at: float, words: str) -> None:
    axes.axhline(at, color=ALARM, linewidth=1.2, linestyle=(0, (5, 3)))
    axes.annotate(
        words,
        (0.0, at),
        xycoords=("axes fraction", "data"),
        xytext=(5, 3),
        textcoords="offset points",
        color=ALARM,
        fontsize=9,
    )


PLOTS = {
    "throughput": Plot("requests a second of a closed loop", "mlp, apart, per_s", draw_throughput),
    "steady": Plot("p50 and p99 of every window beside the echo's", "windows", draw_steady),
    "overload": Plot(
        "goodput against load beside others, the minute second by second, the queue at its end",
        "curves",
        plots_time.draw_overload,
    ),
    "bursts": Plot("a window with bursts, 200 ms by 200 ms", "time_lines", plots_time.draw_bursts),
    "reloads": Plot("p99 of windows with and without a reload", "pairs", draw_reloads),
    "neighbour": Plot("p50 and p99 of the GBDT, alone and beside the CNN", "windows", draw_neighbour),
    "cores": Plot("CPU a request, lanes and p99 on sixteen cores", "at rate", draw_cores),
}
HEADLINE = Plot("right answers in time against the offered load", "curves", plots_time.draw_goodput)
"""The README's picture, from the topic overload."""
HEADLINE_OF = "overload"
