"""`Manifest`: which files a package has, with their digests, and whether a folder holds exactly these.

The walk never follows a link, and a file is hashed from the descriptor that was judged. Must not know signatures.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from flyball.signing.reasons import Reason, refused

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

FILES_MAX = 10_000
ENTRIES_MAX = 100_000
FOLDER_DEPTH_MAX = 64
# OMS leaves these out at the top of a folder, whatever the bundle says. Nothing is ever loaded from them.
PASSED_BY = frozenset({".git", ".gitattributes", ".github", ".gitignore"})
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """The files of a package in the order of their bundle: names to SHA-256 in hexadecimal digits."""

    files: dict[str, str]

    @cached_property
    def root(self) -> str:
        """The package's id: SHA-256 over the files' raw digests in the listed order, which is never changed here."""
        together = b"".join(bytes.fromhex(digest) for digest in self.files.values())
        return f"sha256:{hashlib.sha256(together).hexdigest()}"

    def digest_of(self, name: str) -> str | None:
        """The digest of a file, `sha256:…`, where the package has it."""
        found = self.files.get(name)
        return None if found is None else f"sha256:{found}"

    def check_folder(self, folder: Path, signature_file: str | None = None) -> None:
        """Refuse a folder that does not hold exactly these files: no other, none changed, no link, nothing special.

        `signature_file` is the bundle's own name, where it lies at the top of the folder that it signs.
        """
        passed_by = PASSED_BY - {name.split("/")[0] for name in self.files}
        if signature_file is not None:
            passed_by |= {signature_file} - self.files.keys()
        found = {}
        for name, digest in walk(folder, passed_by, self.files):
            found[name] = digest
        for name, digest in self.files.items():
            if name not in found:
                raise refused(Reason.MISSING_FILE, f"{name} is signed and is not there")
            if found[name] != digest:
                raise refused(Reason.CHANGED_FILE, f"{name} is not the file that was signed")


def model_digest(model: str, data: Mapping[str, str]) -> str:
    """What a release names a model by: its file's own digest, or one over that and its external data's, by their names.

    Graphs are often equal, and their weights are not. Counted as a package's root is.
    """
    if not data:
        return model
    digests = [model, *(data[name] for name in sorted(data))]
    return Manifest({str(place): digest.removeprefix("sha256:") for place, digest in enumerate(digests)}).root


def manifest_of(folder: Path, passed_by: Collection[str] = PASSED_BY) -> Manifest:
    """What a folder holds, in the order of OMS: by code points of the names."""
    files = dict(sorted(walk(folder, passed_by)))
    if not files:
        raise refused(Reason.MISSING_FILE, f"{folder} has no file")
    for name in files:
        check_name(name)
    return Manifest(files)


def check_name(name: object) -> str:
    """A file's name in a package: relative, with `/`, and unable to lead out of its folder or to be written in two ways."""
    if not isinstance(name, str):
        raise refused(Reason.MALFORMED, "a file of the bundle has no name")
    parts = name.split("/")
    if not _is_text(name) or "\\" in name or "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise refused(Reason.PATH_ESCAPE, f"{name!r} is not a plain relative path")
    return name


def walk(folder: Path, passed_by: Collection[str], wanted: Collection[str] | None = None) -> Iterator[tuple[str, str]]:
    """Each file below a folder with its digest. Where only some are wanted, the first other one ends the walk."""
    _check_top(folder)
    entries = 0
    for top, folders, files, descriptor in os.fwalk(folder, onerror=_unreadable):
        where = os.path.relpath(top, folder)
        below = "" if where == os.curdir else f"{where}/"
        if not below:
            folders[:] = [name for name in folders if name not in passed_by]
            files = [name for name in files if name not in passed_by]  # noqa: PLW2901 - the same list, without these
        folders.sort()
        entries += len(folders) + len(files)
        if entries > ENTRIES_MAX or below.count("/") > FOLDER_DEPTH_MAX:
            raise refused(Reason.TOO_LARGE, f"{folder} has too many entries or is too deep for a package")
        for name in folders:
            _check_kind(f"{below}{name}", os.stat(name, dir_fd=descriptor, follow_symlinks=False), stat.S_IFDIR)
        for name in sorted(files):
            path = f"{below}{name}"
            _check_kind(path, os.stat(name, dir_fd=descriptor, follow_symlinks=False), stat.S_IFREG)
            if wanted is not None and path not in wanted:
                raise refused(Reason.EXTRA_FILE, f"{_shown(path)} is there and is not signed")
            yield path, _digest(path, name, descriptor)


def _check_top(folder: Path) -> None:
    try:
        kind = folder.lstat()
    except (FileNotFoundError, NotADirectoryError):
        raise refused(Reason.MISSING_FILE, f"there is no folder {folder}") from None
    _check_kind(str(folder), kind, stat.S_IFDIR)


def _check_kind(path: str, found: os.stat_result, wanted: int) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFLNK:
        raise refused(Reason.SYMLINK, f"{_shown(path)} is a symbolic link", "put the file itself there")
    if kind != wanted:
        raise refused(Reason.SPECIAL_FILE, f"{_shown(path)} is neither a file nor a folder of files")


def _digest(path: str, name: str, folder: int) -> str:
    """The file's digest. A link that took its place meanwhile is not followed, a pipe does not make this wait."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise refused(Reason.CHANGED_FILE, f"{_shown(path)} cannot be read: {error.strerror}") from error
    with open(descriptor, "rb", buffering=0) as file:
        _check_kind(path, os.fstat(descriptor), stat.S_IFREG)
        hashed = hashlib.sha256()
        while chunk := file.read(_CHUNK_BYTES):
            hashed.update(chunk)
    return hashed.hexdigest()


def _unreadable(error: OSError) -> None:
    raise refused(Reason.MISSING_FILE, f"{error.filename} cannot be read: {error.strerror}") from error


def _is_text(name: str) -> bool:
    """A file's name is bytes; one that is no UTF-8 cannot stand in a bundle."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _shown(path: str) -> str:
    """A name that may hold bytes which are no text, for people."""
    return os.fsencode(path).decode("utf-8", "replace")
