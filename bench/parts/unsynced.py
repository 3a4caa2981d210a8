"""A file layer that keeps only what was synced: what a server wrote and did not fsync can be wiped after its end.

`unsynced.c` is preloaded into the server and remembers the bytes; this reads and wipes them. Must not know what is written.
"""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.parts.here import NotHereError

if TYPE_CHECKING:
    from random import Random

PAGE_BYTES = 4096
_SOURCE = Path(__file__).with_suffix(".c")
_RANGE = struct.Struct("=4Q")


@dataclass(frozen=True, slots=True)
class Unsynced:
    """The unsynced bytes of one server at a time, in the files below a folder."""

    library: Path
    ranges: Path
    folder: Path

    @classmethod
    def over(cls, folder: Path, work: Path) -> Unsynced:
        """Build the library in `work`; it watches `folder`."""
        library = work / "unsynced.so"
        if not library.exists():
            command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(_SOURCE), "-ldl"]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise NotHereError(f"cannot build {_SOURCE.name}: {getattr(error, 'stderr', '') or error}") from error
        return cls(library.resolve(), (work / f"{folder.name}.unsynced").resolve(), folder.resolve())

    def next_process(self) -> dict[str, str]:
        """Forget the last process; the variables of the next one."""
        self.ranges.unlink(missing_ok=True)
        return {
            "LD_PRELOAD": str(self.library),
            "UNSYNCED_FILE": str(self.ranges),
            "UNSYNCED_FOLDER": str(self.folder),
        }

    def found(self) -> dict[Path, list[tuple[int, int]]]:
        """The ranges by file, after the process has ended. A write that had not ended counts."""
        by_inode: dict[int, list[tuple[int, int]]] = {}
        for inode, begin, end, _ in _RANGE.iter_unpack(self.ranges.read_bytes()):
            if inode:
                by_inode.setdefault(inode, []).append((begin, end))
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {path: by_inode[path.stat().st_ino] for path in files if path.stat().st_ino in by_inode}

    def lose_power(self, chance: Random) -> int:
        """Wipe unsynced pages: none, all, or some, as they happened to be written. Returns how many bytes."""
        share = chance.choice([0.0, 0.5, 1.0])
        wiped = 0
        for path, ranges in sorted(self.found().items()):
            length = path.stat().st_size
            pages = [page for begin, end in sorted(ranges) for page in _pages(begin, min(end, length))]
            with path.open("r+b") as file:
                for begin, end in (page for page in pages if chance.random() < share):
                    file.seek(begin)
                    wiped += file.write(bytes(end - begin))
        return wiped


def _pages(begin: int, end: int) -> list[tuple[int, int]]:
    stops = [*range((begin // PAGE_BYTES + 1) * PAGE_BYTES, end, PAGE_BYTES), end]
    return [(start, stop) for start, stop in zip([begin, *stops], stops, strict=False) if start < stop]
