"""The results table: server, requests per second, latency, memory. Units are part of each figure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table; None is shown as a dash. Notes go below the table."""

    name: str
    rate_per_s: float | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    mean_batch: float | None = None
    cold_start_s: float | None = None
    rss_bytes: int | None = None
    note: str | None = None


def notes(rows: list[Row]) -> list[str]:
    """The notes of all rows."""
    return [f"{row.name}: {row.note}" for row in rows if row.note]


def results_table(rows: list[Row], title: str, connections: int) -> Table:
    """The rows under one heading."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    heads = [f"req/s, {connections} conn.", "p50, 1 conn.", "p99, 1 conn.", "mean batch", "cold start", "memory"]
    for head in heads:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(
            row.name,
            rate(row.rate_per_s),
            latency(row.p50_us),
            latency(row.p99_us),
            "—" if row.mean_batch is None else f"{row.mean_batch:.1f}",
            "—" if row.cold_start_s is None else latency(row.cold_start_s * 1e6),
            size(row.rss_bytes),
        )
    return table


def rate(rate_per_s: float | None) -> str:
    """Requests per second, with thousands separators."""
    return "—" if rate_per_s is None else f"{rate_per_s:,.0f}"


def latency(us: float | None) -> str:
    """A time in the most readable unit: µs, ms or s, three digits."""
    if us is None:
        return "—"
    if us < 0:
        return f"−{latency(-us)}"
    return _scaled(us, "µs", "ms", "s")


def size(count: int | None) -> str:
    """Bytes in the most readable unit."""
    return "—" if count is None else _scaled(count, "B", "kB", "MB", "GB")


def percent(share: float | None) -> str:
    """A share as a percentage, two digits."""
    if share is None:
        return "—"
    return f"{share:.0%}".replace("%", " %") if share == 0 or share >= 0.0995 else f"{_plain(share * 100)} %"


def latency_span(us: float, low: float, high: float) -> str:
    """An interval around a time, in the unit in which `latency` shows that time: "1.18–1.25"."""
    divisor = next((divisor for limit, divisor in ((1e3, 1.0), (1e6, 1e3)) if us < limit), 1e6)
    return f"{_three(low / divisor)}–{_three(high / divisor)}"


def rate_span(low: float, high: float) -> str:
    """An interval of rates."""
    return f"{low:,.0f}–{high:,.0f}"


def _scaled(value: float, *units: str) -> str:
    """Three digits in the largest unit that the value reaches; each unit is a thousand of the one before."""
    power = next((power for power in range(len(units) - 1) if value < 1e3 ** (power + 1)), len(units) - 1)
    return f"{_three(value / 1e3**power)} {units[power]}"


def _plain(value: float) -> str:
    """Two digits, never with an exponent."""
    digits = max(0, 1 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def _three(value: float) -> str:
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
