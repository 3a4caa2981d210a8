"""Checks a package before it gets a version number: meta.json, scan, and that servers can serve it.

Used for registrations and imports alike. Must not know who signed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.errors import RegistryRefusedError
from flyball.native.models import scan_model
from flyball.registry.packages.deployment import PackageFolder, Served, served
from flyball.registry.packages.meta import META, Meta, read_meta

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_BRING_CODE = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin.gz", ".h5", ".keras")


def check_package(package: PackageFolder, resolve: Callable[[str], PackageFolder]) -> tuple[Meta, Served]:
    """Refuse a package that no server could serve; `resolve` finds referenced packages by NAME@N."""
    file = package.folder / META
    meta = read_meta(file.read_bytes()) if file.is_file() else None
    if meta is None or meta.name != package.name:
        words = f"its {META} is of {meta.name}" if meta else f"it has no {META}"
        raise RegistryRefusedError(
            f"{package.folder} is not a package of {package.name}: {words}", next_step="flyball register --help"
        )
    scan_package(package.folder)
    references = {}
    for reference in meta.references:
        ref = f"{reference.name}@{reference.version}"
        references[ref] = found = resolve(ref)
        if found.root != reference.root:
            raise RegistryRefusedError(f"{ref} has the root {found.root}, and {META} says {reference.root}")
    return meta, served(package, references)


def scan_package(folder: Path) -> int:
    """Scan every ONNX file and refuse files that contain code; returns the number of ONNX files.

    Done before a package gets a number, and again before each promotion.
    """
    models = 0
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name.lower().endswith((".onnx", *_BRING_CODE)):
            scan_model(path)  # the error says what the file is, and how to convert it
            models += 1
    return models
