"""A snapshot's bytes: as a bundle in memory, and as an index with one file for each deployment on disk.

Bytes are kept as they were read: a deployment's digest is over its exact bytes, so nothing here writes a document anew.
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
    """What relative paths in the documents are relative to: the folder of the index, or the working directory."""
    signature: bytes | None = None
    """A DSSE envelope over the index's exact bytes, by a key that may publish."""
    file: Path | None = None
    """The index's file, where it was read from one: a server that watches its snapshot looks there."""

    def to_bytes(self) -> bytes:
        """The form that crosses into the native side."""
        parts = {
            "index": _text(self.index),
            "documents": [_text(document) for document in self.documents],
            "base": str(self.base),
            "signature": None if self.signature is None else _text(self.signature),
            "file": None if self.file is None else str(self.file),
        }
        return json.dumps(parts).encode()

    def parsed_index(self) -> Index:
        """The index; raises with all of its faults."""
        return parse("index", self.index)

    def deployments(self) -> list[Deployment]:
        """Every deployment; raises with the faults of the first bad one."""
        return [parse("deployment", document) for document in self.documents]

    def faults(self) -> list[Fault]:
        """All faults of all documents, and digests of the index that no document has."""
        faults = check("index", self.index)
        for document in self.documents:
            faults += check("deployment", document)
        if not faults:
            present = {digest_of(document) for document in self.documents}
            for place, entry in enumerate(self.parsed_index().deployments):
                if entry.digest not in present:
                    path = f"deployments[{place}].digest"
                    faults.append(Fault(path, entry.digest, "the digest of a document that is there"))
        return faults

    def write(self, folder: Path) -> Path:
        """Write FOLDER/index.json, its signature and FOLDER/deployments/<hex>.json.

        The index comes last: it never points at nothing, and who watches it finds its signature there already. Where a
        process ends between the two, servers that start take the index that the signature holds.
        """
        documents, index, signature = folder / "deployments", folder / "index.json", folder / SIGNATURE_FILE
        with writing_to(folder):
            documents.mkdir(parents=True, exist_ok=True)
            for document in self.documents:
                path = documents / f"{_hex(digest_of(document))}.json"
                # What is there already need not be brought to the disk again: a rollback waits for this.
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

    Only the index is checked here. A deployment whose document is missing or bad is left to the data plane, which
    refuses it alone and serves the others.
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
    """Turns what the system says to writing into a refusal that names the folder."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise SnapshotRefusedError(
            f"cannot write the snapshot to {folder}: {error.strerror or error}{where}",
            next_step="name a folder that you may write to:  --out DIR",
        ) from error


def digest_of(document: bytes) -> str:
    """The digest of exact bytes, as snapshots write it."""
    return "sha256:" + hashlib.sha256(document).hexdigest()


def canonical(document: object) -> bytes:
    """JSON with sorted keys and no spaces: equal documents are equal bytes."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _hex(digest: str) -> str:
    return digest.removeprefix("sha256:")


def _text(document: bytes) -> str:
    # Bytes that are no UTF-8 become others, so their digest no longer fits and the data plane refuses the document.
    return document.decode("utf-8", errors="replace")
