"""The parts of a trained model: plain values, and the original's own answers.

Only these cross from the process that loads a file to the one that writes the folder. Must not know packages.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from flyball.models.convert.table import Table

_MODEL, _TREES, _PARTS = "model.onnx", "model.trees.json", "parts.json"


@dataclass(frozen=True, slots=True)
class Parts:
    """A model and what its decision needs to feed and explain it, named by the decision's fields."""

    kind: str
    model: bytes
    fields: dict[str, str]
    """Each field and its data column, in order."""
    columns: list[str] | dict[str, list[str]]
    """The columns of the model's one tensor, or by tensor."""
    score: str
    probability: bool
    transforms: list[dict[str, Any]] = field(default_factory=list)
    categories: dict[str, list[str]] = field(default_factory=dict)
    """The known categories by field; numbers as text."""
    rounded_to_nearest: bool = False
    """Thresholds are doubles rounded to float32: a value very close to one may take the other branch."""
    trees: bytes | None = None
    explain: dict[str, Any] | None = None
    cut: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    packages: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write it to a folder as plain files."""
        (folder / _MODEL).write_bytes(self.model)
        if self.trees is not None:
            (folder / _TREES).write_bytes(self.trees)
        plain = {key: value for key, value in asdict(self).items() if key not in ("model", "trees")}
        (folder / _PARTS).write_text(json.dumps(plain))

    @classmethod
    def read(cls, folder: Path) -> Parts:
        """Read such a folder; ValueError for values of other types."""
        from pydantic import TypeAdapter

        trees = folder / _TREES
        plain = json.loads((folder / _PARTS).read_bytes())
        files = {"model": (folder / _MODEL).read_bytes(), "trees": trees.read_bytes() if trees.exists() else None}
        return TypeAdapter(cls).validate_python({**plain, **files})


@dataclass(frozen=True, slots=True)
class Original:
    """A trained model: its parts, and its own scores, one number per row."""

    parts: Parts
    predict: Callable[[Table], NDArray[np.float64]]
    columns: list[str]
    """The data columns that `predict` takes."""


def score_element(classes: int, element: int | None, names: Sequence[str] = ()) -> int:
    """The score's output element: with two classes the second, with more the requested one."""
    if element is None and classes > 2:
        named = ": " + ", ".join(f"{index} is {one!r}" for index, one in enumerate(names[:10])) if names else ""
        raise UsageError(
            f"the model has {classes} classes: select the score", next_step=f"--score 0 to {classes - 1}{named}"
        )
    if element is not None and element >= max(classes, 1):
        raise UsageError(f"the model's output has no element {element}", next_step=f"--score 0 to {max(classes, 1) - 1}")
    return (1 if classes == 2 else 0) if element is None else element


def field_names(columns: Sequence[str]) -> dict[str, str]:
    """A valid field name for each column, mapped to the column."""
    named: dict[str, str] = {}
    for column in columns:
        plain = re.sub(r"\W", "_", column, flags=re.ASCII)[:60] or "column"
        plain = f"_{plain}" if plain[0].isdigit() else plain
        name, again = plain, 2
        while name in named:
            name, again = f"{plain}_{again}", again + 1
        named[name] = column
    return named
