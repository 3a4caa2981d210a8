"""Transforms as the deployment's document has them, and the columns that they leave.

Parameters come from the decision itself, else from its fitted file, else (categories) from the field's own values.
Must not judge them: that is the data plane's to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.decision.spec.faults import near

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from flyball.decision.compile.files import Files
    from flyball.decision.fit.fitted import Fitted
    from flyball.decision.spec.spec import Spec

# What must be known before a step can run, and what only fitting reads.
_NEEDED = {
    "impute": ("values",),
    "scale": ("factor", "offset"),
    "standardize": ("mean", "scale"),
    "bucket": ("edges",),
    "one_hot": ("values",),
    "ordinal": ("values",),
    "encode": ("maps", "default"),
}
_HOW = ("by", "range", "quantiles", "smoothing")


def open_steps(spec: Spec) -> list[dict[str, Any]]:
    """Each transform as `flyball.decision.fit` takes it: its op, its columns, and what its author said."""
    steps = []
    for transform in spec.transforms:
        step = transform.step
        said = step.model_dump(exclude_none=True) if step else {}
        steps.append({"op": transform.op, **said})
    return steps


def kinds(spec: Spec) -> dict[str, str]:
    """The type of each field and feature, by name."""
    named: dict[str, str] = {name: field.type for name, field in spec.input.items()}
    for name, feature in spec.features.items():
        named[name] = feature_type(feature)
    return named


def feature_type(feature: Any) -> str:
    """What a feature holds, where its author does not say."""
    if feature.type is not None:
        return str(feature.type)
    if feature.window is not None:
        return "int" if feature.window.op in ("count", "distinct") else "float"
    if feature.values is not None or feature.values_file is not None:
        return "category"
    return "float" if feature.compute is not None else "string"


def whole_steps(spec: Spec, categories: Mapping[str, Sequence[str]], files: Files) -> list[dict[str, Any]]:
    """The document's transforms; what is still open is put down as a fault."""
    fitted = files.fitted(("fitted",), spec.fitted) if spec.fitted else None
    if spec.fitted and fitted is None:  # told already; what only that file would say is not told again
        return [{**{key: [] for key in _NEEDED.get(step["op"], ())}, **step} for step in open_steps(spec)]
    return [_whole(place, step, categories, fitted, files) for place, step in enumerate(open_steps(spec))]


def _whole(
    place: int, step: dict[str, Any], categories: Mapping[str, Sequence[str]], fitted: Fitted | None, files: Files
) -> dict[str, Any]:
    step = {key: value for key, value in step.items() if key not in _HOW}
    op, of, needed = step["op"], step["of"], _NEEDED.get(step["op"], ())
    if all(key in step for key in needed):
        return step
    found = fitted.at(place, op, of) if fitted else None
    if found is not None:
        return {**step, **found}
    if op in ("one_hot", "ordinal"):
        return {**step, "values": [_categories(place, op, name, categories, files) for name in of]}
    advice = f"{' and '.join(needed)}, or a fitted file that has them:  flyball fit FILE --data rows.parquet"
    if fitted:
        advice += "  (the fitted file is of other transforms)"
    files.wrong(("transforms", place, op), ", ".join(of), advice)
    return {**step, **{key: [] for key in needed}}


def _categories(place: int, op: str, name: str, categories: Mapping[str, Sequence[str]], files: Files) -> list[str]:
    if name in categories:
        return list(categories[name])
    where = near(name, list(categories)) if categories else "no field has values"
    files.wrong(("transforms", place, op), name, f"values, a fitted file that has them, or a category with values ({where})")
    return []


def touched(steps: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """The columns that transforms made or changed, in the order of fields and features, then of the steps."""
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
    """What stands in the place of each column of a step."""
    of = step["of"]
    match step["op"]:
        case "one_hot":
            values = [*step["values"], *[[]] * len(of)]
            return [[f"{name}={value}" for value in values[place]] for place, name in enumerate(of)]
        case "date_parts":
            return [[f"{name}.{part}" for part in step["parts"]] for name in of]
        case "impute" if step.get("indicator"):
            return [[name, f"{name}=missing"] for name in of]
        case _:
            return [[name] for name in of]
