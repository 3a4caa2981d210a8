"""Starts the process that takes a file apart (`apart`), and reads what it left: plain files, checked like any others.

Must not know what is in the file.
"""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import flyball
from flyball import errors
from flyball.convert.apart import DATA, ERROR, JOB
from flyball.convert.examine import Examined
from flyball.errors import FlyballError, ModelRefusedError

if TYPE_CHECKING:
    from flyball.convert.sources import Kind
    from flyball.convert.table import Table

WALL_S_MAX = 900.0
_SAID_CHARACTERS = 600
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
    with tempfile.TemporaryDirectory(prefix="flyball-convert-") as temporary:
        folder = Path(temporary)
        job = {"source": str(path.absolute()), "kind": kind, "name": name, "element": element, "rows_max": rows_max}
        (folder / JOB).write_text(json.dumps(job))
        table.write(folder / DATA)
        home = str(Path(flyball.__file__).parents[1])
        command = [sys.executable, "-m", "flyball.convert.apart", temporary]
        # Where flyball lies is all that the child is told: no keys, no proxies, no paths of the caller's.
        environment = {"PYTHONPATH": home, "HOME": temporary, "TMPDIR": temporary, "PATH": ""}
        try:
            ended = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
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
        raise _told(folder / ERROR, path, ended)


def _refuse_odd_files(folder: Path) -> None:
    """What comes back are plain files of a size that fits: no links to elsewhere, nothing that fills the memory."""
    for path in folder.iterdir():
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode) or found.st_size > _LEFT_BYTES_MAX:
            raise ModelRefusedError(
                f"the model's process left {path.name}, which is a link or larger than {_LEFT_BYTES_MAX >> 30} GiB",
                next_step="do not trust the file that it loaded",
            )


def _told(left: Path, path: Path, ended: subprocess.CompletedProcess[bytes]) -> FlyballError:
    if not left.exists():
        said = ended.stderr.decode(errors="replace").strip()[-_SAID_CHARACTERS:]
        how = f"signal {-ended.returncode}" if ended.returncode < 0 else f"exit code {ended.returncode}"
        return ModelRefusedError(
            f"the process that loads {path} ended with {how}: {said.splitlines()[-1] if said else 'it said nothing'}",
            next_step="is it a file of this package's version? convert in Python where the model was trained, if it is",
        )
    told = json.loads(left.read_bytes())
    found = getattr(errors, str(told["kind"]), FlyballError)
    kind = found if isinstance(found, type) and issubclass(found, FlyballError) else FlyballError
    return kind(str(told["message"]), code=told["code"], next_step=told["next"])
