"""Opens the store of a registry's `artifacts` setting: a folder, or s3://bucket/prefix."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from flyball.artifacts.folder_store import FolderStore
from flyball.errors import UsageError

if TYPE_CHECKING:
    from flyball.artifacts.blobs import Store


def open_store(where: str, *, base: Path = Path(), endpoint: str | None = None, region: str | None = None) -> Store:
    """The store in a folder, relative to `base`, or in a bucket with credentials from the environment."""
    scheme, separator, rest = where.partition("://")
    if not separator:
        if endpoint or region:
            raise UsageError(f"endpoint and region apply only to s3://bucket/prefix, but artifacts is the folder {where}")
        return FolderStore(base / where)
    if scheme != "s3":
        raise UsageError(
            f"artifacts: {scheme}:// is not supported; use a folder or s3://bucket/prefix",
            next_step="for an S3-compatible store, set its endpoint",
        )
    from flyball.artifacts.object_store import ObjectStore

    bucket, _, prefix = rest.partition("/")
    return ObjectStore(bucket, prefix=prefix, endpoint=endpoint, region=region)
