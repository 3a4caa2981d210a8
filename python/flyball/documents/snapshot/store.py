"""A snapshot's bytes: a bundle in memory; on disk an index and one file per deployment.

A deployment's digest covers its exact bytes, so documents are never re-encoded here.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.documents.durable_file import write_bytes
from flyball.documents.snapshot.check import check, parse
from flyball.documents.snapshot.models import Deployment, Index
from flyball.errors import Fault, SnapshotRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

SIGNATURE_FILE = "index.sig.json"


@dataclass(frozen=True, slots=True)
class Bundle:
    """The index and the deployment documents, as exact bytes."""

    index: bytes
    documents: tuple[bytes, ...]
    base: Path = Path()
    """The base of relative paths in documents: the index's folder, or the working directory."""
    signature: bytes | None = None
    """A DSSE envelope over the index's exact bytes, by a publisher's key."""
    file: Path | None = None
    """The index's file, if it was read from one: a server may watch it."""

    def to_bytes(self) -> bytes:
        """The JSON for the native side."""
        parts = {
            "index": _text(self.index),
            "documents": [_text(document) for document in self.documents],
            "base": str(self.base),
            "signature": None if self.signature is None else _text(self.signature),
            "file": None if self.file is None else str(self.file),
        }
        return json.dumps(parts).encode()

    def parsed_index(self) -> Index:
        """The parsed index; raises with all faults."""
        return parse("index", self.index)

    def deployments(self) -> list[Deployment]:
        """All parsed deployments; raises with the faults of the first invalid one."""
        return [parse("deployment", document) for document in self.documents]

    def faults(self) -> list[Fault]:
        """All faults of all documents, and index entries without a document."""
        faults = check("index", self.index)
        for document in self.documents:
            faults += check("deployment", document)
        if not faults:
            present = {digest_of(document) for document in self.documents}
            for place, entry in enumerate(self.parsed_index().deployments):
                if entry.digest not in present:
                    path = f"deployments[{place}].digest"
                    faults.append(Fault(path, entry.digest, "the digest of an existing document"))
        return faults

    def write(self, folder: Path) -> Path:
        """Write FOLDER/index.json, its signature and FOLDER/deployments/<hex>.json.

        The index is written last, so that its documents and signature exist when a watching server sees it. After a crash
        between the two, starting servers use the index inside the signature.
        """
        documents, index, signature = folder / "deployments", folder / "index.json", folder / SIGNATURE_FILE
        with writing_to(folder):
            documents.mkdir(parents=True, exist_ok=True)
            for document in self.documents:
                path = documents / f"{_hex(digest_of(document))}.json"
                # Existing files are not synced again: a rollback waits for this.
                if not path.is_file() or path.read_bytes() != document:
                    write_bytes(path, document)
            if self.signature is None:
                signature.unlink(missing_ok=True)
            else:
                write_bytes(signature, self.signature)
            write_bytes(index, self.index)
        return index


def read(index: Path) -> Bundle:
    """Read a snapshot from its index file.

    Only the index is checked. The data plane refuses a deployment with a missing or invalid document, and serves the others.
    """
    try:
        index_bytes = index.read_bytes()
    except OSError as error:
        raise SnapshotRefusedError(
            f"cannot read the snapshot {index}: {error.strerror}", next_step="name its index file, DIR/index.json"
        ) from error
    documents = []
    for entry in parse("index", index_bytes).deployments:
        path = index.parent / "deployments" / f"{_hex(entry.digest)}.json"
        if path.is_file():
            documents.append(path.read_bytes())
    signature = index.parent / SIGNATURE_FILE
    signed = signature.read_bytes() if signature.is_file() else None
    return Bundle(index_bytes, tuple(documents), index.parent, signed, index)


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn system errors into a refusal that names the folder."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise SnapshotRefusedError(
            f"cannot write the snapshot to {folder}: {error.strerror or error}{where}",
            next_step="name a folder that you may write to:  --out DIR",
        ) from error


def digest_of(document: bytes) -> str:
    """The digest of these bytes, `sha256:…`."""
    return "sha256:" + hashlib.sha256(document).hexdigest()


def canonical(document: object) -> bytes:
    """JSON with sorted keys and no spaces: equal documents are equal bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")


def _text(document: bytes) -> str:
    # Invalid UTF-8 is replaced, so its digest no longer matches and the data plane refuses the document.
    return document.decode("utf-8", errors="replace")
