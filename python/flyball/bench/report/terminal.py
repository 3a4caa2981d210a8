"""The report on the terminal: one table within 100 columns, details, warnings, and the path of the raw data.

Names and problems are untrusted, so nothing here is parsed as markup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from flyball.bench.report import texts
from flyball.bench.report.comparison import print_comparison
from flyball.bench.report.summary import summarise
from flyball.bench.table import latency, percent, rate, size

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from flyball.bench.record import BenchRecord, Floor
    from flyball.bench.report.summary import Breakdown, Point, SubjectFigures, Summary
    from flyball.bench.statistics import Estimate

_DETAILED_MAX = 2  # more subjects would push the headline off the screen
_UNBOUNDED = 1000


def print_report(record: BenchRecord | Summary, out: Console, path: Path | None = None) -> None:
    """Print a record's report; `path` is the record's path."""
    summary = summarise(record)
    record = summary.record
    if mark := texts.partial(record):
        out.print(Text(mark, style="bold yellow"))
    out.print(Text(" · ".join([texts.name_of(record), *texts.setting(summary)]), style="bold"))
    _print_headline(summary, out)
    _print_details(summary, out)
    for warning in texts.warnings(summary):
        out.print(Text.assemble(("Warning: ", "yellow"), warning))
    for note in texts.notes(summary):
        out.print(Text(note, style="dim"))
    out.print(Text(texts.overhead(record), style="dim"))
    out.print(Text(texts.host(record), style="dim"))
    if path is not None:
        again = f"flyball bench --from {path}"
        together = len(str(path)) + len(again) + 24 <= out.width
        raw, repeat = Text(f"Raw data: {path}"), Text.assemble("Again:  ", (again, "bold"))
        for line in [Text("    ").join([raw, repeat])] if together else [raw, repeat]:
            out.print(line)


def _print_headline(summary: Summary, out: Console) -> None:
    if not summary.subjects:
        out.print(Text("Nothing was measured."))
        return
    table = _headline(summary)
    if out.measure(table, options=out.options.update_width(_UNBOUNDED)).maximum > out.width:
        table.padding = (0, 1, 0, 0)  # one space between columns instead of two
    out.print(table)
    for line in texts.captions(summary):
        out.print(Text(line, style="dim"))


def _headline(summary: Summary) -> Table:
    heading = texts.rate_heading(summary)
    with_errors = any(subject.error_share for subject in summary.subjects)
    heads = ["\n".join(heading)] if heading else []
    heads += [f"\n{name}" for name in texts.QUANTILE_NAMES.values()]
    heads += ["\nerrors"] * with_errors + ["cold\nstart", "\nmemory"]
    table = _table("", *heads)
    for subject in summary.subjects:
        cells = [_rate_cell(subject, summary)] if heading else []
        cells += [_latency_cell(subject.latency_us.get(key)) for key in texts.QUANTILE_NAMES]
        cells += [Text(percent(subject.error_share))] * with_errors
        cold_start_s = subject.record.cold_start_s
        cells += [
            Text(latency(None if cold_start_s is None else cold_start_s * 1e6)),
            Text(size(subject.record.memory_bytes)),
        ]
        table.add_row(Text(subject.name), *cells)
    if summary.record.floor:
        _add_floor(table, summary.record.floor, with_rate=heading is not None)
    return table


def _add_floor(table: Table, floor: Floor, *, with_rate: bool) -> None:
    """One caller without a network. It has no p95, and no columns after the quantiles."""
    cells = [_two_lines(f"{rate(floor.rate_per_s)} /s", "one caller")] if with_rate else []
    cells += [Text(latency(us)) for us in (floor.p50_us, None, floor.p99_us)]
    table.add_row(Text("bare ONNX\nRuntime"), *cells)


def _rate_cell(subject: SubjectFigures, summary: Summary) -> Text:
    if summary.record.rates_kept:
        kept = subject.kept
        if kept is None or kept.rate_per_s is None:
            return Text("—")
        return _two_lines(f"{rate(kept.rate_per_s)} /s", texts.kept_span(kept))
    answered = subject.rate_per_s
    if answered is None:
        return Text("—")
    return _two_lines(f"{rate(answered.value)} /s", texts.span(answered, "rate"))


def _latency_cell(estimate: Estimate | None) -> Text:
    if estimate is None:
        return Text("—")
    return _two_lines(latency(estimate.value), texts.span(estimate, "latency"))


def _two_lines(first: str, second: str) -> Text:
    return Text.assemble(first, (f"\n{second}", "dim")) if second else Text(first)


def _print_details(summary: Summary, out: Console) -> None:
    if isinstance(summary.comparison, str):
        out.print(Text(f"No comparison: {summary.comparison}"))
    elif summary.comparison:
        out.print()
        print_comparison(summary.comparison, [], out, None)
    sweeps = {"Latency against rate": summary.curve, "Closed loops": summary.concurrency}
    if len(summary.subjects) <= _DETAILED_MAX:
        for title, points in sweeps.items():
            _print_sweep(title, points, summary, out)
    for breakdown in summary.breakdowns:
        _print_breakdown(breakdown, out)
    if summary.soaks:
        out.print(Text("\nMemory under load", style="bold"))
    for soak in summary.soaks:
        out.print(Text(f"{soak.subject}: {texts.soak(soak)}"))
    if len(summary.subjects) > _DETAILED_MAX and any(sweeps.values()):
        out.print(Text(f"{' and '.join(title for title in sweeps if sweeps[title])}: on the page and in the plots."))
    out.print()


def _print_sweep(title: str, points: list[Point], summary: Summary, out: Console) -> None:
    if not points:
        return
    closed = points is summary.concurrency
    out.print(Text(f"\n{title}", style="bold"))
    table = _table("", "connections" if closed else "offered", "answered", "p50", "p99", "errors")
    for subject in summary.subjects:
        for index, point in enumerate(summary.points_of(subject.name, points)):
            given = f"{point.connections:,}" if closed else f"{rate(point.offered_per_s)} /s"
            name = Text(subject.name if index == 0 else "")
            if point.bottleneck:
                table.add_row(name, Text(given), "—", "—", "—", Text("generator's limit", style="dim"))
                continue
            p99 = f"{'~' if point.few else ''}{latency(point.p99_us)}"
            cells = [given, f"{rate(point.answered_per_s)} /s", latency(point.p50_us), p99, percent(point.error_share)]
            table.add_row(name, *(Text(cell) for cell in cells))
    out.print(table)


def _print_breakdown(breakdown: Breakdown, out: Console) -> None:
    out.print(Text(f"\nWhere the time goes: {breakdown.subject}", style="bold"))
    table = _table("", "mean", "p50", "p99", "share of the client's mean")
    whole = breakdown.client_mean_us
    for stage in breakdown.stages:
        times = [stage.mean_us, stage.p50_us, stage.p99_us] if stage.mean_us else [None] * 3
        cells = [*(latency(us) for us in times), percent(stage.adds_us / whole)]
        table.add_row(Text(f"  {stage.stage}"), *(Text(cell) for cell in cells))
    walk = breakdown.walk
    rows: list[tuple[str, float, float | None, float | None]] = [
        ("server, the whole walk", walk.mean_us, walk.p50_us, walk.p99_us),
        ("network, kernel, client", breakdown.path_us, None, None),
        ("waiting to be sent", breakdown.waited_us, None, None),
        ("client", whole, breakdown.client_p50_us, breakdown.client_p99_us),
    ]
    for name, mean_us, p50_us, p99_us in rows:
        quantiles = ["" if us is None else latency(us) for us in (p50_us, p99_us)]
        cells = [latency(mean_us), *quantiles, percent(mean_us / whole)]
        table.add_row(Text(name, style="bold"), *(Text(cell) for cell in cells))
    out.print(table)


def _table(first: str, *heads: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, overflow="fold")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table
