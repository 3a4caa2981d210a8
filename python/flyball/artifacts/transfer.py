"""One signed file that transfers versions to an offline site: an OCI layout in a plain tar.

`transfer.json` lists every blob and is signed; it comes first, so that nothing unsigned is read. Must not know keys or
trust: signing and verification are parameters. Nothing is stored before everything is verified.
"""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flyball.artifacts import tar
from flyball.artifacts.blobs import BLOB_BYTES_MAX, SMALL_BYTES_MAX, descriptor, verified
from flyball.artifacts.folder_store import FolderStore
from flyball.artifacts.new_file import readable_errors, write_new
from flyball.artifacts.packages import needed_by, read_package
from flyball.errors import ArtifactRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from flyball.artifacts.blobs import Store

PAYLOAD_TYPE = "application/vnd.flyball.transfer.v1+json"
VERSIONS_MAX = 64
BLOBS_MAX = 20_000
_LAYOUT = b'{"imageLayoutVersion":"1.0.0"}'

_Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class CarriedBlob(_Document):
    """A blob in the file."""

    digest: _Digest
    size: int = Field(ge=0, le=BLOB_BYTES_MAX)


class CarriedVersion(_Document):
    """A version in the file: its package, and the blobs with its signatures."""

    name: str = Field(min_length=1, max_length=128)
    version: int = Field(ge=1)
    root: _Digest
    manifest: _Digest
    bundle: _Digest | None = None
    """The OpenSSF model signature."""
    release: _Digest | None = None
    """The release statement with its approvers' signatures."""
    author: str = Field(default="", max_length=256)
    tier: str = Field(default="standard", max_length=32)


class Transfer(_Document):
    """The file's listing; its signature covers exactly these bytes."""

    format: Literal[1] = 1
    created: str = Field(max_length=40)
    trust: _Digest | None = None
    """The exporting site's trust policy; the importing site uses its own."""
    versions: tuple[CarriedVersion, ...] = Field(min_length=1, max_length=VERSIONS_MAX)
    """Referenced versions come before those that refer to them."""
    blobs: tuple[CarriedBlob, ...] = Field(min_length=1, max_length=BLOBS_MAX)
    """Sorted by digest; exactly those that the versions need."""


def export(
    store: Store,
    out: Path,
    versions: Sequence[CarriedVersion],
    *,
    created: str,
    sign: Callable[[bytes], bytes],
    trust: str | None = None,
) -> Transfer:
    """Write a new file; every blob is verified. `sign` returns the envelope over transfer.json."""
    transfer = describe(store, versions, created=created, trust=trust)
    with readable_errors(str(out)):
        write_new(out, pieces_of_file(store, transfer, sign))
    return transfer


def describe(store: Store, versions: Sequence[CarriedVersion], *, created: str, trust: str | None = None) -> Transfer:
    """The listing of a file with these versions. Reads every blob, so that damage is found before writing."""
    digests = {digest for version in versions for digest in _needed(store, version)}
    sizes = {digest: sum(len(piece) for piece in store.chunks(digest)) for digest in sorted(digests)}
    blobs = tuple(CarriedBlob(digest=digest, size=size) for digest, size in sizes.items())
    return Transfer(created=created, trust=trust, versions=tuple(versions), blobs=blobs)


def pieces_of_file(store: Store, transfer: Transfer, sign: Callable[[bytes], bytes]) -> Iterator[bytes]:
    """The file's bytes, for writing to another destination."""
    listing = transfer.model_dump_json().encode()
    head = {
        "oci-layout": _LAYOUT,
        "transfer.json": listing,
        "transfer.sig.json": sign(listing),
        "index.json": _index(transfer),
    }
    for name, content in head.items():
        yield from tar.write_entry(name, len(content), [content])
    for blob in transfer.blobs:
        yield from tar.write_entry(_entry_name(blob.digest), blob.size, store.chunks(blob.digest))
    yield tar.write_end()


@contextmanager
def opened(
    file: Path, *, verify: Callable[[bytes, bytes], object], scratch: Path | None = None
) -> Iterator[tuple[Transfer, FolderStore]]:
    """A file's content in a temporary store. `verify` raises if the envelope is invalid.

    Digests and roots are verified here; the caller verifies signatures and releases, then calls `keep`.
    """
    with tempfile.TemporaryDirectory(dir=scratch, prefix="flyball-transfer-") as folder:
        staging = FolderStore(Path(folder) / "artifacts")
        with readable_errors(str(file)), file.open("rb") as source:
            transfer = _read_file(source, file, verify, staging)
        yield transfer, staging


def keep(transfer: Transfer, staging: FolderStore, store: Store) -> None:
    """Copy everything into the site's own store, manifests last; can be repeated after an interruption."""
    manifests = {version.manifest: f"{version.name}@{version.version}" for version in transfer.versions}
    for blob in sorted(transfer.blobs, key=lambda blob: blob.digest in manifests):
        with staging.opened(blob.digest) as file:
            kept = store.put_file(file, expected=blob.digest)
        if blob.digest in manifests:
            store.announce(kept, manifests[blob.digest])


def _needed(store: Store, version: CarriedVersion) -> Iterator[str]:
    yield from needed_by(store, version.manifest)
    yield from (digest for digest in (version.bundle, version.release) if digest is not None)


def _read_file(source: BinaryIO, file: Path, verify: Callable[[bytes, bytes], object], staging: FolderStore) -> Transfer:
    reader = tar.TarReader(source, str(file))
    transfer = _read_head(reader, verify, str(file))
    if sum(blob.size for blob in transfer.blobs) > os.fstat(source.fileno()).st_size:
        raise _refused(file, "it lists more than it contains")
    for blob in transfer.blobs:
        pieces = reader.entry(_entry_name(blob.digest), size=blob.size, size_max=BLOB_BYTES_MAX)
        staging.put_pieces(verified(pieces, blob.digest, str(file), blob.size))
    reader.end()
    _check_complete(staging, transfer, file)
    return transfer


def _read_head(reader: tar.TarReader, verify: Callable[[bytes, bytes], object], where: str) -> Transfer:
    """Read the layout version, the listing and its signature, and verify them before anything else."""

    def whole(name: str) -> bytes:
        return b"".join(reader.entry(name, size_max=SMALL_BYTES_MAX))

    if whole("oci-layout") != _LAYOUT:
        raise _refused(where, "its layout is not supported")
    listing, envelope = whole("transfer.json"), whole("transfer.sig.json")
    verify(listing, envelope)
    try:
        transfer = Transfer.model_validate_json(listing)
    except ValidationError as error:
        raise _refused(where, f"its transfer.json is not format 1: {error.errors()[0]['msg']}") from error
    digests = [blob.digest for blob in transfer.blobs]
    if digests != sorted(set(digests)):
        raise _refused(where, "its blobs are duplicated or not sorted")
    if whole("index.json") != _index(transfer):
        raise _refused(where, "its index does not match its versions")
    return transfer


def _check_complete(staging: FolderStore, transfer: Transfer, where: Path) -> None:
    """Each package must have its version's root, and nothing may be included that no version needs."""
    needed: set[str] = set()
    for version in transfer.versions:
        package = read_package(staging, version.manifest)
        if package.root != version.root:
            raise _refused(where, f"{version.name}@{version.version} has the root {package.root}, but states {version.root}")
        needed.update(_needed(staging, version))
    if needed != {blob.digest for blob in transfer.blobs}:
        raise _refused(where, "its blobs are not exactly those its versions need")


def _index(transfer: Transfer) -> bytes:
    sizes = {blob.digest: blob.size for blob in transfer.blobs}
    manifests = [
        descriptor(one.manifest, sizes.get(one.manifest, 0), f"{one.name}@{one.version}") for one in transfer.versions
    ]
    document = {"schemaVersion": 2, "manifests": manifests}
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def _entry_name(digest: str) -> str:
    return "blobs/" + digest.replace(":", "/")


def _refused(where: object, why: str) -> ArtifactRefusedError:
    return ArtifactRefusedError(
        f"{where} is refused: {why}", code="bundle_refused", next_step="create it again with  flyball registry export"
    )
