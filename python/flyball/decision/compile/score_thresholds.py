"""The scores at which a policy's decision changes: ends of bands and of the score's guard, thresholds in rules.

The data plane parses expressions. Here only comparisons of `score` with a number are found; conditions that use it
otherwise are returned, so that flip counts do not ignore them. Must not know models or rows.
"""

from __future__ import annotations

import re
from math import inf, nextafter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flyball.decision.spec.policy import Policy

_TEXT = r"""
    [rR](?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"]*"|'[^']*')
    |[bB]?(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
"""
_NUMBER = r"(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?"
_TOKEN = re.compile(rf"(?P<nothing>\s+|//[^\n]*)|(?P<text>{_TEXT})|{_NUMBER}|\w+|&&|\|\||[<>=!]=|.", re.VERBOSE | re.DOTALL)
# Over tokens separated by spaces. On either side: an operator that binds less tightly, or nothing.
_BEGIN, _SIGN, _SIGNED, _END = r"(?:^|(?<=[(&|?:] ))", "([<>]=?|[=!]=)", f"((?:- )?{_NUMBER})", r"(?= [)&|?:]|$)"
_SCORE_FIRST = re.compile(f"{_BEGIN}score {_SIGN} {_SIGNED}{_END}")
_SCORE_LAST = re.compile(f"{_BEGIN}{_SIGNED} {_SIGN} score{_END}")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def score_thresholds(policy: Policy) -> tuple[list[float], list[str]]:
    """The thresholds of `score >= threshold`, bands first; and the conditions with another use of the score."""
    bands = [band for group in (policy.bands, *(one.bands for one in policy.segments)) for band in group.values()]
    begins = {float(end) for band in bands for end in (band.below, band.at_least) if end is not None}
    others: set[float] = set()
    if (guard := policy.guard.get("score")) is not None:
        others |= _turns(">=", guard.min) if guard.min is not None else set()
        others |= _turns("<=", guard.max) if guard.max is not None else set()
    compared = {rule.when: _compared(rule.when) for rule in policy.rules}
    others = others.union(*(found for found in compared.values() if found is not None))
    return sorted(begins) + sorted(others - begins), [when for when, found in compared.items() if found is None]


def _compared(condition: str) -> set[float] | None:
    """The thresholds of one condition; None if it uses the score other than in comparison with a number."""
    matches = [match for match in _TOKEN.finditer(condition) if match.lastgroup != "nothing"]
    text = " ".join('""' if match.lastgroup == "text" else match.group() for match in matches)
    comparisons = [(sign, number) for sign, number in _SCORE_FIRST.findall(text)]
    comparisons += [(_MIRRORED.get(sign, sign), number) for number, sign in _SCORE_LAST.findall(text)]
    used = len(re.findall(r"(?:^| )score(?= |$)", text)) - text.count("has ( score )")
    if used != len(comparisons):
        return None
    return set().union(*(_turns(sign, float(number.replace(" ", ""))) for sign, number in comparisons))


def _turns(sign: str, number: float) -> set[float]:
    """The lowest score on the upper side of a comparison; for an equality, both ends of its only score."""
    above = nextafter(number, inf)
    return {number, above} if sign in ("==", "!=") else {number} if sign in (">=", "<") else {above}
