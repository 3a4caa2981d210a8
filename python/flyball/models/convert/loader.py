"""Starts the process that takes a file apart (`loader_process`), and reads the plain files that it left, checked.

Must not know what is in the file.
"""

from __future__ import annotations

import itertools
import json
import os
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import flyball
from flyball import errors
from flyball.errors import FlyballError, ModelRefusedError
from flyball.models.convert.comparison_rows import Examined, unreadable
from flyball.models.convert.loader_process import DATA, ERROR, JOB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.models.convert.file_kinds import Kind
    from flyball.models.convert.table import Table

WALL_S_MAX = 900.0
_SAID_BYTES = 600
_ERROR_BYTES_MAX = 64 << 10
_LEFT_BYTES_MAX = 2 << 30  # of ONNX's own files, the largest there are


def taken_apart(
    path: Path,
    kind: Kind,
    table: Table,
    *,
    name: str,
    element: int | None,
    rows_max: int | None,
    wall_s_max: float = WALL_S_MAX,
) -> Examined:
    """What a model's file holds, loaded by another process: with an empty environment, in a folder of its own."""
    # What it says goes to a file, of which the end is read: as much as it likes would fill the memory.
    with _own_folder() as folder, tempfile.TemporaryFile() as said:
        job = {"source": str(path.absolute()), "kind": kind, "name": name, "element": element, "rows_max": rows_max}
        (folder / JOB).write_text(json.dumps(job))
        table.write(folder / DATA)
        home = str(Path(flyball.__file__).parents[1])
        # It cannot write bytecode beside its packages.
        command = [sys.executable, "-B", "-m", "flyball.models.convert.loader_process", str(folder)]
        # Where flyball lies is all that the child is told: no keys, no proxies, no paths of the caller's.
        environment = {"PYTHONPATH": home, "HOME": str(folder), "TMPDIR": str(folder), "PATH": ""}
        try:
            ended = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                timeout=wall_s_max,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ModelRefusedError(
                f"{path} was not taken apart within {wall_s_max:g} s", next_step="give fewer rows:  --rows 1000"
            ) from error
        _refuse_odd_files(folder)
        if ended.returncode == 0:
            return Examined.read(folder, table, rows_max)
        if (folder / ERROR).exists():
            raise _told(folder / ERROR)
        raise _ended(path, ended.returncode, _last_line(said))


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A folder for the process, of which nothing stays."""
    with tempfile.TemporaryDirectory(prefix="flyball-convert-") as temporary:
        folder = Path(temporary) / "own"
        folder.mkdir()
        try:
            yield folder
        finally:
            _flatten(folder)


def _flatten(folder: Path) -> None:
    """Put folders that lie in each other beside the folder: what removes them goes no deeper than Python's stack."""
    outer, places = [folder], itertools.count()
    while outer:
        for path in list(outer.pop().iterdir()):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)  # it may have been made so that nobody can list it
                outer.append(path.rename(folder.with_name(str(next(places)))))


def _refuse_odd_files(folder: Path) -> None:
    """What comes back are plain files of a size that fits: no links to elsewhere, no pipes that nobody fills."""
    for path in folder.iterdir():
        found = path.lstat()
        # Packages leave folders; one in the place of a file cannot be read, and is told then.
        plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
        if not plain or found.st_size > _LEFT_BYTES_MAX:
            raise ModelRefusedError(
                f"the model's process left {path.name}, which is a link, a pipe or a device, or larger than"
                f" {_LEFT_BYTES_MAX >> 30} GiB",
                next_step="do not trust the file that it loaded",
            )


def _told(left: Path) -> FlyballError:
    """The error that the process left, as far as it is one."""
    try:
        with left.open("rb") as file:
            told = json.loads(file.read(_ERROR_BYTES_MAX))
        name, message, code, next_step = (told[key] for key in ("kind", "message", "code", "next"))
        if not all(isinstance(text, str) for text in (name, message, code, next_step or "")):
            raise TypeError("an error is made of texts")
    except Exception as error:
        # Files that somebody forged can break whatever reads them, in any way.
        return unreadable(error)
    found = getattr(errors, name, FlyballError)
    ours = isinstance(found, type) and issubclass(found, FlyballError) and found.__init__ is FlyballError.__init__
    return (found if ours else FlyballError)(message, code=code, next_step=next_step)


def _ended(path: Path, code: int, last_line: str) -> FlyballError:
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return ModelRefusedError(
        f"the process that loads {path} ended with {how}: {last_line or 'it said nothing'}",
        next_step="is it a file of this package's version? convert in Python where the model was trained, if it is",
    )


def _last_line(said: IO[bytes]) -> str:
    said.seek(max(said.seek(0, os.SEEK_END) - _SAID_BYTES, 0))
    return (said.read(_SAID_BYTES).decode(errors="replace").strip().splitlines() or [""])[-1]
