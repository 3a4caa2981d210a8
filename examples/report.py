"""How each example ends: tables on the terminal, and a picture in its made/ folder. Must not know what they show."""

from __future__ import annotations

import io
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from flyball.bench.report.drawing import drawing, new_figure, png, subscribe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; its first column is aligned to the left, the others to the right."""
    lines = [heads, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        print("  ".join([f"  {first:<{widths[0]}}", *cells]))
    print()


def latency(seconds: Sequence[float]) -> str:
    """Median and 99th percentile."""
    p50, p99 = np.percentile(np.array(seconds) * 1e3, [50, 99])
    return f"p50 {p50:.2f} ms, p99 {p99:.2f} ms"


@contextmanager
def picture(path: Path, title: str, about: str, panels: int, *, height_in: float = 3.9) -> Iterator[list[Axes]]:
    """Draw panels side by side; at the end, write the PNG and print its path."""
    from PIL import Image

    with drawing():
        figure, axes = new_figure(title, 1, panels, height_in=height_in)
        yield axes
        subscribe(figure, about, None)
        drawn = Image.open(io.BytesIO(png(figure)))
    # A palette is a third of the size, and plots have few colours.
    drawn.convert("RGB").quantize(96, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"picture: {os.path.relpath(path)}")
