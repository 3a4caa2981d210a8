"""The style of plots: a palette for colour-blind readers, shapes beside colours, units on every axis.

Inks are placeholders of a light page; `svg` turns them into CSS variables, so that plots follow dark mode.
"""

from __future__ import annotations

import io
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from flyball.bench.table import latency, rate
from flyball.errors import needing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

INK, SOFT, GRID, PAPER = "#1f2430", "#5b6472", "#dfe3e8", "#ffffff"
ALARM = "#b3261e"
_DARK = {INK: "#e6e9ef", SOFT: "#a3acba", GRID: "#333a46", PAPER: "#161b22", ALARM: "#ff8a80"}
# Okabe and Ito's colours without yellow, which is invisible on white. Markers distinguish the last two.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7f87", "#8a5a2b")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
# Dark to light and back in the order of the walk, so that neighbours differ in more than hue.
STAGE_COLOURS = (
    *("#2b3a67", "#35558f", "#3f73a9", "#5b8f9f", "#7a9e87"),
    *("#b58a3c", "#c2622d", "#a23b52", "#74305f", "#4a2a59"),
)
DASHED: tuple[int, tuple[int, int]] = (0, (4, 2))
DOTTED: tuple[int, tuple[float, float]] = (0, (1, 1.2))
_WIDTH_IN, _DPI = 8.6, 160
_HEAD_IN, _LEFT = 0.72, 0.008  # above the panels: space for the title, the context and a mark
_CONTEXT_MAX, _MARK_MAX = 126, 108  # characters that fit below the title, and bold ones
_SETTINGS: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 11,
    "text.color": INK,
    "text.parse_math": False,  # a subject may be called "$x$"
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlepad": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 1.9,
    "lines.markersize": 5.5,
    "hatch.linewidth": 0.7,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "svg.hashsalt": "flyball",  # the same record gives the same page
}


@contextmanager
def drawing() -> Iterator[None]:
    """Settings for making and writing a plot. Fails with an install command if matplotlib is missing."""
    with needing("plots need matplotlib", extra="bench"):
        import matplotlib as mpl
    with mpl.rc_context(cast("Any", _SETTINGS)):  # matplotlib lists each key's name in its types
        yield


def new_figure(title: str, rows: int = 1, columns: int = 1, *, height_in: float, **given: Any) -> tuple[Figure, list[Axes]]:
    """A figure outside of pyplot, which would keep it forever and might look for a display."""
    from matplotlib.figure import Figure

    height_in += _HEAD_IN
    figure = Figure(figsize=(_WIDTH_IN, height_in), layout="constrained")
    figure.get_layout_engine().set(rect=(0.0, 0.0, 1.0, 1.0 - _HEAD_IN / height_in))  # type: ignore[union-attr, call-arg]
    axes = figure.subplots(rows, columns, squeeze=False, **given)
    figure.text(_LEFT, 1 - 0.08 / height_in, title, va="top", fontsize=13, fontweight="bold", in_layout=False)
    return figure, list(axes.flat)


def subscribe(figure: Figure, context: str, mark: str | None) -> None:
    """Below the title: the source of the figures, and whether they are complete."""
    y = 1 - 0.36 / figure.get_figheight()
    if mark:
        figure.text(
            _LEFT, y, _shortened(mark, _MARK_MAX), va="top", fontsize=9.5, fontweight="bold", color=ALARM, in_layout=False
        )
        y -= 0.19 / figure.get_figheight()
    figure.text(_LEFT, y, _shortened(context, _CONTEXT_MAX), va="top", fontsize=9.5, color=SOFT, in_layout=False)


def look(index: int) -> dict[str, Any]:
    """Colour and marker of the subject with this index."""
    return {"color": _COLOURS[index % len(_COLOURS)], "marker": _MARKERS[index % len(_MARKERS)]}


def latency_axis(axes: Axes, label: str = "latency") -> None:
    """A logarithmic y axis of times."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0), numticks=12))
    axes.yaxis.set_minor_formatter(NullFormatter())
    latency_ticks(axes.yaxis)
    axes.set_ylabel(label)


def latency_ticks(axis: Axis) -> None:
    """Ticks in the most readable unit."""
    axis.set_major_formatter(lambda us, _: _short(us))


def rate_axis(axes: Axes, label: str) -> None:
    """An x axis of rates, with thousands separators."""
    from matplotlib.ticker import NullFormatter

    axes.xaxis.set_major_formatter(lambda per_s, _: rate(per_s))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(label)


def plain_axis(axes: Axes) -> None:
    """A y axis of counts, with thousands separators."""
    axes.yaxis.set_major_formatter(lambda count, _: rate(count))


def slo_line(axes: Axes, slo_ms: float | None) -> None:
    """A line at the SLO."""
    if slo_ms is None:
        return
    axes.axhline(slo_ms * 1e3, color=ALARM, linewidth=1.2, linestyle=(0, (5, 3)), zorder=1.5)
    label = axes.annotate(
        f"p99 ≤ {slo_ms:g} ms",
        (0.0, slo_ms * 1e3),
        xycoords=("axes fraction", "data"),
        xytext=(6, 4),
        textcoords="offset points",
        color=ALARM,
        fontsize=10,
        zorder=5,
    )
    label.set_path_effects(halo())


def halo() -> list[Any]:
    """Keeps text readable over lines."""
    from matplotlib.patheffects import withStroke

    return [withStroke(linewidth=3.0, foreground=PAPER)]


def legend(figure: Figure, handles: Sequence[Any], labels: Sequence[str], columns: int = 4) -> None:
    """A legend below everything, where it hides no data."""
    figure.legend(handles, [_label(text) for text in labels], loc="outside lower center", ncols=min(columns, len(labels)))


def png(figure: Figure) -> bytes:
    """The figure as PNG."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=_DPI, metadata={"Software": None})
    return out.getvalue()


def svg(figure: Figure) -> bytes:
    """The figure as SVG that follows light or dark mode."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Creator": None, "Date": None, "Format": None, "Type": None})
    text = out.getvalue()
    text = text[text.index("<svg") :]  # without the DTD's address
    light, dark = [], []
    for index, (ink, in_dark) in enumerate(_DARK.items()):
        text = text.replace(ink, f"var(--i{index})")
        light.append(f"--i{index}:{ink}")
        dark.append(f"--i{index}:{in_dark}")
    style = f":root{{{';'.join(light)}}}@media (prefers-color-scheme:dark){{:root{{{';'.join(dark)}}}}}"
    head, start, rest = text.partition("<defs>")
    return f"{head}<style>{style}</style>{start}{rest}".encode()


def _short(us: float) -> str:
    """A tick's time without trailing zeros: "5 ms", "0.5 µs"."""
    number, _, unit = latency(us).partition(" ")
    return f"{float(number):g} {unit}"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _label(text: str) -> str:
    """Matplotlib hides labels that begin with an underscore."""
    return f"\u200b{text}" if text.startswith("_") else text
