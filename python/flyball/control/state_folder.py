"""A control loop's folder: the last good snapshot, packages, and its trust policy.

Servers may watch this folder: its index is then the newest one, and `last-good/` has what servers accepted. With it a server
starts while the registry is unreachable. The root of trust is copied once: a registry that later presents another one is not
trusted. Must not know events or servers.
"""

from __future__ import annotations

import fcntl
import time
from typing import TYPE_CHECKING

from flyball.control.acknowledged import Proven
from flyball.documents.durable_file import making_folder, open_private, private_folder, read_json, write_bytes, write_json
from flyball.documents.snapshot import Bundle, parse
from flyball.documents.snapshot.store import SIGNATURE_FILE, digest_of
from flyball.errors import FlyballError, LockedError, RefusedError, SignatureError, UsageError
from flyball.registry.packages.cache import drop_unused, used
from flyball.registry.packages.deployment import PACKAGES

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

ROOT, TRUST, LOCK = "root.pub", "trust.json", "lock"
LAST_GOOD, TAKEN = "last-good", "taken.json"
_PACKAGES_SPARED = 8


def paths_of_trust(folder: Path, trust_root: Path | None) -> tuple[Path, Path]:
    """The files of root keys and trust policy: both in the folder, unless `trust_root` is given."""
    return (trust_root or folder / ROOT).absolute(), (folder / TRUST).absolute()


class StateFolder:
    """The folder of one control loop, locked."""

    def __init__(self, folder: Path, trust_root: Path | None = None) -> None:
        """`trust_root`: a file of root keys; by default the registry's is copied once."""
        self.folder = folder.absolute()
        self.trust_root, self.trust_policy = paths_of_trust(folder, trust_root)
        self._needed: set[str] = set()
        private_folder(self.folder)
        self._lock = open_private(self.folder / LOCK)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise LockedError(
                f"another process keeps its state in {folder}",
                code="state_locked",
                next_step="give each process its own:  --state-folder DIR, or --out DIR of flyball control",
            ) from error

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()

    def take_trust(self, root: Path, policy: Path) -> bool:
        """Copy the registry's trust policy if it is new and valid under our root; returns whether it was."""
        from flyball.signing.keys import load_publics
        from flyball.signing.trust import Trust, open_policy

        offered = _read(policy)
        if not self.trust_root.is_file():
            write_bytes(self.folder / ROOT, _read(root))
        held = self.trust_policy.read_bytes() if self.trust_policy.is_file() else None
        if offered == held:
            return False
        roots, now = load_publics(self.trust_root), int(time.time())
        lowest = 0
        if held is not None:
            # Read without a time check: an expired policy still states the last accepted serial.
            lowest = open_policy(held, None).serial
        try:
            Trust(offered, roots, now, lowest)
        except SignatureError as error:
            raise RefusedError(
                f"the registry's trust policy is refused: {error.message}",
                code="trust_refused",
                next_step=f"if its root key was changed on purpose, remove {self.trust_root}",
            ) from error
        write_bytes(self.trust_policy, offered)
        return True

    def newest(self) -> Bundle | None:
        """The snapshot for servers that watch this folder; None if missing or unreadable."""
        return self._snapshot(self.folder)

    def last_good(self) -> Bundle | None:
        """The snapshot that servers accepted; None if missing or unreadable."""
        return self._snapshot(self.folder / LAST_GOOD)

    def _snapshot(self, folder: Path) -> Bundle | None:
        """Read a snapshot; its packages are in the state folder.

        The index is taken from the signature, which is written first, so that a crash between the two files leaves a
        complete snapshot.
        """
        from flyball.signing.dsse import read_envelope

        try:
            signature = (folder / SIGNATURE_FILE).read_bytes()
            index = read_envelope("index", signature).payload
            entries = parse("index", index).deployments
        except (FlyballError, OSError):
            return None
        paths = [_document_file(folder, entry.digest) for entry in entries]
        documents = tuple(path.read_bytes() for path in paths if path.is_file())
        return Bundle(index, documents, self.folder, signature)

    def proven(self) -> Proven:
        """What servers accepted before this process started."""
        good = self.last_good()
        return Proven(documents_of(good) if good else {}, self._taken())

    def _taken(self) -> list[str]:
        try:
            taken = read_json(self.folder / LAST_GOOD / TAKEN)
        except (RefusedError, OSError):
            return []  # it only helps to choose between two snapshots
        return [digest for digest in taken if isinstance(digest, str)] if isinstance(taken, list) else []

    def keep(self, good: Bundle, taken: list[str]) -> None:
        """Write the last good snapshot, and the digests of accepted documents."""
        folder = self.folder / LAST_GOOD
        before = self.last_good()
        if before is None or before.index != good.index or len(before.documents) != len(good.documents):
            making_folder(folder)
            good.write(folder)
        if self._taken() != taken:
            write_json(folder / TAKEN, taken)

    def drop_all_but(self, good: Collection[bytes], given: Collection[bytes], warm: Collection[bytes] = ()) -> list[str]:
        """Remove documents and packages that neither the last good nor the applied snapshot needs.

        Packages of warm documents stay too, so that a rollback fetches nothing. Returns the names of removed packages.
        """
        for folder, documents in ((self.folder / LAST_GOOD, good), (self.folder, given)):
            wanted = {_document_file(folder, digest_of(document)) for document in documents}
            for path in set((folder / "deployments").glob("*.json")) - wanted:
                path.unlink(missing_ok=True)
        packages, whole = self.folder / PACKAGES, b"".join((*good, *given, *warm))
        there = {path.name for path in packages.glob("[0-9a-f]*")}
        needed = {name for name in there if name.encode() in whole}
        for name in needed ^ self._needed:
            used(packages / name)
        self._needed = needed
        return drop_unused(packages, needed, spared=_PACKAGES_SPARED)


def documents_of(bundle: Bundle) -> dict[str, bytes]:
    """The documents of a snapshot by name, without missing ones."""
    by_digest = {digest_of(document): document for document in bundle.documents}
    entries = bundle.parsed_index().deployments
    return {entry.name: by_digest[entry.digest] for entry in entries if entry.digest in by_digest}


def _document_file(folder: Path, digest: str) -> Path:
    return folder / "deployments" / f"{digest.removeprefix('sha256:')}.json"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the registry has no trust policy: {path} cannot be read ({error.strerror})",
            code="no_trust",
            next_step="make one:  flyball trust init",
        ) from error
