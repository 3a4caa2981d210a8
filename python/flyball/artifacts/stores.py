"""Which store a registry's `artifacts` line means: a folder, or s3://bucket/prefix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flyball.artifacts.folder_store import FolderStore
from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.artifacts.blobs import Store


def open_store(where: str, *, base: Path = Path(), endpoint: str | None = None, region: str | None = None) -> Store:
    """The store at a folder, relative to `base`, or in a bucket; credentials of a bucket come from the environment."""
    scheme, separator, place = where.partition("://")
    if not separator:
        if endpoint or region:
            raise UsageError(f"an endpoint or region is for s3://bucket/prefix, and the artifacts are in the folder {where}")
        return FolderStore(base / where)
    if scheme != "s3":
        raise UsageError(
            f"artifacts are kept in a folder or in s3://bucket/prefix, not in {scheme}://",
            next_step="most stores speak S3: name theirs as the endpoint",
        )
    from flyball.artifacts.object_store import ObjectStore

    bucket, _, prefix = place.partition("/")
    return ObjectStore(bucket, prefix=prefix, endpoint=endpoint, region=region)
