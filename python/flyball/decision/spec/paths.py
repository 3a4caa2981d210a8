"""Replaces the paths in a decision.

Must not know the new paths: the caller gives each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flyball.decision.spec.fields import Feature, Field
    from flyball.decision.spec.models import Explain, Model
    from flyball.decision.spec.policy import Policy
    from flyball.decision.spec.spec import Spec

    Valued = TypeVar("Valued", Field, Feature)
    Move = Callable[["Use", str], str]

Use = Literal["model", "explanation", "fitted", "values", "reasons", "store"]


def with_paths(spec: Spec, move: Move) -> Spec:
    """A copy of the decision; `move` returns the new path of each file, given its use."""
    changes = {
        "input": _with_values(spec.input, move),
        "features": _with_values(spec.features, move),
        "sources": {
            name: part.model_copy(update={"store": move("store", part.store)}) if part.store else part
            for name, part in spec.sources.items()
        },
        "fitted": move("fitted", spec.fitted) if spec.fitted else None,
        "model": _with_model(spec.model, move) if spec.model else None,
        "models": {name: _with_model(model, move) for name, model in spec.models.items()} if spec.models else None,
        "policy": _with_texts(spec.policy, move),
    }
    return spec.model_copy(update={name: value for name, value in changes.items() if value != getattr(spec, name)})


def _with_values(parts: Mapping[str, Valued], move: Move) -> dict[str, Valued]:
    return {
        name: part.model_copy(update={"values_file": move("values", part.values_file)}) if part.values_file else part
        for name, part in parts.items()
    }


def _with_model(model: Model, move: Move) -> Model:
    changes: dict[str, object] = {"path": move("model", model.path)}
    if model.explain is not None:
        changes["explain"] = _with_trees(model.explain, move)
    if model.previous is not None:
        changes["previous"] = model.previous.model_copy(update={"path": move("model", model.previous.path)})
    return model.model_copy(update=changes)


def _with_trees(explain: Explain, move: Move) -> Explain:
    if explain.trees is None:
        return explain
    trees = explain.trees.model_copy(update={"path": move("explanation", explain.trees.path)})
    return explain.model_copy(update={"trees": trees})


def _with_texts(policy: Policy, move: Move) -> Policy:
    changes: dict[str, object] = {}
    if policy.reasons.texts_file is not None:
        path = move("reasons", policy.reasons.texts_file)
        changes["reasons"] = policy.reasons.model_copy(update={"texts_file": path})
    if policy.shadow is not None:
        changes["shadow"] = _with_texts(policy.shadow, move)
    return policy.model_copy(update=changes) if changes else policy
