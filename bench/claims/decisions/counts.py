"""A server's decision counters between two scrapes of /metrics. Must not know what is claimed."""

from __future__ import annotations

import re
from collections import Counter

from flyball.bench.stages import metrics

DECIDED = "flyball_decisions_total"
REMEDIED = "flyball_decisions_remedied_total"
REPEATED = "flyball_decisions_repeated_total"
_LABEL = re.compile(r'(\w+)="([^"]*)"')


def count(url: str, family: str, decision: str, label: str) -> Counter[str]:
    """A family's samples of one decision, by one of its labels."""
    line = re.compile(rf'^{family}\{{([^}}]*\bdecision="{re.escape(decision)}"[^}}]*)\}} (\d\S*)$', re.MULTILINE)
    found: Counter[str] = Counter()
    for labels, value in line.findall(metrics(url)):
        found[dict(_LABEL.findall(labels)).get(label, "")] += int(float(value))
    return found


def gained(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    """What came to it, zeros left out."""
    return {name: number - before[name] for name, number in after.items() if number != before[name]}
