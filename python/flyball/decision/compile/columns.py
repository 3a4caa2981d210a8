"""Compiles transforms for the deployment's document, and computes the columns they produce.

Parameters come from the decision, else from its fitted file, else (categories) from the field's values. Must not
validate them: the data plane does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.decision.fit.fitted import FITTED_KEYS, HOW_KEYS, Fitted
from flyball.decision.spec.faults import near

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.decision.compile.files import Files
    from flyball.decision.spec.spec import Spec


def open_steps(spec: Spec) -> list[dict[str, Any]]:
    """Each transform in the form of `flyball.decision.fit`: its op, its columns, and the given parameters."""
    return [
        {"op": transform.op, **(transform.step.model_dump(exclude_none=True) if transform.step else {})}
        for transform in spec.transforms
    ]


def kinds(spec: Spec) -> dict[str, str]:
    """The type of each field and feature, by name."""
    fields = {name: str(field.type) for name, field in spec.input.items()}
    return fields | {name: feature_type(feature) for name, feature in spec.features.items()}


def feature_type(feature: Any) -> str:
    """A feature's type; by default from its kind."""
    if feature.type is not None:
        return str(feature.type)
    if feature.window is not None:
        return "int" if feature.window.op in ("count", "distinct") else "float"
    if feature.values is not None or feature.values_file is not None:
        return "category"
    return "float" if feature.compute is not None else "string"


def whole_steps(spec: Spec, categories: Mapping[str, Sequence[str]], files: Files) -> list[dict[str, Any]]:
    """The document's transforms; adds a fault for each open parameter."""
    fitted = files.fitted(("fitted",), spec.fitted) if spec.fitted else None
    if spec.fitted and fitted is None:  # reported already; do not report its missing parameters, too
        return [{**{key: [] for key in FITTED_KEYS.get(step["op"], ())}, **step} for step in open_steps(spec)]
    return [_whole(index, step, categories, fitted, files) for index, step in enumerate(open_steps(spec))]


def _whole(
    index: int, step: dict[str, Any], categories: Mapping[str, Sequence[str]], fitted: Fitted | None, files: Files
) -> dict[str, Any]:
    step = {key: value for key, value in step.items() if key not in HOW_KEYS}
    op, of, needed = step["op"], step["of"], FITTED_KEYS.get(step["op"], ())
    if all(key in step for key in needed):
        return step
    found = fitted.at(index, op, of) if fitted else None
    if found is not None:
        return {**step, **found}
    if op in ("one_hot", "ordinal"):
        return {**step, "values": [_categories(index, op, name, categories, files) for name in of]}
    advice = f"{' and '.join(needed)}, or a fitted file with them:  flyball fit SPEC --data rows.parquet"
    if fitted:
        advice += "  (the fitted file belongs to other transforms)"
    files.wrong(("transforms", index, op), ", ".join(of), advice)
    return {**step, **{key: [] for key in needed}}


def _categories(index: int, op: str, name: str, categories: Mapping[str, Sequence[str]], files: Files) -> list[str]:
    if name in categories:
        return list(categories[name])
    where = near(name, list(categories)) if categories else "no field has values"
    files.wrong(("transforms", index, op), name, f"values, a fitted file with them, or a category with values ({where})")
    return []


def touched(steps: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """The columns that transforms made or changed, in the order of fields and features, then steps."""
    columns: list[tuple[str, bool]] = [(name, False) for name in names]
    for step in steps:
        if step["op"] == "cross":
            columns.append((step["into"], True))
            continue
        made = dict(zip(step["of"], _made(step), strict=True))
        columns = [
            pair
            for name, old in columns
            for pair in ([(new, True) for new in made[name]] if name in made else [(name, old)])
        ]
    return [name for name, changed in columns if changed]


def _made(step: Mapping[str, Any]) -> list[list[str]]:
    """The columns that replace each input column of a step."""
    of = step["of"]
    match step["op"]:
        case "one_hot":
            values = [*step["values"], *[[]] * len(of)]
            return [[f"{name}={value}" for value in values[index]] for index, name in enumerate(of)]
        case "date_parts":
            return [[f"{name}.{part}" for part in step["parts"]] for name in of]
        case "impute" if step.get("indicator"):
            return [[name, f"{name}=missing"] for name in of]
        case _:
            return [[name] for name in of]
