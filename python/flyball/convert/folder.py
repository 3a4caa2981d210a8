"""The folder that a conversion leaves: made beside its place and renamed, so that it is there whole or not at all.

Must not know how its files are made.
"""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flyball.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def whole_folder(target: Path, *, force: bool) -> Iterator[Path]:
    """Where to write; what has the target's name afterwards is all of it. Kept as `NAME.failed` where it fails."""
    if target.exists() and not force:
        raise UsageError(f"{target} is there already", next_step="choose another folder, or write over it:  --force")
    target.parent.mkdir(parents=True, exist_ok=True)
    making = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir()
    try:
        yield making
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise
    put(making, target)


def put(made: Path, target: Path) -> None:
    """Give a folder its place; what was there is removed once the new one stands."""
    old = target.with_name(f".{target.name}.old.{os.getpid()}")
    if target.exists():
        target.rename(old)
    made.rename(target)
    shutil.rmtree(old, ignore_errors=True)
