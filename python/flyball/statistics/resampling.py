"""Block bootstrap over the intervals of windows. Seeded.

Consecutive requests share a queue, so single requests must not be drawn. Must not know confidence levels, nor how figures
are used.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from flyball.native.load import read_histograms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from flyball.native.load_documents import LoadResult

    Floats = NDArray[np.float64]

RESOLUTION = 0.001  # of the histograms, which keep three digits
_DRAWS = 1000
_DRAWS_AT_ONCE = 250  # each is as wide as the histogram: a thousand of a long tail would need 200 MB
_SEED = 4


@dataclass(frozen=True, slots=True)
class Resampled:
    """A thousand values of each figure over all windows, and the number of `blocks` drawn from.

    `disagreement`: 1, or the scatter between windows over the scatter within (Birge's ratio): drawing within windows cannot
    show what changes between them. `freedom`: Student's, of both scatters together.
    """

    figures: dict[str, Floats]
    blocks: int
    disagreement: dict[str, float]
    freedom: dict[str, float]


def resample(results: Sequence[LoadResult], quantiles: Mapping[str, float]) -> Resampled:
    """Draw intervals within each window; figures are the quantiles, mean, rate and error_share."""
    values_us, tables = _tables(results)
    random = np.random.default_rng(_SEED)

    def all_and_each(windows: list[Floats]) -> list[dict[str, Floats]]:
        sums = [np.sum(windows, axis=0), *windows] if len(windows) > 1 else windows
        return [_figures(part, values_us, quantiles) for part in sums]

    rounds = [all_and_each([_drawn(table, random) for table in tables]) for _ in range(_DRAWS // _DRAWS_AT_ONCE)]
    together, *alone = (_joined(parts) for parts in zip(*rounds, strict=True))
    seen = all_and_each([table.sum(axis=0, keepdims=True) for table in tables])
    disagreement = {name: _disagreement(name, seen, alone) for name in together}
    inside = max(sum(len(table) / _neighbours(len(table)) - 1 for table in tables), 1.0)
    return Resampled(
        figures=together,
        blocks=sum(len(table) for table in tables),
        disagreement=disagreement,
        freedom={name: _freedom(ratio, inside, len(tables) - 1) for name, ratio in disagreement.items()},
    )


def _tables(results: Sequence[LoadResult]) -> tuple[Floats, list[Floats]]:
    """One row per interval for each window: counts by latency, then sent, answered and seconds. All are additive."""
    read = [[read_histograms([interval.histogram]) for interval in result.timeline] for result in results]
    values_us = np.unique([value for window in read for interval in window for value in interval.values_us])
    tables = []
    for result, intervals in zip(results, read, strict=True):
        table = np.zeros((len(intervals), len(values_us) + 3))
        for row, interval in zip(table, intervals, strict=True):
            row[np.searchsorted(values_us, interval.values_us)] = interval.counts
        starts = [interval.start_s for interval in result.timeline]
        table[:, -3] = [interval.sent for interval in result.timeline]
        table[:, -2] = [interval.answered for interval in result.timeline]
        table[:, -1] = np.diff([*starts, max([result.elapsed_s, *starts])])
        if len(table):
            tables.append(table)
    return values_us, tables or [np.zeros((1, len(values_us) + 3))]


def _neighbours(count: int) -> int:
    """The block length: disturbances outlast one interval, and the cube root balances bias and variance."""
    return max(round(math.cbrt(count)), 1)


def _drawn(table: Floats, random: np.random.Generator) -> Floats:
    """Sums over as many rows as the table has, per draw: circular blocks of neighbours."""
    count = len(table)
    run = _neighbours(count)
    starts = random.integers(count, size=(_DRAWS_AT_ONCE, -(-count // run), 1))
    drawn_rows = ((starts + np.arange(run)) % count).reshape(_DRAWS_AT_ONCE, -1)[:, :count]
    times = np.zeros((_DRAWS_AT_ONCE, count))
    np.add.at(times, (np.arange(_DRAWS_AT_ONCE)[:, None], drawn_rows), 1.0)
    return _product("db,bv->dv", times, table)


def _figures(sums: Floats, values_us: Floats, quantiles: Mapping[str, float]) -> dict[str, Floats]:
    """The figures of each row of sums; 0 without answers."""
    counts, sent, answered, seconds = sums[:, :-3], sums[:, -3], sums[:, -2], sums[:, -1]
    below = np.cumsum(counts, axis=1)
    total = below[:, -1] if len(values_us) else np.zeros(len(sums))
    ranks = np.maximum(np.ceil(np.outer(total, list(quantiles.values())) - 1e-9), 1)
    padded = np.append(values_us, 0.0)  # an empty row's rank is beyond the end
    ranked = np.array([np.searchsorted(row, rank) for row, rank in zip(below, ranks, strict=True)])
    figures = dict(zip(quantiles, padded[ranked].T, strict=True))
    figures["mean"] = _product("dv,v->d", counts, values_us) / np.maximum(total, 1)
    figures["rate"] = np.divide(answered, seconds, out=np.zeros(len(sums)), where=seconds > 0)
    figures["error_share"] = 1 - np.divide(answered, sent, out=np.ones(len(sums)), where=sent > 0)
    return figures


def _product(axes: str, left: Floats, right: Floats) -> Floats:
    """Not `@`: its threads wait for cores that a loaded server does not leave them, and take a hundred times as long."""
    product: Floats = np.einsum(axes, left, right)
    return product


def _joined(parts: Sequence[dict[str, Floats]]) -> dict[str, Floats]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _disagreement(name: str, seen: Sequence[dict[str, Floats]], alone: Sequence[dict[str, Floats]]) -> float:
    """The scatter of windows around the total, over the scatter within windows; both as standard deviations."""
    if not alone:
        return 1.0
    together, *windows = (float(figures[name][0]) for figures in seen)
    inside = np.mean([drawn[name].var() for drawn in alone]) + (together * RESOLUTION / 2) ** 2
    between = sum((value - together) ** 2 for value in windows) / (len(windows) - 1)
    return max(float(np.sqrt(between / inside)), 1.0) if inside > 0 else 1.0


def _freedom(disagreement: float, inside: float, between: int) -> float:
    """Welch–Satterthwaite: few windows estimate their own scatter badly, the more so the larger its part."""
    share = 1 - disagreement**-2
    return 1 / ((1 - share) ** 2 / inside + share**2 / max(between, 1))
