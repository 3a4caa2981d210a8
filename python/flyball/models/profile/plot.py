"""Plots a bar per operator with a mark at its floor, as PNG or SVG."""

from __future__ import annotations

from pathlib import Path

from flyball.bench.report.drawing import ALARM, SOFT, drawing, latency_ticks, legend, look, new_figure, png, subscribe, svg
from flyball.bench.table import latency
from flyball.errors import UsageError
from flyball.models.profile.explanation import Explanation

_BAR_IN = 0.36
_NAME_CHARACTERS_MAX = 36
_FORMATS = {".png": png, ".svg": svg}


def check_plot_file(path: Path) -> None:
    """Refuse an unsupported file extension before measuring."""
    if path.suffix.lower() not in _FORMATS:
        raise UsageError(f"--plot: unsupported file extension of {path}", next_step="name it .png or .svg")


def write_plot(explanation: Explanation, path: Path, name: str, top: int) -> None:
    """The slowest operators, and the time in none."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    check_plot_file(path)
    shown = [line for line in explanation.lines if line.took_us > 0][:top]
    names = [*(_short(f"{line.op}  {line.node}") for line in shown), "in no operator"]
    times = [*(line.took_us for line in shown), explanation.between_us]
    with drawing():
        figure, (axes,) = new_figure(f"Where the time of {name} goes", height_in=1.2 + _BAR_IN * len(names))
        colour = look(0)["color"]
        axes.barh(range(len(names)), times, height=0.66, color=[*([colour] * len(shown)), SOFT])
        axes.set_yticks(range(len(names)), names)
        for index, line in enumerate(shown):
            if line.floor_us is not None:
                axes.plot([line.floor_us] * 2, [index - 0.42, index + 0.42], color=ALARM, linewidth=2.2)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.grid(visible=False, axis="y")
        latency_ticks(axes.xaxis)
        axes.set_xlabel(f"time in a run of {explanation.rows} row{'s' * (explanation.rows != 1)}")
        rows = f"p50 {latency(explanation.p50_us)} without the profile, {latency(explanation.profiled_us)} with it"
        subscribe(figure, f"{rows}, {explanation.runs:,} runs, one thread, ONNX Runtime {explanation.ort_version}", None)
        marks = [Patch(color=colour), Line2D([], [], color=ALARM, linewidth=2.2)]
        legend(figure, marks, ["operator", "floor on this machine"])
        path.write_bytes(_FORMATS[path.suffix.lower()](figure))


def _short(text: str) -> str:
    return text if len(text) <= _NAME_CHARACTERS_MAX else text[: _NAME_CHARACTERS_MAX - 1] + "…"
