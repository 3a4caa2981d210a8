"""The list of retired segments, those without a file in `segments/`: `state/retired.json`.

It has their roots, so that checkpoints over all segments can still be verified, which also detects a changed line. A
listed segment is in Parquet until it expires; `gone` is the time of its removal. Append-only, one JSON object per line:
adding a segment stays cheap after years.
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
    """A segment without a file of its own. Hashes are in hex."""

    segment: int
    first_seq: int
    frames: int
    root: str
    last: str
    created_unix_ns: int
    newest_unix_ns: int
    files: str  # digest of its Parquet files
    gone_unix_ns: int | None = None

    @property
    def next_seq(self) -> int:
        """The first sequence number after it."""
        return self.first_seq + self.frames

    def gone(self, now_unix_ns: int) -> Retired:
        """The same segment, marked as removed."""
        return replace(self, gone_unix_ns=now_unix_ns)


def read_retired(journal: Path) -> dict[int, Retired]:
    """The retired segments by number. A segment's last line counts; an incomplete last line is ignored."""
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
        raise RefusedError(f"{_path(journal)} is not a list of retired segments: {error}") from error
    return dict(sorted(found.items()))


def write_retired(journal: Path, entries: dict[int, Retired]) -> None:
    """Append a line for each new or changed entry, durably."""
    listed = read_retired(journal)
    append_retired(journal, [entry for number, entry in sorted(entries.items()) if listed.get(number) != entry])


def append_retired(journal: Path, entries: list[Retired]) -> None:
    """Append lines, durably."""
    path = _path(journal)
    making_folder(path.parent)
    with open_private(path) as file:
        end = _complete_end(file)
        file.truncate(end)
        file.seek(end)
        file.write(b"".join(json.dumps(asdict(entry)).encode() + b"\n" for entry in entries))
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def _complete_end(file: BufferedRandom) -> int:
    """The end of the last complete line: a killed run may have left a partial one."""
    length = file.seek(0, os.SEEK_END)
    begin = max(0, length - _LINE_BYTES_MAX)
    file.seek(begin)
    return begin + file.read().rfind(b"\n") + 1


def _path(journal: Path) -> Path:
    return journal / "state" / "retired.json"
