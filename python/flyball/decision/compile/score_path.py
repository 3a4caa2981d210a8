"""The path from a request to a model's score, as one digest, for equivalence certificates of decisions.

It covers everything that changes a score: the fields and features of columns, transforms with their fitted parameters,
the columns of tensors, and the element that is the score. It does not cover policy, owner, explanations, names and
paths: editing them does not change scores. Must not know certificates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flyball.documents.snapshot.store import canonical, digest_of

# Keys of a field that do not change its column.
_IRRELEVANT = frozenset({"key", "pii", "min", "max", "length_max"})


def way_digest(document: Mapping[str, Any], model: Mapping[str, Any]) -> str:
    """The digest of the path to one model in a compiled decision's document."""
    features = _features(document, model)
    read = _columns(document, model).union(*(_reads(feature) for feature in features.values()))
    if features:
        read.add(document["event_time"])  # windows end there
    path = {
        "fields": {
            field["name"]: {key: part for key, part in field.items() if key not in _IRRELEVANT}
            for field in document["input"]
            if field["name"] in read
        },
        "features": {name: _without_location(feature, document["sources"]) for name, feature in features.items()},
        "event_time": document["event_time"] if features else None,
        "transforms": document["transforms"],
        "inputs": model["inputs"],
        "score": model["score"],
        "weights": sorted(
            {one["weights"].get(model["name"], 0.0) for one in document["variants"] if one["models"] == [model["name"]]}
        ),
    }
    return digest_of(canonical(path))


def _columns(document: Mapping[str, Any], model: Mapping[str, Any]) -> set[str]:
    """Every name that the model or a transform reads."""
    read = [*(tensor["columns"] for tensor in model["inputs"]), *(step["of"] for step in document["transforms"])]
    return {name for names in read for name in names}


def _features(document: Mapping[str, Any], model: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The features of columns. A feature reads only earlier ones, so the last is visited first."""
    read, found = _columns(document, model), {}
    for feature in reversed(document["features"]):
        if feature["name"] in read:
            found[feature["name"]] = feature
            read |= _reads(feature)
    return found


def _reads(feature: Mapping[str, Any]) -> set[str]:
    """The names that a feature reads; for an expression all its words, because extra names are harmless."""
    window, lookup = feature.get("window", {}), feature.get("lookup", {})
    return {*re.findall(r"\w+", feature.get("compute", "")), *(window.get(key) for key in ("of", "by")), lookup.get("key")}


def _without_location(feature: Mapping[str, Any], sources: Mapping[str, Any]) -> dict[str, Any]:
    """The feature with its set of records, but without the server and the window's source."""
    made = dict(feature)
    if "lookup" in feature:
        made["lookup"] = {**feature["lookup"], "source": sources[feature["lookup"]["source"]]["set"]}
    if "window" in feature:
        made["window"] = {key: part for key, part in feature["window"].items() if key != "source"}
    return made
