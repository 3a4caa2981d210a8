"""`NAME.fitted.json`: fitted parameters, one entry per open transform, by its index, op and columns.

The format: {"format": 1, "rows": 5000, "transforms": [{"at": 1, "op": "standardize", "of": ["amount"], "mean": [2.5],
"scale": [0.4]}]}; the other keys of an entry are the op's parameters, as in the deployment's document.
The bytes are canonical: the same rows give the same file. Must not know how parameters are found.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flyball.errors import InvalidInputError

FORMAT = 1
# The fitted parameters by op; a transform that has the first of them is not open.
FITTED_KEYS = {
    "impute": ("values",),
    "scale": ("factor", "offset"),
    "standardize": ("mean", "scale"),
    "bucket": ("edges",),
    "one_hot": ("values",),
    "ordinal": ("values", "unknown"),
    "encode": ("maps", "default"),
}
# Options of fitting; the deployment's document has none of them.
HOW_KEYS = ("by", "range", "quantiles", "smoothing")
_FILE_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Fitted:
    """Parameters by the index of their transform, and the number of rows."""

    rows: int
    transforms: list[dict[str, Any]] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Write the file atomically."""
        fresh = path.with_name(path.name + ".new")
        fresh.write_bytes(self.content())
        fresh.replace(path)

    def content(self) -> bytes:
        """The file's bytes: sorted keys, one transform per line."""
        head = json.dumps({"format": FORMAT, "rows": self.rows})[:-1]
        lines = ",\n".join(
            "  " + json.dumps(one, sort_keys=True, ensure_ascii=False, allow_nan=False) for one in self.transforms
        )
        return f'{head}, "transforms": [\n{lines}\n]}}\n'.encode()

    def at(self, index: int, op: str, of: list[str]) -> dict[str, Any] | None:
        """The parameters of the transform at an index; None if nothing was fitted for it."""
        for one in self.transforms:
            if (one["at"], one["op"], one["of"]) == (index, op, of):
                return {key: value for key, value in one.items() if key not in ("at", "op", "of")}
        return None


def read_fitted(path: Path) -> Fitted:
    """Read the file; the decision's check validates the parameters."""
    again = f"write it again:  flyball fit SPEC --data rows.parquet --out {path}"
    with path.open("rb") as file:
        content = file.read(_FILE_BYTES_MAX + 1)
    if len(content) > _FILE_BYTES_MAX:
        raise InvalidInputError(f"{path} is larger than {_FILE_BYTES_MAX} bytes", next_step=again)
    try:
        document = json.loads(content)
    except ValueError as error:
        raise InvalidInputError(f"{path} is not JSON: {error}", next_step=again) from error
    if fault := _fault(document):
        raise InvalidInputError(f"{path}: {fault}", next_step=again)
    return Fitted(document["rows"], document["transforms"])


def _fault(document: Any) -> str | None:
    if not isinstance(document, dict) or document.keys() != {"format", "rows", "transforms"}:
        return "it must be an object with format, rows and transforms"
    if document["format"] != FORMAT:
        return f"format is {document['format']!r}; allowed: {FORMAT}"
    if type(document["rows"]) is not int or not isinstance(document["transforms"], list):
        return "rows must be a whole number, and transforms a list"
    wrong = (index for index, one in enumerate(document["transforms"]) if not _named(one))
    return next((f"transforms[{index}] needs at, op and of" for index in wrong), None)


def _named(one: Any) -> bool:
    if not isinstance(one, dict) or type(one.get("at")) is not int or not isinstance(one.get("op"), str):
        return False
    return isinstance(one.get("of"), list) and all(isinstance(name, str) for name in one["of"])
