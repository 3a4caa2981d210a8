"""The report on a candidate: text tables for the terminal, and one self-contained HTML page.

Both are made from the same document. Must not know how figures are computed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.bench.report.template import template
from flyball.decision_log.replay.report import percent

if TYPE_CHECKING:
    Json = dict[str, Any]

_TEMPLATE = Path(__file__).with_name("candidate.html.j2")


def trial_lines(document: Json) -> list[str]:
    """The report as text."""
    level = f"{document['level']:.0%}"
    lines = [f"{document['decision']}   {document['decisions']:,} decisions   candidate {document['candidate']}"]
    lines += [f"  left out: {why}   ({count:,})" for why, count in document["left_out"].items()]
    lines += ["", f"flips {percent(document['flips'])}   ({level} intervals)", *_matrix(document["matrix"])]
    lines += ["", *_table(["outcome", "was", "candidate", "difference"], _shares(document["outcomes"]))]
    if document["segments"]:
        lines += ["", *_table([", ".join(document["by"]), "decisions", "flips"], segments(document))]
    if document["score_shift"]:
        lines += ["", *shift_lines(document["score_shift"])]
    if document["errors"]:
        lines += ["", *_table(["error", "of", "was", "candidate", "difference"], errors(document))]
    elif document["truths"]:
        lines += ["", f"{document['truths']:,} true outcomes are known; give the bad ones:  --bad fraud"]
    return lines


def write_page(document: Json, path: Path) -> Path:
    """Write the report as one page without scripts; needs jinja2."""
    text = template(_TEMPLATE, percent=percent).render(report=document, shift=shift_lines, names=segment_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def shift_lines(shift: Json) -> list[str]:
    """Lines on how scores moved."""
    mean, largest = shift["mean"], shift["largest"]
    quantiles = ", ".join(f"{name} {value:+.4g}" for name, value in shift["quantiles"].items())
    return [
        f"score shift: mean {mean['value']:+.4g} ({mean['low']:+.4g} to {mean['high']:+.4g}), largest {largest:.4g}",
        f"  {quantiles}   PSI {shift['psi']:.4g}   Kolmogorov distance {shift['distance']:.4g}",
    ]


def segment_name(segment: Json) -> str:
    """The values of a segment as one text."""
    return ", ".join(segment["values"])


def segments(document: Json) -> list[list[str]]:
    """One table row per segment."""
    return [[segment_name(item), f"{item['rows']:,}", percent(item["flips"])] for item in document["segments"]]


def errors(document: Json) -> list[list[str]]:
    """One table row per kind of error."""
    return [
        [
            item["name"],
            f"{item['rows']:,}",
            percent(item["was"]),
            percent(item["now"]),
            percent(item["difference"], signed=True),
        ]
        for item in document["errors"]
    ]


def _shares(shares: list[Json]) -> list[list[str]]:
    return [
        [item["outcome"], percent(item["was"]), percent(item["now"]), percent(item["difference"], signed=True)]
        for item in shares
    ]


def _matrix(matrix: dict[str, dict[str, int]]) -> list[str]:
    """One row per recorded outcome, one column per candidate outcome; unused ones are omitted."""
    was = [name for name, row in matrix.items() if any(row.values())]
    now = [name for name in matrix if any(row[name] for row in matrix.values())]
    return _table(["was \\ candidate", *now], [[name, *(f"{matrix[name][other]:,}" for other in now)] for name in was])


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return [
        (
            "  "
            + row[0].ljust(widths[0])
            + "".join(f"   {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        )
        for row in [head, *rows]
    ]
