"""Publishes figures on docs/performance.md.

    python -m bench.publish RECORD.json              a record of `make bench-peers`
    python -m bench.publish tails [REPORT.json …]    reports of `make claim-tails`; without one the published are drawn anew

Copies what it is given to bench/results/published, compressed, draws its plots into docs/images, and writes its tables
between the marks of the page. Time lines and histograms of a search's and a curve's windows stay out of the copy: no report
shows them, and they are most of its bytes.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.report import exit_with
from bench.claims.tails import page as tails
from flyball.bench.record import BenchRecord
from flyball.bench.report import summarise, write_plots
from flyball.bench.report.texts import host, name_of, notes, setting, warnings
from flyball.bench.table import latency, rate, size
from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flyball.bench.record import Window
    from flyball.bench.report.summary import SubjectFigures, Summary

PAGE = Path("docs/performance.md")
PUBLISHED = Path("bench/results/published")
IMAGES = Path("docs/images")
_BEGIN, _END = "<!-- peers: written by bench/publish.py -->", "<!-- /peers -->"
_PLOTS = {
    "kept": "the highest rate that keeps the SLO, with its interval",
    "rate": "latency against rate",
    "percentiles": "latency by percentile, from the due time and, dashed, from the real send",
    "timeline": "latency over time",
    "stages": "where the time goes: the server's own stages beside the client's view",
}


def table(summary: Summary) -> list[str]:
    """One line a server."""
    steady = summary.record.scenario.steady if summary.record.scenario else None
    at = f" at {steady.rate_per_s:,.0f}/s" if steady else ""
    lines = [
        f"| server | rate kept at p99 ≤ {summary.slo_ms:g} ms (95 %) | p50{at} | p99 | p99.9 | cold start | memory |",
        "|---|---|---|---|---|---|---|",
    ]
    return lines + [_row(subject) for subject in summary.subjects]


def _title(summary: Summary) -> str:
    return " · ".join([name_of(summary.record), *setting(summary)])


def _row(subject: SubjectFigures) -> str:
    measured, kept = subject.record, subject.kept
    figures = [
        latency(subject.latency_us[key].value if key in subject.latency_us else None) for key in ("p50", "p99", "p999")
    ]
    span = f" ({rate(kept.low_per_s)}–{rate(kept.high_per_s)})" if kept and kept.low_per_s and kept.high_per_s else ""
    name = f"{subject.name} {measured.version}" if measured.version else subject.name
    cold = latency(measured.cold_start_s * 1e6 if measured.cold_start_s else None)
    return (
        f"| {name} | {rate(subject.kept_per_s)}/s{span} | {' | '.join(figures)} | {cold} | {size(measured.memory_bytes)} |"
    )


def _slim(window: Window) -> Window:
    if window.phase not in ("search", "curve"):
        return window
    raw = {"timeline": [], "histogram": "", "service_histogram": ""}
    return window.model_copy(update={"result": window.result.model_copy(update=raw)})


def publish_record(path: Path) -> int:
    """A record of the peers."""
    record = BenchRecord.read(path)
    summary = summarise(record)
    PUBLISHED.mkdir(parents=True, exist_ok=True)
    published = PUBLISHED / f"{path.name.removesuffix('.gz')}.gz"
    record.model_copy(update={"windows": [_slim(window) for window in record.windows]}).write(published)
    IMAGES.mkdir(parents=True, exist_ok=True)
    plots = {plot.stem.rpartition("-")[2]: plot for plot in write_plots(summary, IMAGES, "peers")}
    images = [f"![{alt}](images/{plots[kind].name})" for kind, alt in _PLOTS.items() if kind in plots]
    doubts = [f"- {words}" for words in (*warnings(summary), *notes(summary))]
    shown = [f"[{published.name}](../{published}): {_title(summary)}.", "", *table(summary), "", f"{host(record)}.", ""]
    write_between(_BEGIN, _END, [*shown, *doubts, *([""] if doubts else []), *images, ""])
    print(f"{PAGE}, {len(plots)} plots, {published}")
    return 0


def publish_tails(reports: Sequence[Path]) -> int:
    """Reports of the claims about tails, into the one file that has all topics; pictures and tables come from that file."""
    published = PUBLISHED / tails.NAME
    document = tails.merged(published, reports)
    shown, drawn = tails.section(document, IMAGES)
    PUBLISHED.mkdir(parents=True, exist_ok=True)
    published.write_bytes(gzip.compress(json.dumps(document, separators=(",", ":")).encode(), mtime=0))
    write_between(tails.BEGIN, tails.END, [f"[{published.name}](../{published}) has the raw values.", "", *shown])
    print(f"{PAGE}, {len(drawn)} plots, {published}")
    return 0


def write_between(begin: str, end: str, lines: Sequence[str]) -> None:
    """Replace what stands between two marks of the page."""
    page = PAGE.read_text()
    if begin not in page or end not in page:
        raise UsageError(f"{PAGE} has no {begin}", next_step="put both marks where the section belongs")
    text = "\n".join([begin, "", *lines, end])
    PAGE.write_text(re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: text, page, flags=re.DOTALL))


def main() -> int:
    """Publish what the arguments name."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["tails"]:
        return publish_tails([Path(name) for name in arguments[1:]])
    if len(arguments) != 1:
        raise UsageError("one record, or `tails` and its reports", next_step="python -m bench.publish RECORD.json")
    return publish_record(Path(arguments[0]))


if __name__ == "__main__":
    exit_with(main)
