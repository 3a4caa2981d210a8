"""`NAME.fitted.json`: what fitting found, one entry for each transform that was left open, by its place, op and columns.

The form: {"format": 1, "rows": 5000, "transforms": [{"at": 1, "op": "standardize", "of": ["amount"], "mean": [2.5],
"scale": [0.4]}]}; what else an entry has are the op's own parameters, as the deployment's document wants them.
The bytes are canonical: the same rows give the same file. Must not know how parameters are found.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.errors import InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 1
_FILE_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Fitted:
    """Parameters by the place of their transform, and how many rows they were found in."""

    rows: int
    transforms: list[dict[str, Any]] = field(default_factory=list)

    def write(self, path: Path) -> None:
        """Put it where the spec looks for it; readers see the old file or the new one, never half of one."""
        fresh = path.with_name(path.name + ".new")
        fresh.write_bytes(self.content())
        fresh.replace(path)

    def content(self) -> bytes:
        """The file's bytes: sorted keys, one transform a line."""
        head = json.dumps({"format": FORMAT, "rows": self.rows})[:-1]
        lines = ",\n".join(
            "  " + json.dumps(one, sort_keys=True, ensure_ascii=False, allow_nan=False) for one in self.transforms
        )
        return f'{head}, "transforms": [\n{lines}\n]}}\n'.encode()

    def at(self, place: int, op: str, of: list[str]) -> dict[str, Any] | None:
        """The parameters of the transform at a place; none where nothing was fitted for just this one."""
        for one in self.transforms:
            if (one["at"], one["op"], one["of"]) == (place, op, of):
                return {key: value for key, value in one.items() if key not in ("at", "op", "of")}
        return None


def read_fitted(path: Path) -> Fitted:
    """The file's content; whether the parameters suit their ops is the decision's own check."""
    again = f"write it again:  flyball fit SPEC --data rows.parquet --out {path}"
    with path.open("rb") as file:
        content = file.read(_FILE_BYTES_MAX + 1)
    if len(content) > _FILE_BYTES_MAX:
        raise InvalidInputError(f"{path} is larger than {_FILE_BYTES_MAX} bytes", next_step=again)
    try:
        document = json.loads(content)
    except ValueError as error:
        raise InvalidInputError(f"{path} is not JSON: {error}", next_step=again) from error
    faults = _faults(document)
    if faults:
        raise InvalidInputError(f"{path}: {faults[0]}", next_step=again)
    return Fitted(document["rows"], document["transforms"])


def _faults(document: Any) -> list[str]:
    if not isinstance(document, dict) or document.keys() != {"format", "rows", "transforms"}:
        return ["it must be an object with format, rows and transforms"]
    if document["format"] != FORMAT:
        return [f"format is {document['format']!r}; this flyball reads {FORMAT}"]
    if type(document["rows"]) is not int or not isinstance(document["transforms"], list):
        return ["rows is a whole number and transforms a list"]
    return [
        f"transforms[{place}] needs at, op and of" for place, one in enumerate(document["transforms"]) if not _named(one)
    ]


def _named(one: Any) -> bool:
    if not isinstance(one, dict) or type(one.get("at")) is not int or not isinstance(one.get("op"), str):
        return False
    return isinstance(one.get("of"), list) and all(isinstance(name, str) for name in one["of"])
