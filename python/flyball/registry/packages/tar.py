"""A package's folder as a tar stream, for a registry behind HTTP: regular files only.

Input is untrusted: no links, no devices, no paths outside the folder, limited entries and bytes. Must not know HTTP, nor
what the files mean.
"""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO

from flyball.errors import RefusedError

ENTRIES_MAX = 10_000
PATH_BYTES_MAX = 1024
MEDIA_TYPE = "application/x-tar"


def write(folder: Path, file: IO[bytes]) -> None:
    """Write a folder's files in order of their names, without owners, times and modes."""
    with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise _refuse(f"{path.relative_to(folder)} is not a plain file", "put the file itself into the folder")
            if path.is_file():
                entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
                entry.size = path.stat().st_size
                with path.open("rb") as content:
                    archive.addfile(entry, content)


def read(file: IO[bytes], folder: Path, bytes_max: int) -> None:
    """Extract the files into an empty folder."""
    left, entries = bytes_max, 0
    try:
        with tarfile.open(fileobj=file, mode="r|", errorlevel=2) as archive:
            for entry in archive:
                entries += 1
                left -= entry.size
                if entries > ENTRIES_MAX or left < 0:
                    raise _refuse(
                        f"the package has more than {ENTRIES_MAX:,} files or {bytes_max:,} bytes",
                        "register it on the registry's machine:  flyball register --registry HOME",
                        code="body_too_large",
                    )
                _put(archive, entry, folder)
    except (tarfile.TarError, EOFError, UnicodeError) as error:
        raise _refuse(f"the body is not a tar of a package: {error}", "send the folder with flyball register") from error
    if entries == 0:
        raise _refuse("the package has no files", "send the folder with flyball register")


def _put(archive: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    name = PurePosixPath(entry.name)
    told = entry.name[:80]
    if not entry.isreg() or entry.sparse is not None:
        raise _refuse(f"{told!r} is not a plain file", "packages have plain files only, no links and no folders")
    bad = not name.parts or name.is_absolute() or ".." in name.parts or "\\" in entry.name or "\0" in entry.name
    if bad or len(entry.name.encode()) > PATH_BYTES_MAX or name.as_posix() != entry.name:
        raise _refuse(f"{told!r} is not a path inside a package", "name files by plain relative paths", code="path_escape")
    target = folder / name
    content = archive.extractfile(entry)
    if content is None or target.exists():
        raise _refuse(f"{told!r} occurs twice", "name each file once", code="duplicate_name")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as kept:
            shutil.copyfileobj(content, kept, 1 << 20)
    except (FileExistsError, NotADirectoryError) as error:
        raise _refuse(f"{told!r} is a file and a folder at once", "name each file once", code="duplicate_name") from error


def _refuse(words: str, next_step: str, *, code: str = "malformed_package") -> RefusedError:
    return RefusedError(words, code=code, next_step=next_step)
