"""The way from a request to a model's score, as one digest: what a comparison through the decision proves beside the model.

It is made of what changes a score: the fields and features that columns come from, transforms with what was fitted for them,
which columns make which tensor, and which element is the score. Policy, owner, explanations, names and paths are not in it:
they are edited freely, and the scores stay. Must not know certificates.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from flyball.documents.snapshot.store import canonical, digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping

# What a field says of whom it means and what it refuses: no column is another by it.
_OF_NO_COLUMN = frozenset({"key", "pii", "min", "max", "length_max"})


def way_digest(document: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    """Of a compiled decision's document, to one of its models."""
    features = _features(document, model)
    read = _columns(document, model).union(*(_reads(feature) for feature in features.values()))
    if features:
        read.add(document["event_time"])  # windows end there
    way = {
        "fields": {
            field["name"]: {key: part for key, part in field.items() if key not in _OF_NO_COLUMN}
            for field in document["input"]
            if field["name"] in read
        },
        "features": {name: _placeless(feature, document["sources"]) for name, feature in features.items()},
        "event_time": document["event_time"] if features else None,
        "transforms": document["transforms"],
        "inputs": model["inputs"],
        "score": model["score"],
        "weights": sorted(
            {one["weights"].get(model["name"], 0.0) for one in document["variants"] if one["models"] == [model["name"]]}
        ),
    }
    return digest_of(canonical(way))


def _columns(document: Mapping[str, Any], model: Mapping[str, Any]) -> set[str]:
    """Every name that the model or a transform asks."""
    taken = [*(tensor["columns"] for tensor in model["inputs"]), *(step["of"] for step in document["transforms"])]
    return {name for names in taken for name in names}


def _features(document: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Those that columns come from. One reads only what stands before it, so the last is asked first."""
    read, found = _columns(document, model), {}
    for feature in reversed(document["features"]):
        if feature["name"] in read:
            found[feature["name"]] = feature
            read |= _reads(feature)
    return found


def _reads(feature: Mapping[str, Any]) -> set[str]:
    """The names that a feature is made of; of an expression every word, for one too many does no harm."""
    window, lookup = feature.get("window", {}), feature.get("lookup", {})
    return {*re.findall(r"\w+", feature.get("compute", "")), *(window.get(key) for key in ("of", "by")), lookup.get("key")}


def _placeless(feature: Mapping[str, Any], sources: Mapping[str, Any]) -> dict[str, Any]:
    """Which records it is looked up in, and not which server has them or who shares a window."""
    made = dict(feature)
    if "lookup" in feature:
        made["lookup"] = {**feature["lookup"], "source": sources[feature["lookup"]["source"]]["set"]}
    if "window" in feature:
        made["window"] = {key: part for key, part in feature["window"].items() if key != "source"}
    return made
