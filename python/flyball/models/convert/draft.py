"""The decision that serves a converted model: its fields from the data, its transforms from the pipeline, a policy to edit.

A draft in the honest sense: it serves at once and answers as the model does, and what only its owner can know stands at its
top, marked. Must not know how the model was converted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flyball.decision.decision import Decision
from flyball.decision.fit.fitted import Fitted
from flyball.decision.fit.learn import FITTED_KEYS, is_open
from flyball.models.convert.folder import FITTED, MODEL, TREES

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.models.convert.comparison_rows import Examined

_VALUES_MAX = 1000
_TEXT_BYTES = 1024
_HEAD = """\
# A draft by `flyball convert`. It answers as the model does; yours to say are the owner, the purpose and the bands.
# Fields are typed by the rows that it was given. What was compared is in conversion.json.
"""


@dataclass(frozen=True, slots=True)
class Terms:
    """What only the decision's owner knows."""

    owner: str = "nobody@example.com"
    purpose: str = "say what this decides, and for whom"
    bands: dict[str, str] | None = None


def draft(examined: Examined, name: str, folder: Path, terms: Terms) -> Decision:
    """The decision, over the files that lie in the folder; fitted parameters are written there."""
    parts = examined.parts
    explain: dict[str, Any] | None = {"trees": TREES} if parts.trees is not None else parts.explain
    model = {"path": MODEL, "name": name, "columns": parts.columns, "score": parts.score}
    policy: dict[str, Any] = {"bands": terms.bands or _bands(examined)}
    if explain is not None:
        model["explain"] = explain
        policy["reasons"] = {"from": "contributions", "most": 4}
    fitted = _fitted(examined)
    if fitted.transforms:
        fitted.write(folder / FITTED)
    return Decision(
        base=folder,
        decision=name,
        owner=terms.owner,
        purpose=terms.purpose,
        input={field: _field(examined, field, column) for field, column in parts.fields.items()},
        transforms=[_open(step) for step in parts.transforms] or None,
        fitted=FITTED if fitted.transforms else None,
        model=model,
        policy=policy,
    )


def text_of(decision: Decision) -> str:
    """Its file, with what its owner must know at the top."""
    return _HEAD + decision.to_yaml()


def _bands(examined: Examined) -> dict[str, str]:
    """Two bands: at a half of probabilities, at the median of other answers."""
    given = examined.expected[[kind == "given" for kind in examined.kinds]]
    middle = 0.5 if examined.parts.probability else float(f"{np.nanmedian(given):.3g}")
    return {"pass": f"< {middle:g}", "review": f">= {middle:g}"}


def _field(examined: Examined, name: str, column: str) -> dict[str, Any]:
    held = examined.rows.holds[column]
    made: dict[str, Any] = {"type": "int" if _counts_as_int(examined, name, column) else held}
    if held == "string":
        values = examined.parts.categories.get(name)
        if values is not None and 0 < len(values) <= _VALUES_MAX:
            made = {"type": "category", "values": values}
            if name in examined.unseen:
                made["unknown"] = _other(values)
        else:
            texts = [text for text in examined.rows.columns[column] if text is not None]
            longest = max((len(text.encode()) for text in texts), default=0)
            if longest > _TEXT_BYTES:
                made["length_max"] = min(2 * longest, 65_536)
    if name in examined.optional:
        made["required"] = False
    return made


def _counts_as_int(examined: Examined, name: str, column: str) -> bool:
    """Numbers that are categories are whole; their transform would cut off what is behind the point."""
    cast = any(step["op"] == "cast" and name in step["of"] for step in examined.parts.transforms)
    return cast and examined.rows.holds[column] == "float"


def _other(values: list[str]) -> str:
    """What stands for values that the model has not seen: none that it has."""
    return next(text for text in ("other", "unknown", "(unknown)", "((unknown))", "(((unknown)))") if text not in values)


def _fitted(examined: Examined) -> Fitted:
    found = []
    for place, step in enumerate(examined.parts.transforms):
        keys = FITTED_KEYS.get(step["op"], ())
        if keys and not is_open(step):
            parameters = {key: step[key] for key in keys if key in step}
            found.append({"at": place, "op": step["op"], "of": step["of"], **parameters})
    return Fitted(examined.rows.rows, found)


def _open(step: dict[str, Any]) -> dict[str, Any]:
    """A transform as the decision has it: what was fitted lies beside it."""
    keys = FITTED_KEYS.get(step["op"], ())
    return {step["op"]: {key: value for key, value in step.items() if key != "op" and key not in keys}}
