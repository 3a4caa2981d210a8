"""Prints the path of the installed onnxruntime wheel's shared library, without importing the package.

Importing would map a second copy of the library; the Rust tests and flyballd only need the path.
"""
# ruff: noqa: T201

import importlib.util
import sys
from pathlib import Path


def library() -> Path | None:
    """The wheel's libonnxruntime.so.*, or nothing where the wheel is not installed."""
    spec = importlib.util.find_spec("onnxruntime")
    folders = (spec.submodule_search_locations if spec else None) or []
    found = [path for folder in folders for path in Path(folder, "capi").glob("libonnxruntime.so*")]
    return max(found, default=None)


if __name__ == "__main__":
    path = library()
    if path is None:
        sys.exit("onnxruntime is not installed in this environment; run make build")
    print(path)
