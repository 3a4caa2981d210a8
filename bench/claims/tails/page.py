"""The published record of tails, and its part of docs/performance.md: a table and a picture per topic.

A topic is replaced whole by a later report's, so that machines of several kinds can each give theirs. Must not measure.
"""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

from bench.claims.tails.plots import HEADLINE, HEADLINE_OF, PLOTS, picture
from flyball.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

BEGIN, END = "<!-- tails: written by bench/publish.py -->", "<!-- /tails -->"
NAME = "tails.json.gz"
_NOT_MEASURED = "not measured here"


def merged(published: Path, reports: Sequence[Path]) -> dict[str, Any]:
    """The topics that were published, those of these reports in their place. Quick runs are refused."""
    document: dict[str, Any] = json.loads(gzip.decompress(published.read_bytes())) if published.is_file() else {"topics": {}}
    for path in reports:
        report = json.loads(path.read_text())
        if report.get("quick"):
            raise RefusedError(f"{path} is of a quick run, which proves nothing", next_step="make claim-tails")
        head = {key: report[key] for key in ("measured_at", "build", "machine")}
        for topic in PLOTS:
            lines = [line for line in report["lines"] if line.get("topic") == topic]
            silent = all(line["verdict"] == _NOT_MEASURED for line in lines)
            if lines and not (silent and topic in document["topics"]):
                document["topics"][topic] = {**head, "lines": lines, "raw": report["raw"].get(topic, {})}
    return document


def section(document: dict[str, Any], images: Path) -> tuple[list[str], list[Path]]:
    """The lines of the page, and the pictures, drawn anew."""
    if not document["topics"]:
        raise RefusedError("no topic of tails has been measured", next_step="make claim-tails, then name its report")
    shown, drawn = [], []
    images.mkdir(parents=True, exist_ok=True)
    for topic in (name for name in PLOTS if name in document["topics"]):
        found = document["topics"][topic]
        shown += [f"### {topic}", "", f"{_where(found)}.", "", *_table(found["lines"]), ""]
        content = picture(PLOTS[topic], found["raw"], f"{topic} · {_where(found)}")
        if content is not None:
            path = images / f"tails-{topic}.png"
            path.write_bytes(content)
            drawn.append(path)
            shown += [f"![{PLOTS[topic].says}](images/{path.name})", ""]
        headline = picture(HEADLINE, found["raw"], _where(found)) if topic == HEADLINE_OF else None
        if headline is not None:
            path = images / "goodput.png"
            path.write_bytes(headline)
            drawn.append(path)
    return shown, drawn


def _table(lines: Sequence[dict[str, str]]) -> list[str]:
    rows = [
        f"| {line['claim']} | {line['reason'] if line['verdict'] == _NOT_MEASURED else line['figure']} | {line['bar']} "
        f"| {line['verdict']} |"
        for line in lines
    ]
    return ["| claim | figure | bar | verdict |", "|---|---|---|---|", *rows]


def _where(found: dict[str, Any]) -> str:
    machine, build = found["machine"], found["build"]
    day = found["measured_at"].partition("T")[0]
    ours = f"flyball {build['version']} ({build['commit'][:10]})"
    return f"{machine['cpu_model']} · {len(machine['cpus'])} cores · {machine['kernel']} · {ours} · {day}"
