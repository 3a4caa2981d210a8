"""Whether a package may have a number: its meta.json is its own, its files are scanned, and servers could serve it.

The same for what is registered here and for what comes from another site. Must not know who signed it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.errors import RegistryRefusedError
from flyball.registry.packages.deployment import PackageFolder, Served, served
from flyball.registry.packages.meta import META, Meta, read_meta
from flyball.registry.packages.scan import scan_package

if TYPE_CHECKING:
    from collections.abc import Callable


def check_package(package: PackageFolder, resolve: Callable[[str], PackageFolder]) -> tuple[Meta, Served]:
    """Refuses what no server could serve; `resolve` finds the packages that its decision asks, by NAME@N."""
    file = package.folder / META
    meta = read_meta(file.read_bytes()) if file.is_file() else None
    if meta is None or meta.name != package.name:
        words = f"its {META} is of {meta.name}" if meta else f"it has no {META}"
        raise RegistryRefusedError(
            f"{package.folder} is no package of {package.name}: {words}", next_step="flyball register --help"
        )
    scan_package(package.folder)
    references = {}
    for reference in meta.references:
        ref = f"{reference.name}@{reference.version}"
        references[ref] = found = resolve(ref)
        if found.root != reference.root:
            raise RegistryRefusedError(f"{ref} has the root {found.root}, and {META} says {reference.root}")
    return meta, served(package, references)
