"""`Manifest`: a package's files and their digests. Must not know signatures."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from flyball.native.boundary import boundary, native

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@dataclass(frozen=True)
class Manifest:
    """The files of a package in bundle order: name to hexadecimal SHA-256."""

    files: dict[str, str]

    @cached_property
    def root(self) -> str:
        """The package's id: SHA-256 over the files' raw digests in their order."""
        together = b"".join(bytes.fromhex(digest) for digest in self.files.values())
        return f"sha256:{hashlib.sha256(together).hexdigest()}"


def model_digest(model: str, data: Mapping[str, str]) -> str:
    """A model's digest in a release: its file's, or one over file and external data, in order of names.

    Graphs are often equal while their weights differ. Computed like a package's root.
    """
    if not data:
        return model
    digests = [model, *(data[name] for name in sorted(data))]
    return Manifest({str(place): digest.removeprefix("sha256:") for place, digest in enumerate(digests)}).root


def manifest_of(folder: Path, *, whole: bool = False) -> Manifest:
    """The manifest of a folder, in code point order; `whole` includes files that OMS signers skip at its top.

    Links are not followed, and names that a bundle cannot contain are refused.
    """
    with boundary():
        return Manifest(json.loads(native.package_files(str(folder), whole)))
