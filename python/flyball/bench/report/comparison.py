"""Shows a comparison of two servers, as text and JSON. Must not evaluate it: verdicts are part of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.bench.table import latency, rate

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from flyball.bench.statistics import Comparison, Difference


def print_comparison(found: Comparison, caveats: list[str], out: Console, path: Path | None) -> None:
    """Print one line per figure, the summary, and its caveats."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head, justify in (("", "left"), ("A", "right"), ("B", "right"), ("B over A", "right"), ("", "left")):
        table.add_column(head, justify=justify)  # type: ignore[arg-type]  # rich spells out its words
    for figure in found.figures:
        span = f"{figure.ratio:.3f} ({figure.interval.low:.3f}–{figure.interval.high:.3f})"
        table.add_row(figure.name, _shown(figure, figure.a), _shown(figure, figure.b), span, figure.verdict)
    out.print(table)
    out.print(found.summary, style="bold", markup=False)
    for note in (*found.notes, *caveats):
        out.print(f"  {note}", style="dim", markup=False)
    if path is not None:
        out.print(f"Raw data: {path}", markup=False, soft_wrap=True)


def comparison_document(found: Comparison) -> dict[str, Any]:
    """The JSON document; latencies in µs, rates per second."""
    return {
        "shown": found.shown,
        "summary": found.summary,
        "level": found.level,
        "paired": found.paired,
        "windows": found.windows,
        "left_out": found.left_out,
        "figures": [
            {
                "name": figure.name,
                "a": figure.a,
                "b": figure.b,
                "ratio": figure.ratio,
                "low": figure.interval.low,
                "high": figure.interval.high,
                "verdict": figure.verdict,
            }
            for figure in found.figures
        ],
        "notes": found.notes,
    }


def _shown(figure: Difference, value: float) -> str:
    match figure.name:
        case "rate":
            return f"{rate(value)}/s"
        case "answered":
            return f"{value:.2%}"
        case _:
            return latency(value)
