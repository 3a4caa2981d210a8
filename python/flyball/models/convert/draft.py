"""Drafts the decision for a converted model: fields from the data, transforms from the pipeline, an editable policy.

The draft serves at once and answers like the model. Values that only the owner knows are marked at the top. Must not know
how the model was converted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.decision.decision import Decision
from flyball.decision.fit.fitted import FITTED_KEYS, Fitted
from flyball.decision.fit.learn import is_open
from flyball.models.convert.folder import FITTED, MODEL, TREES

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.models.convert.comparison_rows import Reference

_VALUES_MAX = 1000
_TEXT_BYTES = 1024
_HEAD = """\
# A draft by `flyball convert`. It answers like the model; edit owner, purpose and bands.
# Field types come from the rows it was given. The comparison is in conversion.json.
"""


@dataclass(frozen=True, slots=True)
class Terms:
    """Values that only the decision's owner knows."""

    owner: str = "nobody@example.com"
    purpose: str = "say what this decides, and for whom"
    bands: dict[str, str] | None = None


def draft(reference: Reference, name: str, folder: Path, terms: Terms) -> Decision:
    """The decision over the files in the folder; writes the fitted parameters there."""
    parts = reference.parts
    explain: dict[str, Any] | None = {"trees": TREES} if parts.trees is not None else parts.explain
    model = {"path": MODEL, "name": name, "columns": parts.columns, "score": parts.score}
    policy: dict[str, Any] = {"bands": terms.bands or _bands(reference)}
    if explain is not None:
        model["explain"] = explain
        policy["reasons"] = {"from": "contributions", "most": 4}
    fitted = _fitted(reference)
    if fitted.transforms:
        fitted.write(folder / FITTED)
    return Decision(
        base=folder,
        decision=name,
        owner=terms.owner,
        purpose=terms.purpose,
        input={field: _field(reference, field, column) for field, column in parts.fields.items()},
        transforms=[_open(step) for step in parts.transforms] or None,
        fitted=FITTED if fitted.transforms else None,
        model=model,
        policy=policy,
    )


def text_of(decision: Decision) -> str:
    """The decision's YAML, with the values to edit at the top."""
    return _HEAD + decision.to_yaml()


def _bands(reference: Reference) -> dict[str, str]:
    """Two bands: split at 0.5 for probabilities, else at the median."""
    given = reference.expected[[kind == "given" for kind in reference.kinds]]
    middle = 0.5 if reference.parts.probability else float(f"{np.nanmedian(given):.3g}")
    return {"pass": f"< {middle:g}", "review": f">= {middle:g}"}


def _field(reference: Reference, name: str, column: str) -> dict[str, Any]:
    held = reference.rows.holds[column]
    made: dict[str, Any] = {"type": "int" if _counts_as_int(reference, name, column) else held}
    if held == "string":
        values = reference.parts.categories.get(name)
        if values is not None and 0 < len(values) <= _VALUES_MAX:
            made = {"type": "category", "values": values}
            if name in reference.unseen:
                made["unknown"] = _other(values)
        else:
            texts = [text for text in reference.rows.columns[column] if text is not None]
            longest = max((len(text.encode()) for text in texts), default=0)
            if longest > _TEXT_BYTES:
                made["length_max"] = min(2 * longest, 65_536)
    if name in reference.optional:
        made["required"] = False
    return made


def _counts_as_int(reference: Reference, name: str, column: str) -> bool:
    """Numeric categories are whole; their transform would cut off decimals."""
    cast = any(step["op"] == "cast" and name in step["of"] for step in reference.parts.transforms)
    return cast and reference.rows.holds[column] == "float"


def _other(values: list[str]) -> str:
    """A placeholder for unseen values that is not among the known ones."""
    return next(text for text in ("other", "unknown", "(unknown)", "((unknown))", "(((unknown)))") if text not in values)


def _fitted(reference: Reference) -> Fitted:
    found = []
    for index, step in enumerate(reference.parts.transforms):
        keys = FITTED_KEYS.get(step["op"], ())
        if keys and not is_open(step):
            parameters = {key: step[key] for key in keys if key in step}
            found.append({"at": index, "op": step["op"], "of": step["of"], **parameters})
    return Fitted(reference.rows.rows, found)


def _open(step: dict[str, Any]) -> dict[str, Any]:
    """A transform as the decision has it, with its fitted parameters in a separate file."""
    keys = FITTED_KEYS.get(step["op"], ())
    return {step["op"]: {key: value for key, value in step.items() if key != "op" and key not in keys}}
