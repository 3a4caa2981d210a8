"""`Manifest`: which files a package has, with their digests. Must not know signatures."""

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
    """The files of a package in the order of their bundle: names to SHA-256 in hexadecimal digits."""

    files: dict[str, str]

    @cached_property
    def root(self) -> str:
        """The package's id: SHA-256 over the files' raw digests in the listed order, which is never changed here."""
        together = b"".join(bytes.fromhex(digest) for digest in self.files.values())
        return f"sha256:{hashlib.sha256(together).hexdigest()}"


def model_digest(model: str, data: Mapping[str, str]) -> str:
    """What a release names a model by: its file's own digest, or one over that and its external data's, by their names.

    Graphs are often equal, and their weights are not. Counted as a package's root is.
    """
    if not data:
        return model
    digests = [model, *(data[name] for name in sorted(data))]
    return Manifest({str(place): digest.removeprefix("sha256:") for place, digest in enumerate(digests)}).root


def manifest_of(folder: Path, *, whole: bool = False) -> Manifest:
    """What a folder holds, by code points of the names; `whole`: with what signers of OMS leave out at its top.

    No link is followed, and names that a bundle cannot carry are refused.
    """
    with boundary():
        return Manifest(json.loads(native.package_files(str(folder), whole)))
