"""Starts the process that loads a model's file (`loader_process`), and validates the files that it wrote.

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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import flyball
from flyball import errors
from flyball.errors import FlyballError, ModelRefusedError
from flyball.models.convert.comparison_rows import Reference, unreadable
from flyball.models.convert.file_kinds import Kind
from flyball.models.convert.loader_process import DATA, ERROR, JOB
from flyball.models.convert.table import Table

WALL_S_MAX = 900.0
_OUTPUT_BYTES = 600
_ERROR_BYTES_MAX = 64 << 10
_LEFT_BYTES_MAX = 2 << 30  # the limit of an ONNX file


def load_in_process(
    path: Path,
    kind: Kind,
    table: Table,
    *,
    name: str,
    element: int | None,
    rows_max: int | None,
    wall_s_max: float = WALL_S_MAX,
) -> Reference:
    """Load a model's file in another process, with an empty environment and its own folder."""
    # Its output goes to a file, of which only the end is read: it could otherwise fill the memory.
    with _own_folder() as folder, tempfile.TemporaryFile() as output:
        job = {"source": str(path.absolute()), "kind": kind, "name": name, "element": element, "rows_max": rows_max}
        (folder / JOB).write_text(json.dumps(job))
        table.write(folder / DATA)
        home = str(Path(flyball.__file__).parents[1])
        # Bytecode cannot be written beside the packages.
        command = [sys.executable, "-B", "-m", "flyball.models.convert.loader_process", str(folder)]
        # The child learns only where flyball is installed: no keys, proxies or paths of the caller.
        environment = {"PYTHONPATH": home, "HOME": str(folder), "TMPDIR": str(folder), "PATH": ""}
        try:
            ended = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=output,
                timeout=wall_s_max,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ModelRefusedError(
                f"{path} was not loaded within {wall_s_max:g} s", next_step="use fewer rows:  --rows-max 1000"
            ) from error
        _refuse_odd_files(folder)
        if ended.returncode == 0:
            return Reference.read(folder, table, rows_max)
        if (folder / ERROR).exists():
            raise _reported_error(folder / ERROR)
        raise _ended(path, ended.returncode, _last_line(output))


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A temporary folder for the process."""
    with tempfile.TemporaryDirectory(prefix="flyball-convert-") as temporary:
        folder = Path(temporary) / "own"
        folder.mkdir()
        try:
            yield folder
        finally:
            _flatten(folder)


def _flatten(folder: Path) -> None:
    """Move nested folders up: deleting them must not exceed Python's recursion limit."""
    outer, numbers = [folder], itertools.count()
    while outer:
        for path in list(outer.pop().iterdir()):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)  # it may have been made unlistable
                outer.append(path.rename(folder.with_name(str(next(numbers)))))


def _refuse_odd_files(folder: Path) -> None:
    """Accept only plain files of limited size: no links, no pipes that block a reader."""
    for path in folder.iterdir():
        found = path.lstat()
        # Packages leave folders; one with a file's name fails when it is read.
        plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
        if not plain or found.st_size > _LEFT_BYTES_MAX:
            raise ModelRefusedError(
                f"the model's process wrote {path.name}, which is a link, a pipe or a device, or larger than"
                f" {_LEFT_BYTES_MAX >> 30} GiB",
                next_step="do not trust the model file",
            )


def _reported_error(left: Path) -> FlyballError:
    """The error that the process wrote, if it is valid."""
    try:
        with left.open("rb") as file:
            document = json.loads(file.read(_ERROR_BYTES_MAX))
        name, message, code, next_step = (document[key] for key in ("kind", "message", "code", "next"))
        if not all(isinstance(text, str) for text in (name, message, code, next_step or "")):
            raise TypeError("error fields are not text")
    except Exception as error:
        # Forged files can make any reader fail in any way.
        return unreadable(error)
    found = getattr(errors, name, FlyballError)
    ours = isinstance(found, type) and issubclass(found, FlyballError) and found.__init__ is FlyballError.__init__
    return (found if ours else FlyballError)(message, code=code, next_step=next_step)


def _ended(path: Path, code: int, last_line: str) -> FlyballError:
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return ModelRefusedError(
        f"the process that loads {path} ended with {how}: {last_line or 'no output'}",
        next_step="check that the file matches the installed package version, or convert in Python where it was trained",
    )


def _last_line(output: IO[bytes]) -> str:
    output.seek(max(output.seek(0, os.SEEK_END) - _OUTPUT_BYTES, 0))
    return (output.read(_OUTPUT_BYTES).decode(errors="replace").strip().splitlines() or [""])[-1]
