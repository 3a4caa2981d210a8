"""Stores a package's folder as an OCI manifest with one layer per file, and restores it.

The root is the digest of an OpenSSF model signature's subject: SHA-256 over the files' digests in code point order of their
names, as `flyball.signing` signs them. Must not know signatures, versions or what a model is.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flyball.artifacts.blobs import BLOB_BYTES_MAX, MANIFEST_TYPE, checked_digest, hex_of, too_large
from flyball.artifacts.new_file import readable_errors
from flyball.documents.durable_file import making_folder, sync_folder
from flyball.errors import ArtifactRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.artifacts.blobs import Store

PACKAGE_TYPE = "application/vnd.flyball.package.v1+json"
META_TYPE = "application/vnd.flyball.meta.v1+json"
FILE_TYPE = "application/octet-stream"
TITLE = "org.opencontainers.image.title"
ROOT = "dev.flyball.root"
META = "meta.json"

FILES_MAX = 1000
PACKAGE_BYTES_MAX = 16 << 30
META_BYTES_MAX = 1 << 20
NAME_BYTES_MAX = 512
DEPTH_MAX = 8


@dataclass(frozen=True, slots=True)
class PackageFile:
    """One file of a package."""

    name: str
    """Relative, with / as separator."""
    digest: str
    size: int


@dataclass(frozen=True, slots=True)
class Package:
    """A stored package."""

    manifest: str
    """The digest of its manifest: events refer to it."""
    root: str
    """The digest that its signature covers: the package's id."""
    files: tuple[PackageFile, ...]
    """In the order of the root."""

    def file(self, name: str) -> PackageFile | None:
        """The file of this name, or None."""
        return next((file for file in self.files if file.name == name), None)


def put_package(store: Store, folder: Path, *, name: str = "package") -> Package:
    """Store every file of a folder with a meta.json, and their manifest last; hashed while copied."""
    files = []
    for path, handle in plain_files(folder):
        with open(handle, "rb") as file:
            blob = store.put_file(file)
        files.append(PackageFile(path, blob.digest, blob.size))
        _check_size(files)
    files.sort(key=lambda file: file.name)
    manifest = _manifest(files, str(folder))
    blob = store.put_bytes(manifest)
    store.announce(blob, name)
    return Package(blob.digest, root_of(files), tuple(files))


def read_package(store: Store, manifest: str) -> Package:
    """Read a manifest, validated as untrusted; its files are not read."""
    content = store.read(manifest)
    try:
        document = json.loads(content)
        files = tuple(_layer(layer) for layer in document["layers"])
        root, config = document["annotations"][ROOT], document["config"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _no_package(manifest, "it is not a package manifest") from error
    if document.get("artifactType") != PACKAGE_TYPE:
        raise _no_package(manifest, f"its artifact type is {document.get('artifactType')!r}")
    for file in files:
        checked_name(file.name)
        checked_digest(file.digest)
    names = [file.name for file in files]
    if len(set(names)) < len(names):
        raise _no_package(manifest, "it names a file twice")
    _check_size(files)
    package = Package(manifest, root_of(files), files)
    meta = package.file(META)
    if meta is None or not isinstance(config, dict) or config.get("digest") != meta.digest:
        raise _no_package(manifest, f"its config is not its {META}")
    if root != package.root:
        raise _no_package(manifest, f"its files have the root {package.root}, but it states {root}")
    return package


def fetch_package(store: Store, manifest: str, target: Path, *, root: str | None = None) -> Package:
    """Create the package's folder atomically, every byte verified while written.

    An existing folder was completed by an earlier call: only names and sizes are checked. Loading verifies every byte.
    """
    package = read_package(store, manifest)
    if root is not None and package.root != checked_digest(root):
        raise _no_package(manifest, f"its root is {package.root}, expected {root}")
    if target.exists():
        _check_present(package, target)
        return package
    making = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}")
    with readable_errors(str(target.parent)):
        making_folder(target.parent)
        try:
            making.mkdir(mode=0o700)
            for file in package.files:
                path = making / file.name
                making_folder(path.parent)
                if store.fetch_to(file.digest, path).size != file.size:
                    raise _no_package(manifest, f"{file.name} does not have the stated {file.size} bytes")
            _publish(making, target)
        finally:
            shutil.rmtree(making, ignore_errors=True)
    return package


def needed_by(store: Store, manifest: str) -> Iterator[str]:
    """All digests of a package: its manifest, and what that references."""
    yield manifest
    for file in read_package(store, manifest).files:
        yield file.digest


def root_of(files: list[PackageFile] | tuple[PackageFile, ...]) -> str:
    """The root over files in their order."""
    return "sha256:" + hashlib.sha256(b"".join(bytes.fromhex(hex_of(file.digest)) for file in files)).hexdigest()


def checked_name(name: Any) -> str:
    """Validate a file name that stays inside its folder on every system."""
    parts = name.split("/") if isinstance(name, str) else [""]
    plain = all(part not in {"", ".", ".."} and part.isprintable() and "\\" not in part for part in parts)
    if not plain or len(parts) > DEPTH_MAX or len(name.encode(errors="replace")) > NAME_BYTES_MAX:
        raise ArtifactRefusedError(
            f"file name {str(name)[:100]!r} is not allowed in a package",
            next_step=f"names are relative, without .. or \\, with at most {DEPTH_MAX} parts and {NAME_BYTES_MAX} bytes",
        )
    if parts[0].startswith(".git"):
        raise ArtifactRefusedError(
            f"{name} is not allowed in a package: signing tools skip .git files, so it would be unsigned",
            next_step="register a folder that contains only the package's files",
        )
    return str(name)


def plain_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Every file with an open handle. Links are refused, even if one replaces a file or folder meanwhile."""
    found = 0
    with readable_errors(str(folder)):
        for parent, folders, names, handle in os.fwalk(folder, follow_symlinks=False, onerror=_raise):
            within = Path(parent).relative_to(folder)
            for name in folders:
                _plain(folder / within / name, os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)
            for name in names:
                path = folder / within / name
                _plain(path, os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode)
                found += 1
                if found > FILES_MAX:
                    raise ArtifactRefusedError(f"{folder} has more than {FILES_MAX} files", code="artifact_too_large")
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
                try:
                    _plain(path, os.fstat(descriptor).st_mode)  # it may have been replaced since the check above
                except ArtifactRefusedError:
                    os.close(descriptor)
                    raise
                yield checked_name((within / name).as_posix()), descriptor


def _plain(path: Path, mode: int) -> None:
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        what = "a link" if stat.S_ISLNK(mode) else "not a plain file"
        raise ArtifactRefusedError(
            f"{path} is {what}", next_step="a package has only plain files and folders: copy its content"
        )


def _raise(error: OSError) -> None:
    raise error


def _manifest(files: list[PackageFile], where: str) -> bytes:
    meta = next((file for file in files if file.name == META), None)
    if meta is None:
        raise ArtifactRefusedError(f"{where} has no {META}", next_step="create packages with  flyball register")
    if meta.size > META_BYTES_MAX:
        raise too_large(META, meta.size, META_BYTES_MAX)
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "artifactType": PACKAGE_TYPE,
        "config": {"mediaType": META_TYPE, "digest": meta.digest, "size": meta.size},
        "layers": [
            {"mediaType": FILE_TYPE, "digest": file.digest, "size": file.size, "annotations": {TITLE: file.name}}
            for file in files
        ],
        "annotations": {ROOT: root_of(files)},
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _layer(layer: Any) -> PackageFile:
    size = layer["size"]
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= BLOB_BYTES_MAX:
        raise ValueError("a size")
    return PackageFile(layer["annotations"][TITLE], layer["digest"], size)


def _check_size(files: list[PackageFile] | tuple[PackageFile, ...]) -> None:
    size = sum(file.size for file in files)
    if size > PACKAGE_BYTES_MAX:
        raise too_large("the package", size, PACKAGE_BYTES_MAX)
    if len(files) > FILES_MAX:
        raise ArtifactRefusedError(f"a package has at most {FILES_MAX} files", code="artifact_too_large")


def _check_present(package: Package, folder: Path) -> None:
    with readable_errors(str(folder)):
        there = {path.relative_to(folder).as_posix(): path.lstat() for path in folder.rglob("*") if not path.is_dir()}
    wanted = {file.name: file.size for file in package.files}
    if {name: found.st_size for name, found in there.items() if stat.S_ISREG(found.st_mode)} != wanted:
        raise ArtifactRefusedError(
            f"{folder} was changed: files are missing, modified or foreign",
            code="artifact_damaged",
            next_step="remove the folder; it is restored from the artifact store",
        )


def _publish(making: Path, target: Path) -> None:
    for folder, _, _ in os.walk(making):
        sync_folder(Path(folder))
    try:
        making.rename(target)
    except OSError:
        # Another process made the same folder meanwhile; equal digests mean equal content.
        if not target.is_dir():
            raise
    sync_folder(target.parent)


def _no_package(manifest: str, why: str) -> ArtifactRefusedError:
    return ArtifactRefusedError(f"{manifest} is not a package: {why}", next_step="name a manifest from  flyball register")
