"""What a trained model is taken apart into: plain values, and the original's own answers beside them.

This is all that crosses from the process that loads a file to the one that writes the folder. Must not know packages.
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
    """A model, and what its decision needs to feed and explain it. Names are those of the decision's fields."""

    kind: str
    model: bytes
    fields: dict[str, str]
    """Each field and the column of the data that it comes from, in order."""
    columns: list[str] | dict[str, list[str]]
    """The model's columns, of its one tensor or by tensor."""
    score: str
    probability: bool
    transforms: list[dict[str, Any]] = field(default_factory=list)
    categories: dict[str, list[str]] = field(default_factory=dict)
    """The categories that the model knows, by field; numbers among them as texts."""
    rounded_to_nearest: bool = False
    """Thresholds are the nearest float32 of doubles: a value closer to one than that may go another way."""
    trees: bytes | None = None
    explain: dict[str, Any] | None = None
    cut: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    packages: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Put it into a folder, as plain files."""
        (folder / _MODEL).write_bytes(self.model)
        if self.trees is not None:
            (folder / _TREES).write_bytes(self.trees)
        plain = {key: value for key, value in asdict(self).items() if key not in ("model", "trees")}
        (folder / _PARTS).write_text(json.dumps(plain))

    @classmethod
    def read(cls, folder: Path) -> Parts:
        """From such a folder; ValueError where they are of other types than these."""
        from pydantic import TypeAdapter

        trees = folder / _TREES
        plain = json.loads((folder / _PARTS).read_bytes())
        files = {"model": (folder / _MODEL).read_bytes(), "trees": trees.read_bytes() if trees.exists() else None}
        return TypeAdapter(cls).validate_python({**plain, **files})


@dataclass(frozen=True, slots=True)
class Original:
    """A trained model as it came: its parts, and what it answers itself (the score alone, one number a row)."""

    parts: Parts
    predict: Callable[[Table], NDArray[np.float64]]
    columns: list[str]
    """The columns of the data that `predict` takes."""


def score_element(classes: int, element: int | None, names: Sequence[str] = ()) -> int:
    """Which element of the output is the score: of two classes the second, of several the one that was asked for."""
    if element is None and classes > 2:
        named = ": " + ", ".join(f"{place} is {one!r}" for place, one in enumerate(names[:10])) if names else ""
        raise UsageError(
            f"the model has {classes} classes: say which is the score", next_step=f"--score 0 to {classes - 1}{named}"
        )
    if element is not None and element >= max(classes, 1):
        raise UsageError(
            f"the model has no element {element} of its output", next_step=f"--score 0 to {max(classes, 1) - 1}"
        )
    return (1 if classes == 2 else 0) if element is None else element


def field_names(columns: Sequence[str]) -> dict[str, str]:
    """A name for each column as rules can write it, and the column that it stands for."""
    named: dict[str, str] = {}
    for column in columns:
        plain = re.sub(r"\W", "_", column, flags=re.ASCII)[:60] or "column"
        plain = f"_{plain}" if plain[0].isdigit() else plain
        name, again = plain, 2
        while name in named:
            name, again = f"{plain}_{again}", again + 1
        named[name] = column
    return named
