"""The ledger beside the records of a folder: one line for each attempt that began and one for each that ended.

Each line's first word is a hash over the line before and itself, so that neither a record nor a line can be removed, edited
or moved unseen. Must not know claims.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from bench.claims.record import BEGUN, Record
from flyball.errors import RefusedError

if TYPE_CHECKING:
    from pathlib import Path

    from bench.claims.record import Attempt

NAME = "ledger"
GENESIS = "0" * 24


class EditedError(RefusedError):
    """Records that are not as they were written."""


def begun(folder: Path, record: Record, attempt: Attempt) -> None:
    """State that an attempt began, before it measures: one that is stopped cannot be forgotten."""
    _append(folder, f"{record.name} {attempt.topic} {attempt.number} {BEGUN}")


def ended(folder: Path, record: Record, attempt: Attempt) -> None:
    """State how an attempt ended, by its digest."""
    _append(folder, f"{record.name} {attempt.topic} {attempt.number} {attempt.digest}")


def head(folder: Path) -> str:
    """The last line's hash, which stands for all lines."""
    lines = _lines(folder)
    return lines[-1].split(" ", 1)[0] if lines else GENESIS


def verified(folder: Path) -> list[Record]:
    """The folder's records, oldest first, once records and ledger agree in every attempt."""
    records = [Record.read(path) for path in sorted(folder.glob("*.json.gz"))]
    before, stated = GENESIS, dict[tuple[str, str, int], str]()
    for number, line in enumerate(_lines(folder), 1):
        chain, rest = line.split(" ", 1)
        if chain != _chained(before, rest):
            raise EditedError(f"{folder / NAME}, line {number}: its hash does not follow from the line before")
        name, topic, place, word = rest.split(" ")
        key = (name, topic, int(place))
        if (word == BEGUN) != (key not in stated):
            raise EditedError(f"{folder / NAME}, line {number}: {topic} {place} of {name} begins or ends twice")
        before, stated[key] = chain, word
    for record in records:
        for attempt in record.attempts:
            _compare(folder, record, attempt, stated.pop((record.name, attempt.topic, attempt.number), None))
    if stated:
        (name, topic, at), *_ = stated
        raise EditedError(f"{folder}: the ledger has attempt {at} at {topic} of {name}, which is not stored")
    return records


def _compare(folder: Path, record: Record, attempt: Attempt, word: str | None) -> None:
    where = f"{folder / record.name}, attempt {attempt.number} at {attempt.topic}"
    if word is None:
        raise EditedError(f"{where}: the ledger does not have it")
    if (attempt.state == BEGUN) != (word == BEGUN):
        raise EditedError(f"{where}: its state is '{attempt.state}', the ledger has another")
    if word != BEGUN and not (word == attempt.digest == record.digest_of(attempt)):
        raise EditedError(f"{where}: its digest is not that of its content and of the ledger")


def _append(folder: Path, rest: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / NAME).open("a") as file:
        file.write(f"{_chained(head(folder), rest)} {rest}\n")


def _chained(before: str, rest: str) -> str:
    return hashlib.sha256(f"{before} {rest}".encode()).hexdigest()[: len(GENESIS)]


def _lines(folder: Path) -> list[str]:
    path = folder / NAME
    return path.read_text().splitlines() if path.is_file() else []
