"""Which segments left `segments/`, and what they were: `state/retired.json`.

Their roots stay here, so that checkpoints over all segments can still be checked, and a changed line is found by that. A
segment in the list lies in Parquet, until its time is over: then `gone` says since when. One JSON object a line, only ever
added to: years of segments cost no more to add to than the first.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from flyball.documents.durable_file import making_folder, open_private, sync_folder
from flyball.errors import RefusedError

if TYPE_CHECKING:
    from io import BufferedRandom
    from pathlib import Path

_LINE_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Retired:
    """One segment that has no file of its own any more. Hashes are in hex."""

    segment: int
    first_seq: int
    frames: int
    root: str
    last: str
    created_unix_ns: int
    newest_unix_ns: int
    files: str  # the digest of its Parquet
    gone_unix_ns: int | None = None

    @property
    def next_seq(self) -> int:
        """The first number that is not in it."""
        return self.first_seq + self.frames

    def gone(self, now_unix_ns: int) -> Retired:
        """The same, its records removed."""
        return replace(self, gone_unix_ns=now_unix_ns)


def read_retired(journal: Path) -> dict[int, Retired]:
    """By number, in order. The last line of a segment counts; a last line without its end was not written whole."""
    found: dict[int, Retired] = {}
    try:
        with _path(journal).open("rb") as file:
            for line in file:
                if line.endswith(b"\n"):
                    entry = Retired(**json.loads(line))
                    found[entry.segment] = entry
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError) as error:
        raise RefusedError(f"{_path(journal)} is no list of retired segments: {error}") from error
    return dict(sorted(found.items()))


def write_retired(journal: Path, entries: dict[int, Retired]) -> None:
    """Adds a line for each entry that is new or another than it was, durably. Lines that are there stay as they are."""
    listed = read_retired(journal)
    append_retired(journal, [entry for number, entry in sorted(entries.items()) if listed.get(number) != entry])


def append_retired(journal: Path, entries: list[Retired]) -> None:
    """Lines behind those that are there, on the disk when this returns."""
    path = _path(journal)
    making_folder(path.parent)
    with open_private(path) as file:
        end = _whole(file)
        file.truncate(end)
        file.seek(end)
        file.write(b"".join(json.dumps(asdict(entry)).encode() + b"\n" for entry in entries))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def _whole(file: BufferedRandom) -> int:
    """Where the last whole line ends: a run that was killed may have left half of one behind it."""
    length = file.seek(0, os.SEEK_END)
    begin = max(0, length - _LINE_BYTES_MAX)
    file.seek(begin)
    return begin + file.read().rfind(b"\n") + 1


def _path(journal: Path) -> Path:
    return journal / "state" / "retired.json"
