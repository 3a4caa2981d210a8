"""From a score to an outcome: guards, rules, bands and reasons, as their author writes them.

Expressions are texts here: they are read and typed by the data plane alone. Must not know models.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field as Words
from pydantic import model_validator

from flyball.decision.spec.parts import Key, Number, Part, Path, Switch, words
from flyball.decision.spec.shorthand import BAND_ALLOWED, RANGE_ALLOWED, not_allowed, read_band, read_range
from flyball.documents.faults import Allowed

Outcome = Annotated[str, Words(min_length=1, max_length=128), Allowed("an outcome, 1 to 128 characters")]
Code = Annotated[str, Words(min_length=1, max_length=64), Allowed("a code, 1 to 64 characters")]
Expression = Annotated[str, Words(min_length=1, max_length=4096), Allowed("an expression of 1 to 4096 characters")]
_Sentence = Annotated[str, Words(min_length=1, max_length=1024), Allowed("a text of 1 to 1024 characters")]


class Range(Part):
    """Both ends are in it. Written `0..1`, `0..` or `..1`."""

    min: Number | None = words("least value")
    max: Number | None = words("largest value")

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        return read_range(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _some_end(self) -> Range:
        if (self.min is None and self.max is None) or (
            self.min is not None and self.max is not None and self.min > self.max
        ):
            raise not_allowed(RANGE_ALLOWED)
        return self


class Rule(Part):
    """When an expression holds, an outcome, a reason or both."""

    when: Expression = Words(description="over fields and features; `has(x)` tells whether x is there")
    then: Outcome | None = words("the outcome; without it the rule gives its reason only")
    reason: Code | None = words("the code of its reason")
    priority: Annotated[int, Words(ge=-1_000_000, le=1_000_000), Allowed("a whole number, -1000000 to 1000000")] = Words(
        default=0, description="higher first"
    )
    final: Switch = Words(default=False, description="decides alone, also for what is less severe")
    missing: Switch = Words(default=False, description="what a condition is taken for that cannot be told")

    @model_validator(mode="after")
    def _does_something(self) -> Rule:
        if self.then is None and self.reason is None:
            raise not_allowed("then, reason or both: a rule must do something")
        return self


class Band(Part):
    """A range of scores: `at_least` is in it, `below` is not. Written `< 0.30`, `>= 0.80` or `0.30..0.80`."""

    at_least: Number | None = words("the lower end; without it where another band ends, else without end")
    below: Number | None = words("the upper end; without it where another band begins, else without end")
    outcome: Outcome | None = words("the outcome; by default the band's name")

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


Bands = Annotated[dict[Key, Band], Words(min_length=1, max_length=64)]


class Segment(Part):
    """Other bands where an expression holds; the first segment that does counts."""

    when: Expression = Words(description="over fields and features")
    bands: Bands = Words(description="an object: each band's range of scores")


class KillSwitch(Part):
    """While it is there, every decision has this outcome and no model is run."""

    outcome: Outcome = Words(description="the outcome")
    reason: Code = Words(description="the code of its reason")


class Reasons(Part):
    """What the answer says of why."""

    source: Annotated[Literal["contributions", "rules"], Allowed("contributions or rules")] = Words(
        default="contributions", alias="from", description="contributions of the model beside those of rules; or rules alone"
    )
    when: Annotated[Literal["adverse", "asked", "always", "never"], Allowed("adverse, asked, always or never")] = Words(
        default="adverse", description="when the model is explained; adverse: on adverse outcomes, and when asked"
    )
    most: Annotated[int, Words(ge=0, le=64), Allowed("a whole number, 0 to 64")] = Words(
        default=4, description="reasons in an answer, at most"
    )
    texts: Annotated[dict[Code, _Sentence], Words(max_length=10_000)] = Words(
        default={}, description="the text of each code; or the path of a CSV file with the columns code, text and field"
    )
    texts_file: Path | None = words("the CSV file, where texts are given beside it")
    codes: Annotated[dict[str, Code], Words(max_length=10_000)] = Words(
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

    guard: Annotated[dict[str, Range], Words(max_length=256)] = Words(
        default={},
        description="for `score`, a field or a feature the range in which it must lie; what is not finite never does",
    )
    rules: Annotated[list[Rule], Words(max_length=1000)] = Words(default=[], description="a list of rules")
    bands: Bands = Words(
        default={}, description="an object: each band's range of scores, from mild to severe; none where there is no model"
    )
    segments: Annotated[list[Segment], Words(max_length=100)] = Words(default=[], description="a list: other bands for some")
    outcomes: Annotated[list[Outcome], Words(min_length=1, max_length=64)] | None = words(
        "all outcomes, from mild to severe; by default those of the bands, in the order in which they are written"
    )
    adverse: Annotated[list[Outcome], Words(max_length=64)] | None = words(
        "outcomes that owe their subject reasons; by default the most severe one"
    )
    kill_switch: KillSwitch | None = words("an object: every decision has this outcome, and no model is run")
    reasons: Reasons = Words(default=Reasons(), description="an object: what the answer says of why")
    shadow: Policy | None = words("another policy that is judged beside it, and never in the answer")

    @model_validator(mode="after")
    def _order_is_told(self) -> Policy:
        """Bands that do not rise may mean that low scores are the severe ones, or nothing at all: their author must say."""
        if not self.bands and self.outcomes is None:
            raise not_allowed("bands; or `outcomes:` from mild to severe, for a decision without a model")
        ends = [band.below if band.at_least is None else band.at_least for band in self.bands.values()]
        rising = [end for end in ends if end is not None]
        if self.outcomes is None and rising != sorted(rising):
            told = ", ".join(dict.fromkeys(band.outcome or name for name, band in self.bands.items()))
            raise not_allowed(f"bands from low scores to high, or `outcomes:` with {told} from mild to severe")
        return self
