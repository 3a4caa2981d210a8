"""Words for a path that is not there: which part of it is missing, and the name that was probably meant.

Must not know what the file is for.
"""

from __future__ import annotations

import difflib
from pathlib import Path

_LISTED_MAX = 6
_SEEN_MAX = 2000
_CUTOFF = 0.6


def no_such_file(path: Path | str) -> str:
    """`no such file; did you mean 'm.onnx'?`"""
    path = Path(path)
    folder = path.parent
    if not folder.is_dir():
        what = "is a file, not a directory" if folder.is_file() else "does not exist"
        return f"no such file: '{folder}' {what}"
    if (meant := near_file(path)) is not None:
        return f"no such file; did you mean '{meant}'?"
    same = _alike(path)
    if 1 < len(same) <= _LISTED_MAX:
        return f"no such file; there are {', '.join(str(folder / name) for name in same)}"
    return "no such file"


def near_file(path: Path) -> Path | None:
    """The file that was probably meant: the nearest name, or the only one of its kind."""
    same = _alike(path)
    found = _nearest(path.stem, same) or _nearest(path.stem, _names(path.parent))
    found = found or (same[0] if len(same) == 1 else None)
    return None if found is None else path.parent / found


def _nearest(stem: str, names: list[str]) -> str | None:
    """The name whose stem is the nearest: suffixes would make all files of a kind alike."""
    stems = {Path(name).stem: name for name in names}
    close = difflib.get_close_matches(stem, stems, n=1, cutoff=_CUTOFF)
    return stems[close[0]] if close else None


def _alike(path: Path) -> list[str]:
    """The files with the same suffix; none for a name without one."""
    suffix = path.suffix.lower()
    return [name for name in _names(path.parent) if suffix and Path(name).suffix.lower() == suffix]


def _names(folder: Path) -> list[str]:
    """The names in a folder that are not hidden, in order; not more than a person could have meant."""
    try:
        names = []
        for entry in folder.iterdir():
            if not entry.name.startswith("."):
                names.append(entry.name)
            if len(names) >= _SEEN_MAX:
                break
    except OSError:
        return []
    return sorted(names)
