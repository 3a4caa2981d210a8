"""The part of docs/performance.md about tails: a table and a picture for each topic, from the newest whole run.

A topic is shown for every machine class that measured it; parts of different runs are never merged. Must not measure.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.claims.claim import SHORT, UNMEASURED
from bench.claims.provenance import machine_words
from bench.claims.record import DONE
from bench.claims.settled import lines_of
from bench.claims.tails.plots import HEADLINE, HEADLINE_OF, PLOTS, picture

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.claims.claim import Topic
    from bench.claims.page import Folder
    from bench.claims.record import Attempt
    from bench.claims.settled import Line

NONE = "No run of `make claim-tails` is stored. Figures of earlier builds are in [claims before records](claims-history.md)."


def section(folders: Sequence[Folder], topics: Sequence[Topic], images: Path | None) -> tuple[list[str], list[Path]]:
    """The lines of the page, and the pictures that were drawn into a folder; without one the page names those there."""
    shown, drawn = list[str](), list[Path]()
    for topic in topics:
        seen = [folder for folder in folders if _measured(lines_of(folder.shown, [topic]))]
        if not seen:
            continue
        shown += [f"### {topic.name}", "", f"{topic.subject}. {topic.sample[:1].upper()}{topic.sample[1:]}.", ""]
        for folder in seen:
            shown += [f"{_where(folder)}.", "", *_table(lines_of(folder.shown, [topic])), ""]
        pictured = [folder for folder in seen if PLOTS[topic.name].needs in _last(seen[0], topic).raw][:1]
        for folder in pictured:
            shown += [f"![{PLOTS[topic.name].says}](images/tails-{topic.name}.png)", ""]
            drawn += _draw(folder, topic, images) if images else []
    return shown or [NONE, ""], drawn


def _draw(folder: Folder, topic: Topic, images: Path) -> list[Path]:
    images.mkdir(parents=True, exist_ok=True)
    raw, where = _last(folder, topic).raw, _where(folder)
    wanted = {f"tails-{topic.name}.png": picture(PLOTS[topic.name], raw, f"{topic.name} · {where}")}
    if topic.name == HEADLINE_OF:
        wanted["goodput.png"] = picture(HEADLINE, raw, where)
    drawn = []
    for name, content in wanted.items():
        if content is not None:
            (images / name).write_bytes(content)
            drawn.append(images / name)
    return drawn


def _last(folder: Folder, topic: Topic) -> Attempt:
    """The attempt that is drawn: the last that ended well, else the last."""
    attempts = folder.shown.of(topic.name)
    return ([attempt for attempt in attempts if attempt.state == DONE] or attempts)[-1]


def _measured(lines: Sequence[Line]) -> bool:
    return any(line.verdict.kind != UNMEASURED for line in lines)


def _table(lines: Sequence[Line]) -> list[str]:
    rows = [
        f"| {line.claim.sentence} | {line.verdict.figure if line.verdict.kind != UNMEASURED else line.verdict.reason} "
        f"| {line.claim.bar.text} | {f'**{SHORT}**' if line.verdict.kind == SHORT else line.verdict.kind} |"
        for line in lines
    ]
    return ["| claim | figure | bar | verdict |", "|---|---|---|---|", *rows]


def _where(folder: Folder) -> str:
    head = folder.shown.head
    return f"{machine_words(head.machine)} · flyball {head.commit} · {head.started.partition('T')[0]}"
