"""Warnings of `flyball check` and `flyball plan`: missing reasons, empty windows, unbatched models.

They concern valid decisions; nothing is refused. Must not check semantics: the data plane does that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flyball.decision.spec.faults import Origin, fault_at
from flyball.native import models as native_models

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from flyball.decision.compile.document import Compiled
    from flyball.decision.spec.spec import Spec
    from flyball.documents.yaml_lines import Place
    from flyball.errors import LineFault

_LISTED_MAX = 8
_ROWS_PROBED = 16
_HOUR_MS = 3_600_000

Warned = tuple["Place", str]


def warnings_of(spec: Spec, compiled: Compiled, origin: Origin, file: Path | str = "SPEC") -> list[LineFault]:
    """Every warning, at the author's lines. Loads models once, to check batching."""
    document = compiled.document
    found = [*_adverse(document), *_texts(document), *_windows(spec, file), *_unused(document), *_batching(compiled)]
    return [fault_at(origin, place, None, text, text) for place, text in found]


def _adverse(document: Mapping[str, Any]) -> Iterator[Warned]:
    """Adverse outcomes without a reason."""
    policy = document["policy"]
    adverse = set(policy["adverse"])
    for index, rule in enumerate(policy["rules"]):
        if rule.get("then") in adverse and rule.get("reason") is None:
            yield (
                ("policy", "rules", index),
                f"adverse outcome {rule['then']!r} without a reason; add  reason: CODE",
            )
    banded = {band.get("outcome", band["name"]) for band in _bands(policy)}
    if (silent := sorted(adverse & banded)) and (why := _unexplained(document)):
        yield ("policy", "reasons"), f"{_listed(silent)} by score has no reasons: {why}"
    for cause, remedy in document["remedies"].items():
        if isinstance(remedy, dict) and remedy["outcome"] in adverse:
            yield ("remedies", cause), f"adverse outcome {remedy['outcome']!r}; remedies have no reasons"


def _unexplained(document: Mapping[str, Any]) -> str | None:
    """Why the champion's answers have no reasons from the model; None if they have."""
    reasons = document["policy"]["reasons"]
    if reasons["when"] == "asked":
        return "policy.reasons explains the model only on request"
    if reasons["when"] == "never":
        return "policy.reasons never explains the model"
    if reasons["most"] == 0:
        return "policy.reasons.most is 0"
    models = {model["name"]: model for model in document["models"]}
    silent = [name for name in document["variants"][0]["models"] if models[name].get("explain") is None]
    if silent:
        return f"{_listed(silent)} has no explain; add  explain:  (docs/reference/decision-spec.md)"
    return None


def _texts(document: Mapping[str, Any]) -> Iterator[Warned]:
    policy = document["policy"]
    used = {rule["reason"] for rule in policy["rules"] if rule.get("reason") is not None}
    used |= set(policy["reasons"]["codes"].values())
    if policy.get("kill_switch") is not None:
        used.add(policy["kill_switch"]["reason"])
    if bare := sorted(used - policy["reasons"]["texts"].keys()):
        yield (
            ("policy", "reasons"),
            f"no text for {'reason' if len(bare) == 1 else 'reasons'} {_listed(bare)}: callers get only the code; add"
            f"  texts: {{{bare[0]}: …}}",
        )


def _windows(spec: Spec, file: Path | str) -> Iterator[Warned]:
    for name, feature in spec.features.items():
        if feature.window is not None:
            yield (
                ("features", name),
                f"is missing until the window has run for {_long(feature.window.last.ms)}; to fill it from past events:"
                f"  flyball features backfill {file} --data rows.parquet",
            )


def _unused(document: Mapping[str, Any]) -> Iterator[Warned]:
    """Features that no column, rule, guard or segment reads."""
    policy = document["policy"]
    read = {name for step in document["transforms"] for name in step["of"]}
    read |= {name for model in document["models"] for tensor in model["inputs"] for name in tensor["columns"]}
    for part in (policy, policy.get("shadow") or {}):
        read |= {guard["of"] for guard in part.get("guards", ())}
        conditions = [rule["when"] for rule in part.get("rules", ())] + [one["when"] for one in part.get("segments", ())]
        read |= {word for text in conditions for word in re.findall(r"\w+", text)}
    for feature in reversed(document["features"]):  # a feature reads only earlier ones
        if feature["name"] in read:
            read |= set(re.findall(r"\w+", feature.get("compute") or ""))
        else:
            yield ("features", feature["name"]), "unused: no column, rule, guard, segment or other feature reads it"


def _batching(compiled: Compiled) -> Iterator[Warned]:
    for model, artifact in zip(compiled.document["models"], compiled.artifacts, strict=True):
        batching = native_models.inspect(artifact.path, rows_max=_ROWS_PROBED).batching
        if not batching.on:
            place: Place = ("model",) if compiled.singular is not None else ("models", model["name"])
            yield place, f"batching is off: {batching.reason}"


def _bands(policy: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from policy["bands"]
    for segment in policy["segments"]:
        yield from segment["bands"]


def _listed(names: list[str]) -> str:
    more = len(names) - _LISTED_MAX
    return ", ".join(names[:_LISTED_MAX]) + (f" and {more} more" if more > 0 else "")


def _long(milliseconds: float) -> str:
    """90 minutes, 24 hours."""
    if milliseconds >= _HOUR_MS:
        hours = milliseconds / _HOUR_MS
        return f"{hours:g} hour{'s' * (hours != 1)}"
    return f"{milliseconds / 60_000:g} minutes" if milliseconds >= 60_000 else f"{milliseconds / 1000:g} seconds"
