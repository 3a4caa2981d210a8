"""Checks that an equivalence certificate covers what a version serves: a model that answers, and its score path.

Done when a package is made, and at every promotion. Must not know the certificate's result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.decision.compile.score_path import way_digest
from flyball.errors import RegistryRefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from flyball.models.equivalence.certificate import Certificate
    from flyball.registry.packages.deployment import Served


def reach(proof: Certificate, shown: Served) -> str:
    """What the certificate leaves unproven, as text or empty; raises if it covers something else."""
    answering = _answering(shown)
    # With external data the digest covers several files. A certificate names a single file, so it cannot match.
    proven = [version for version in answering if shown.models[version] == proof.candidate.digest]
    if not proven:
        serves = ", ".join(shown.models[version] for version in answering)
        raise RegistryRefusedError(
            f"the equivalence certificate is for {proof.candidate.digest}, but the package serves {serves}",
            next_step="register the model of the certificate, or leave the certificate out",
        )
    if shown.decision is None:
        behind = "; it was compared inside a decision that is not in this package: callers compute its columns"
        return behind if proof.candidate.way is not None else ""
    models = {model["version"]: model for model in shown.decision["models"]}
    _check_way(proof, shown.decision, [models[version] for version in proven])
    others = [models[version]["name"] for version in answering if version not in proven]
    words = "" if proof.candidate.way else "; only the model was compared, not the transforms that make its columns"
    return words + (f"; not compared: {', '.join(others)}" if others else "")


def _answering(shown: Served) -> list[str]:
    """Versions of the models that answer callers; excludes shadows and remedies' models."""
    if shown.decision is None:
        return list(shown.models)
    first, *others = shown.decision["variants"]
    ways = [first, *(one for one in others if one["name"] in shown.decision["route"]["split"])]
    asked = {name for way in ways for name in way["models"]}
    return [model["version"] for model in shown.decision["models"] if model["name"] in asked]


def _check_way(proof: Certificate, decision: Mapping[str, Any], models: list[dict[str, Any]]) -> None:
    if proof.candidate.way in (None, *(way_digest(decision, model) for model in models)):
        return
    raise RegistryRefusedError(
        f"{models[0]['name']} is the compared model, but its decision has changed since: fields, features, transforms,"
        " fitted values, column order or score output",
        next_step="undo the change, convert or optimize again, or leave the certificate out",
    )
