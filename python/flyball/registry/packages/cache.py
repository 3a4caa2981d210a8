"""The cache of fetched packages: folders unused for a day are removed.

A folder's modification time is its last use. Must not know registries, nor who uses packages.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

GRACE_S = 24 * 3600.0
_DROPPED_AT_ONCE = 32


def used(folder: Path) -> None:
    """Mark a package as used now, if it exists."""
    with suppress(FileNotFoundError):
        os.utime(folder)


def drop_unused(packages: Path, needed: Collection[str] = (), *, spared: int | None = None) -> list[str]:
    """Remove unneeded packages that were unused for a day, and remains of aborted downloads.

    `spared`: at most this many unneeded packages stay, the most recently used ones. Removes at most 32; returns their names.
    """
    now, unused = time.time(), []
    for folder in packages.iterdir() if packages.is_dir() else ():
        with suppress(FileNotFoundError):  # another process removes too
            if folder.name not in needed:
                unused.append((folder.stat().st_mtime, folder))
    unused.sort(reverse=True)
    kept = [one for one in unused if now - one[0] < GRACE_S]
    if spared is not None:
        kept = [one for place, one in enumerate(kept) if place < spared or one[1].name.startswith(".")]
    dropped = [folder for _, folder in unused if folder not in {one for _, one in kept}][-_DROPPED_AT_ONCE:]
    for folder in dropped:
        # Renamed first, so that nobody finds half a package.
        going = folder.with_name(f".{folder.name.lstrip('.')}.dropped")
        with suppress(OSError):
            folder.rename(going)
            shutil.rmtree(going, ignore_errors=True)
    return [folder.name for folder in dropped]
