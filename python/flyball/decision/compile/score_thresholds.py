"""At which scores a policy decides otherwise: where bands begin, where the score's guard ends, what rules compare it with.

Expressions are the data plane's to read. Here only comparisons of `score` with a number are looked for; a condition that
asks it in another way is told, for whoever counts flips must not take it for one without any. Must not know models or rows.
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
# Over tokens with a space between them. On either side stands what binds less tightly, or nothing.
_BEGIN, _SIGN, _SIGNED, _END = r"(?:^|(?<=[(&|?:] ))", "([<>]=?|[=!]=)", f"((?:- )?{_NUMBER})", r"(?= [)&|?:]|$)"
_SCORE_FIRST = re.compile(f"{_BEGIN}score {_SIGN} {_SIGNED}{_END}")
_SCORE_LAST = re.compile(f"{_BEGIN}{_SIGNED} {_SIGN} score{_END}")
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def score_thresholds(policy: Policy) -> tuple[list[float], list[str]]:
    """Where `score >= threshold` turns, those of bands first; and the conditions whose use of the score cannot be told."""
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
    """Of one condition; None where it asks the score in another way than beside a number."""
    matches = [match for match in _TOKEN.finditer(condition) if match.lastgroup != "nothing"]
    said = " ".join('""' if match.lastgroup == "text" else match.group() for match in matches)
    beside = [(sign, number) for sign, number in _SCORE_FIRST.findall(said)]
    beside += [(_MIRRORED.get(sign, sign), number) for number, sign in _SCORE_LAST.findall(said)]
    asked = len(re.findall(r"(?:^| )score(?= |$)", said)) - said.count("has ( score )")
    if asked != len(beside):
        return None
    return set().union(*(_turns(sign, float(number.replace(" ", ""))) for sign, number in beside))


def _turns(sign: str, number: float) -> set[float]:
    """The least score on the upper side of a comparison; of an equality both ends of the only score that fulfils it."""
    above = nextafter(number, inf)
    return {number, above} if sign in ("==", "!=") else {number} if sign in (">=", "<") else {above}
