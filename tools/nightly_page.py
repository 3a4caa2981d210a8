"""The page of a nightly run: what ran, what failed, what was skipped and why, and what no step covers.

Must not know how steps are run.
"""

from __future__ import annotations

import os
import platform
from collections import Counter
from typing import TYPE_CHECKING

from nightly_steps import NOT_COVERED

if TYPE_CHECKING:
    from nightly import Result
    from nightly_steps import Step

ORDER = ("passed", "failed", "skipped")


def page(commit: str, known: list[Step], results: dict[str, Result]) -> str:
    """Markdown."""
    ran = [(step, results[step.name]) for step in known if step.name in results]
    took = duration(sum(result.seconds for _, result in ran))
    lines = [f"# Nightly of {commit}", "", f"{summary(known, results)}. {took} in all, on {machine()}."]
    if any(result.changed for _, result in ran):
        lines.append("Steps with a * ran while the working tree had changes.")
    lines += ["", "| step | what | result | took | notes |", "|---|---|---|--:|---|", *(_row(*pair) for pair in ran)]
    lines += _section("Failed", [_failure(step, result) for step, result in ran if result.state == "failed"])
    lines += _section("Skipped", [f"- {step.name}: {result.why}" for step, result in ran if result.state == "skipped"])
    lines += _section("Not yet run", [f"- {step.name}: {step.title}" for step in known if step.name not in results])
    lines += _section("Not covered by any step", [f"- {what}: {why}." for what, why in NOT_COVERED.items()])
    return "\n".join([*lines, ""])


def summary(known: list[Step], results: dict[str, Result]) -> str:
    """One line of counts; every step is in one of them."""
    names = {step.name for step in known}
    counts = Counter(result.state for name, result in results.items() if name in names)
    waiting = len(names - results.keys())
    told = [f"{counts[state]} {state}" for state in ORDER]
    return ", ".join([*told, *([f"{waiting} not yet run"] if waiting else [])])


def duration(seconds: float) -> str:
    """To the minute once it takes one."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def machine() -> str:
    """What kind of machine it is, and nothing that names it."""
    return f"{os.cpu_count()} CPUs, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def _row(step: Step, result: Result) -> str:
    notes = [*result.notes, *([f"seed {result.seed}"] if result.seed is not None else [])]
    if result.state == "passed" and result.why:
        notes.append(result.why)
    name = step.name + ("*" if result.changed else "")
    cells = [name, step.title, result.state, duration(result.seconds), "; ".join(notes)]
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _failure(step: Step, result: Result) -> str:
    return "\n".join([f"### {step.name}: {result.why}", "", "```", f"$ {result.command}", *result.tail, "```", ""])


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"## {title}", "", *lines] if lines else []
