"""Compiles a policy: ends of bands, order of outcomes, texts of reasons. Must not check its semantics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flyball.decision.compile.files import Files
    from flyball.decision.spec.policy import Band, Policy, Reasons
    from flyball.documents.yaml_lines import Place


def policy_document(policy: Policy, files: Files, place: Place) -> dict[str, Any]:
    """The document of a policy and its shadow."""
    outcomes = list(policy.outcomes) if policy.outcomes is not None else _outcomes(policy)
    adverse = list(policy.adverse) if policy.adverse is not None else outcomes[-1:] if len(outcomes) > 1 else []
    document: dict[str, Any] = {
        "guards": [{"of": name, **part.model_dump(exclude_none=True)} for name, part in policy.guard.items()],
        "rules": [rule.model_dump(exclude_none=True) for rule in policy.rules],
        "bands": _bands(policy.bands),
        "segments": [{"when": part.when, "bands": _bands(part.bands)} for part in policy.segments],
        "outcomes": outcomes,
        "adverse": adverse,
        "reasons": _reasons(policy.reasons, files, (*place, "reasons")),
    }
    if policy.kill_switch is not None:
        document["kill_switch"] = policy.kill_switch.model_dump()
    if policy.shadow is not None:
        document["shadow"] = policy_document(policy.shadow, files, (*place, "shadow"))
    return document


def _outcomes(policy: Policy) -> list[str]:
    """The outcomes of the bands, in written order: from mild to severe."""
    every = [policy.bands, *(segment.bands for segment in policy.segments)]
    return list(dict.fromkeys(band.outcome or name for bands in every for name, band in bands.items()))


def _bands(bands: Mapping[str, Band]) -> list[dict[str, Any]]:
    """`< 0.80` starts where a lower band ends, `>= 0.30` ends where a higher band starts."""
    documents = []
    for name, band in bands.items():
        others = [other for key, other in bands.items() if key != name]
        low, high = band.at_least, band.below
        if low is None and high is not None:
            low = max((other.below for other in others if other.below is not None and other.below < high), default=None)
        elif high is None and low is not None:
            high = min(
                (other.at_least for other in others if other.at_least is not None and other.at_least > low), default=None
            )
        ends = {"outcome": band.outcome, "from": low, "to": high}
        documents.append({"name": name, **{key: value for key, value in ends.items() if value is not None}})
    return documents


def _reasons(reasons: Reasons, files: Files, place: Place) -> dict[str, Any]:
    texts, codes = files.reasons((*place, "texts"), reasons.texts_file) if reasons.texts_file is not None else ({}, {})
    when = "never" if reasons.source == "rules" else reasons.when
    return {"when": when, "most": reasons.most, "texts": {**texts, **reasons.texts}, "codes": {**codes, **reasons.codes}}
