"""The scan of a package's files before it gets a number, and once more before it is promoted.

What a server would refuse is refused here first; files that bring code have no place in a package, whatever they are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.native.models import scan_model

if TYPE_CHECKING:
    from pathlib import Path

_BRING_CODE = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin.gz", ".h5", ".keras")


def scan_package(folder: Path) -> int:
    """Refuses what may not be served, with advice; gives how many ONNX files there are."""
    models = 0
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name.lower().endswith((".onnx", *_BRING_CODE)):
            scan_model(path)  # says what else it is, and how it is converted
            models += 1
    return models
