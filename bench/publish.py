"""Makes the pages of figures: docs/claims.md and docs/performance.md, from claims, stored records and templates.

    python -m bench.publish                  both pages and the pictures of tails:  make claims-page
    python -m bench.publish RECORD.json      the same, and a record of `make bench-peers` that is published first

A published record of the peers is a compressed copy in bench/results/published. Time lines and histograms of a search's and
a curve's windows stay out of it: no report shows them, and they are most of its bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims import ages, page
from bench.claims.check import rewritten
from bench.claims.record import RECORDS
from bench.claims.report import exit_with
from bench.claims.table import suites
from bench.claims.tails import page as tails
from flyball.bench.record import BenchRecord
from flyball.bench.report import summarise, write_plots
from flyball.bench.report.texts import host, name_of, notes, setting, warnings
from flyball.bench.table import latency, rate, size
from flyball.errors import RefusedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.claims.claim import Suite
    from flyball.bench.record import Window
    from flyball.bench.report.summary import SubjectFigures, Summary

PAGE = Path("docs/performance.md")
PUBLISHED = Path("bench/results/published")
IMAGES = Path("docs/images")
_SOURCES = "bench/results/published, bench/results/claims/tails and bench/claims/pages/performance.md"
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


def peers_section(published: Path) -> list[str]:
    """The table, the host, what is doubtful, and the pictures, of a published record."""
    record = BenchRecord.read(published)
    summary = summarise(record)
    there = {kind: IMAGES / f"peers-{kind}.png" for kind in _PLOTS}
    images = [f"![{_PLOTS[kind]}](images/{path.name})" for kind, path in there.items() if path.is_file()]
    doubts = [f"- {words}" for words in (*warnings(summary), *notes(summary))]
    shown = [f"[{published.name}](../{published}): {_title(summary)}.", "", *table(summary), "", f"{host(record)}.", ""]
    return [*shown, *doubts, *([""] if doubts else []), *images]


def publish_record(path: Path) -> None:
    """Copy a record of the peers, and draw its pictures."""
    record = BenchRecord.read(path)
    PUBLISHED.mkdir(parents=True, exist_ok=True)
    published = PUBLISHED / f"{path.name.removesuffix('.gz')}.gz"
    record.model_copy(update={"windows": [_slim(window) for window in record.windows]}).write(published)
    IMAGES.mkdir(parents=True, exist_ok=True)
    for plot in write_plots(summarise(record), IMAGES, "peers"):
        print(plot)


def performance(chosen: Sequence[Suite], images: Path | None, results: Path = RECORDS) -> str:
    """docs/performance.md; draws the pictures of tails if given a folder."""
    peers = sorted(PUBLISHED.glob("*-peers-*.json.gz"))
    (suite,) = (suite for suite in chosen if suite.name == "tails")
    shown, drawn = tails.section(page.folders_of(suite, results), suite.topics, images)
    for path in drawn:
        print(path)
    parts = {"peers": peers_section(peers[-1]) if peers else ["No run of `make bench-peers` is stored."], "tails": shown}
    text = page.GENERATED.format(sources=_SOURCES) + "\n\n" + (page.TEMPLATES / PAGE.name).read_text()
    for name, lines in parts.items():
        text = text.replace(f"{{{{{name}}}}}", "\n".join(lines).strip())
    return text


def make_pages() -> int:
    """Write both pages."""
    chosen = suites()
    if found := page.undeclared(chosen) + rewritten():
        raise RefusedError("; ".join(found))
    page.PAGE.write_text(page.render((page.TEMPLATES / page.PAGE.name).read_text(), chosen, ages.head_commit()))
    PAGE.write_text(performance(chosen, IMAGES))
    print(f"{page.PAGE}, {PAGE}")
    return 0


def main() -> int:
    """Publish what the arguments name, and make the pages."""
    arguments = sys.argv[1:]
    if len(arguments) > 1:
        raise UsageError("one record of `make bench-peers` at most", next_step="python -m bench.publish RECORD.json")
    if arguments:
        publish_record(Path(arguments[0]))
    return make_pages()


if __name__ == "__main__":
    exit_with(main)
