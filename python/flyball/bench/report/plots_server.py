"""Plots of the server itself: its stages beside the client's view, and its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.bench.report import texts
from flyball.bench.report.drawing import (
    DASHED,
    GRID,
    INK,
    PAPER,
    SOFT,
    STAGE_COLOURS,
    latency_ticks,
    legend,
    look,
    new_figure,
)
from flyball.bench.table import latency

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from flyball.bench.report.summary import Breakdown, Summary

_BAR = 0.66
_ON_COLOUR = "#fefefe"  # unlike the paper, it stays light in dark mode
_CHARACTER = 0.0105  # of the axis' width
_PATH, _WAITED = "////", "||"
_UNSEEN: dict[str, Any] = {"facecolor": PAPER, "edgecolor": SOFT, "linewidth": 0.8}
_SEEN_MIN = 0.01
_MB = 1e6
_HOUR_S = 3600.0


def draw_stages(summary: Summary) -> Figure:
    """Two bars per subject: the server's stages, and the client's mean with the part outside the server."""
    from matplotlib.patches import Patch

    found = summary.breakdowns
    height_in = 1.3 + 1.75 * len(found)
    figure, panels = new_figure("Where the time of a mean request goes", len(found), height_in=height_in, sharex=True)
    names = list(dict.fromkeys(stage.stage for breakdown in found for stage in breakdown.stages if stage.adds_us))
    colours = {name: STAGE_COLOURS[index % len(STAGE_COLOURS)] for index, name in enumerate(names)}
    for breakdown, axes in zip(found, panels, strict=True):
        _stage_bars(axes, breakdown, colours)
        axes.set_title(breakdown.subject)
    latency_ticks(panels[-1].xaxis)
    panels[-1].set_xlim(left=0)
    handles = [Patch(color=colour) for colour in colours.values()]
    labels = names if len(found) > 1 else [f"{name} {latency(_adds(found[0], name))}" for name in names]
    handles += [Patch(**_UNSEEN, hatch=hatch) for hatch in (_PATH, _WAITED)]
    legend(figure, handles, [*labels, "network, kernel, client", "waiting to be sent"])
    return figure


def _stage_bars(axes: Axes, breakdown: Breakdown, colours: dict[str, str]) -> None:
    walk, seen = breakdown.walk.mean_us, breakdown.client_mean_us
    whole = max(walk, seen)
    left = 0.0
    for name, colour in colours.items():
        adds = _adds(breakdown, name)
        axes.barh("server", adds, left=left, color=colour, edgecolor=PAPER, linewidth=0.6, height=_BAR)
        if _fits(name, adds / whole):
            _inside(axes, left + adds / 2, "server", name, _ON_COLOUR)
        left += adds
    if breakdown.between_us > 0:
        axes.barh("server", breakdown.between_us, left=left, color=SOFT, edgecolor=PAPER, linewidth=0.6, height=_BAR)
    axes.barh("client", min(walk, seen), color=GRID, edgecolor=SOFT, linewidth=0.8, height=_BAR)
    if _fits("in the server", walk / whole):
        _inside(axes, walk / 2, "client", "in the server", INK)
    sent = walk + breakdown.path_us
    _gap(axes, (walk, sent), "network, kernel, client", _PATH, whole=whole)
    _gap(axes, (sent, seen), "waiting to be sent", _WAITED, whole=whole)
    for row, us in (("server", walk), ("client", seen)):
        axes.annotate(latency(us), (us, row), xytext=(6, 0), textcoords="offset points", va="center")
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.1)


def _gap(axes: Axes, ends: tuple[float, float], name: str, hatch: str, *, whole: float) -> None:
    """A part that only the client sees, labelled if there is space; the legend names it too."""
    left, adds = ends[0], ends[1] - ends[0]
    if adds < _SEEN_MIN * whole:
        return
    axes.barh("client", adds, left=left, height=_BAR, hatch=hatch, **_UNSEEN)
    choices = (f"{name} {latency(adds)}", latency(adds))
    if text := next((text for text in choices if _fits(text, adds / whole)), None):
        _inside(axes, left + adds / 2, "client", text, INK, boxed=True)


def _fits(text: str, share: float) -> bool:
    return share > _CHARACTER * (len(text) + 1)


def _adds(breakdown: Breakdown, name: str) -> float:
    return sum(stage.adds_us for stage in breakdown.stages if stage.stage == name)


def _inside(axes: Axes, x: float, row: str, text: str, colour: str, *, boxed: bool = False) -> None:
    box = {"facecolor": PAPER, "edgecolor": "none", "pad": 2.0} if boxed else None
    axes.text(x, row, text, ha="center", va="center", fontsize=9.5, color=colour, bbox=box)  # type: ignore[arg-type]


def draw_memory(summary: Summary) -> Figure:
    """Resident memory over time, one line per soak."""
    figure, (axes,) = new_figure("Memory under load", height_in=3.6)
    indices = {subject.name: index for index, subject in enumerate(summary.subjects)}
    handles, labels = [], []
    for soak in summary.soaks:
        at_s = [sample.at_s for sample in soak.samples]
        mb = [sample.memory_bytes / _MB for sample in soak.samples]
        colour = look(indices.get(soak.subject, 0))["color"]
        handles += axes.plot(at_s, mb, color=colour)
        label = soak.subject
        if soak.slope_per_h:
            slope = soak.slope_per_h.value / _MB / _HOUR_S
            # Through the median of the residuals, as Theil and Sen would.
            base = sorted(y - slope * x for x, y in zip(at_s, mb, strict=True))[len(mb) // 2]
            axes.plot([at_s[0], at_s[-1]], [base + slope * at_s[0], base + slope * at_s[-1]], color=colour, linestyle=DASHED)
            label += f", {texts.signed_size(soak.slope_per_h.value)}/h"
        labels.append(label)
    sizes = [sample.memory_bytes / _MB for soak in summary.soaks for sample in soak.samples]
    axes.set_ylim(0.8 * min(sizes), 1.1 * max(sizes))
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds under load")
    axes.set_ylabel("resident memory, MB")
    legend(figure, handles, labels)
    return figure
