"""The policy of a spec: guards, rules, bands and reasons.

Expressions are text here: only the data plane parses and checks them. Must not know models.
"""

from __future__ import annotations

from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field as Attr
from pydantic import ValidatorFunctionWrapHandler, WrapValidator, model_validator

from flyball.decision.spec.parts import Key, Number, Part, Path, Switch, from_text, optional
from flyball.decision.spec.shorthand import BAND_ALLOWED, RANGE_ALLOWED, not_allowed, read_band, read_range, says
from flyball.documents.faults import Allowed

if TYPE_CHECKING:
    from collections.abc import Sequence

Outcome = Annotated[str, Attr(min_length=1, max_length=128), Allowed("an outcome, 1 to 128 characters")]
Code = Annotated[str, Attr(min_length=1, max_length=64), Allowed("a code, 1 to 64 characters")]
Expression = Annotated[str, Attr(min_length=1, max_length=4096), Allowed("an expression of 1 to 4096 characters")]
_Sentence = Annotated[str, Attr(min_length=1, max_length=1024), Allowed("a text of 1 to 1024 characters")]


class Range(Part):
    """A range that includes both ends. Written `0..1`, `0..` or `..1`."""

    min: Number | None = optional("least value")
    max: Number | None = optional("largest value")

    _shorthand = from_text(read_range)

    @model_validator(mode="after")
    def _some_end(self) -> Range:
        if (self.min is None and self.max is None) or (
            self.min is not None and self.max is not None and self.min > self.max
        ):
            raise not_allowed(RANGE_ALLOWED)
        return self


class Rule(Part):
    """If an expression is true: an outcome, a reason or both."""

    when: Expression = Attr(description="over fields and features; `has(x)` is false if x is missing")
    then: Outcome | None = optional("the outcome; without it the rule gives its reason only")
    reason: Code | None = optional("the code of its reason")
    priority: Annotated[int, Attr(ge=-1_000_000, le=1_000_000), Allowed("a whole number, -1000000 to 1000000")] = Attr(
        default=0, description="higher first"
    )
    final: Switch = Attr(default=False, description="decides alone, also for a milder outcome")
    missing: Switch = Attr(default=False, description="value of an unknown condition")

    @model_validator(mode="after")
    def _does_something(self) -> Rule:
        if self.then is None and self.reason is None:
            raise not_allowed("then, reason or both: a rule must do something")
        return self


class Band(Part):
    """A range of scores, including `at_least` and excluding `below`. Written `< 0.30`, `>= 0.80` or `0.30..0.80`."""

    at_least: Number | None = optional("the lower end; without it where another band ends, else without end")
    below: Number | None = optional("the upper end; without it where another band begins, else without end")
    outcome: Outcome | None = optional("the outcome; by default the band's name")

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        if isinstance(value, str):
            return read_band(value)
        if isinstance(value, dict) and isinstance(value.get("range"), str):
            rest = {key: part for key, part in value.items() if key != "range"}
            return {**rest, **read_band(value["range"])}
        return value

    @model_validator(mode="after")
    def _some_end(self) -> Band:
        if self.at_least is not None and self.below is not None and self.at_least >= self.below:
            raise not_allowed(BAND_ALLOWED)
        return self

    def text(self) -> str:
        """The range as an author writes it."""
        low, high = (None if end is None else _score(end) for end in (self.at_least, self.below))
        return f"< {high}" if low is None else f">= {low}" if high is None else f"{low}..{high}"


def _apart(value: Any, handler: ValidatorFunctionWrapHandler) -> dict[str, Band]:
    """Refuse bands that overlap, as they are written: the data plane would only name the scores."""
    bands: dict[str, Band] = handler(value)
    ends = {name: _ends(band, [one for one in bands.values() if one is not band]) for name, band in bands.items()}
    for (one, (low, high)), (other, (from_, to)) in combinations(ends.items(), 2):
        if max(low, from_) < min(high, to) and (low, high) != (from_, to):
            raise says(f"'{one}' ({bands[one].text()}) overlaps '{other}' ({bands[other].text()})")
    return bands


def _ends(band: Band, others: Sequence[Band]) -> tuple[float, float]:
    """The scores of a band: an end that is not written is where another band ends or begins."""
    low, high = band.at_least, band.below
    if low is None:
        low = max((one.below for one in others if one.below is not None and one.below < (high or inf)), default=-inf)
    if high is None:
        high = min((one.at_least for one in others if one.at_least is not None and one.at_least > low), default=inf)
    return low, high


def _score(end: float) -> str:
    """0.80 and 0.125: two digits, and more where there are more."""
    return f"{end:.2f}" if round(end, 2) == end else f"{end:g}"


Bands = Annotated[dict[Key, Band], Attr(min_length=1, max_length=64), WrapValidator(_apart)]


class Segment(Part):
    """Other bands if an expression is true; the first matching segment counts."""

    when: Expression = Attr(description="over fields and features")
    bands: Bands = Attr(description="an object: each band's range of scores")


class KillSwitch(Part):
    """While it is set, every decision has this outcome and no model runs."""

    outcome: Outcome = Attr(description="the outcome")
    reason: Code = Attr(description="the code of its reason")


class Reasons(Part):
    """The reasons in an answer."""

    source: Annotated[Literal["contributions", "rules"], Allowed("contributions or rules")] = Attr(
        default="contributions", alias="from", description="contributions of the model beside those of rules; or rules alone"
    )
    when: Annotated[Literal["adverse", "asked", "always", "never"], Allowed("adverse, asked, always or never")] = Attr(
        default="adverse", description="when the model is explained; adverse: on adverse outcomes, and on request"
    )
    most: Annotated[int, Attr(ge=0, le=64), Allowed("a whole number, 0 to 64")] = Attr(
        default=4, description="maximum number of reasons in an answer"
    )
    texts: Annotated[dict[Code, _Sentence], Attr(max_length=10_000)] = Attr(
        default={}, description="the text of each code; or the path of a CSV file with the columns code, text and field"
    )
    texts_file: Path | None = optional("the CSV file, where texts are given beside it")
    codes: Annotated[dict[str, Code], Attr(max_length=10_000)] = Attr(
        default={}, description="the code of each field or feature, for reasons from the model; by default its name"
    )

    @model_validator(mode="before")
    @classmethod
    def _texts_from_a_file(cls, value: Any) -> Any:
        if isinstance(value, dict) and isinstance(value.get("texts"), str) and "texts_file" not in value:
            rest = {key: part for key, part in value.items() if key != "texts"}
            return {**rest, "texts_file": value["texts"]}
        return value


class Policy(Part):
    """Guards, rules and bands; of the outcomes that they give, the most severe counts."""

    guard: Annotated[dict[str, Range], Attr(max_length=256)] = Attr(
        default={},
        description="the allowed range of `score`, a field or a feature; a number that is not finite is never allowed",
    )
    rules: Annotated[list[Rule], Attr(max_length=1000)] = Attr(default=[], description="a list of rules")
    bands: Bands = Attr(
        default={}, description="an object: each band's range of scores, from mild to severe; none without a model"
    )
    segments: Annotated[list[Segment], Attr(max_length=100)] = Attr(
        default=[], description="a list: other bands under a condition"
    )
    outcomes: Annotated[list[Outcome], Attr(min_length=1, max_length=64)] | None = optional(
        "all outcomes, from mild to severe; by default those of the bands, in the order in which they are written"
    )
    adverse: Annotated[list[Outcome], Attr(max_length=64)] | None = optional(
        "outcomes that owe their subject reasons; by default the most severe one"
    )
    kill_switch: KillSwitch | None = optional("an object: every decision has this outcome, and no model is run")
    reasons: Reasons = Attr(default=Reasons(), description="an object: the reasons in an answer")
    shadow: Policy | None = optional("another policy, evaluated as a shadow and never in the answer")

    @model_validator(mode="after")
    def _order_is_defined(self) -> Policy:
        """Bands in falling order are ambiguous: low scores may be the severe ones, or it may be a mistake."""
        if not self.bands and self.outcomes is None:
            raise says("is missing: each band's scores; or `outcomes:` from mild to severe, without a model", "bands")
        ends = [band.below if band.at_least is None else band.at_least for band in self.bands.values()]
        rising = [end for end in ends if end is not None]
        if self.outcomes is None and rising != sorted(rising):
            names = ", ".join(dict.fromkeys(band.outcome or name for name, band in self.bands.items()))
            words = f"are not written from low scores to high; sort them, or add  outcomes: [{names}]  from mild to severe"
            raise says(words, "bands")
        return self
