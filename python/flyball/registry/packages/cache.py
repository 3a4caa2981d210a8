"""Packages that were fetched to this machine and can be fetched again: what nobody used for a day is dropped.

A folder's time of change says when it was last used. Must not know registries, nor who uses packages.
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
    """Says that a package is in use; one that is not there yet is used once it is."""
    with suppress(FileNotFoundError):
        os.utime(folder)


def drop_unused(packages: Path, needed: Collection[str] = (), *, spared: int | None = None) -> list[str]:
    """Drops what was not used for a day and is not needed, and what a download that was broken off left behind.

    `spared`: how many that are not needed may stay at all, the last used first. Gives the names of what was dropped, of
    which there are 32 at most.
    """
    now, unused = time.time(), []
    for folder in packages.iterdir() if packages.is_dir() else ():
        with suppress(FileNotFoundError):  # somebody else drops, too
            if folder.name not in needed:
                unused.append((folder.stat().st_mtime, folder))
    unused.sort(reverse=True)
    kept = [one for one in unused if now - one[0] < GRACE_S]
    if spared is not None:
        kept = [one for place, one in enumerate(kept) if place < spared or one[1].name.startswith(".")]
    dropped = [folder for _, folder in unused if folder not in {one for _, one in kept}][-_DROPPED_AT_ONCE:]
    for folder in dropped:
        # Moved first: nobody must find half a package.
        going = folder.with_name(f".{folder.name.lstrip('.')}.dropped")
        with suppress(OSError):
            folder.rename(going)
            shutil.rmtree(going, ignore_errors=True)
    return [folder.name for folder in dropped]
