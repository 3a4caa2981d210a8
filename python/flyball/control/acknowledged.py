"""Which documents the servers took, and which they refused: by their own word, with the document's digest.

Nothing is good because nobody complained: servers that watch a folder answer later, or are never asked. Plain values; must
not know files, registries or servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.documents.snapshot.store import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from flyball.native.server_documents import Deployments, DeploymentState

TAKEN_MAX = 1000


class Proven:
    """What a data plane said of the documents that it was given."""

    def __init__(self, good: Mapping[str, bytes], taken: Iterable[str] = ()) -> None:
        """`good`: documents that servers took before, by name; `taken`: digests of others, oldest first."""
        self.good = dict(good)
        self.refused: dict[str, DeploymentState] = {}
        """Names whose newest document no server took, and what was said of it."""
        self._stopped: set[str] = set()
        """Refused names whose last good document was revoked: they stay away until the refusal is void."""
        self._taken = dict.fromkeys([*taken, *map(digest_of, self.good.values())])

    @property
    def taken(self) -> list[str]:
        """Digests of documents that servers took, oldest first."""
        return list(self._taken)

    def offered(self, wanted: Mapping[str, bytes], revoked: Callable[[bytes], bool]) -> dict[str, bytes]:
        """The documents to apply: the wanted ones, and the last good one in place of a refused one.

        Running servers still have the last good document, and a restarted one has nothing else to serve. Once that document
        was `revoked`, the name is left out: a server that refuses a document keeps the one that it serves.
        """
        stale = [name for name, one in self.refused.items() if name not in wanted or digest_of(wanted[name]) != one.digest]
        for name in stale:
            del self.refused[name]
        self._stopped |= {name for name in self.refused if name in self.good and revoked(self.good[name])}
        self._stopped &= self.refused.keys()
        return {
            name: self.good.get(name, document) if name in self.refused else document
            for name, document in wanted.items()
            if name not in self._stopped
        }

    def without_registry(self, newest: Mapping[str, bytes]) -> dict[str, bytes]:
        """What to start with when only the files are there: the newest where servers took it once, else the last good."""
        return {
            name: document if digest_of(document) in self._taken else self.good.get(name, document)
            for name, document in newest.items()
        }

    def only(self, names: Iterable[str]) -> None:
        """Forget what is no longer wanted: what was revoked must not come back."""
        self.good = {name: self.good[name] for name in names if name in self.good}

    def hear(
        self, given: Mapping[str, bytes], told: Mapping[str, Deployments], *, generation: int = 0, everybody: bool = True
    ) -> None:
        """Take in what servers say of what they were given, in a snapshot of this generation.

        A document is good as soon as one of them serves it. It gives way only once all of them refused it: `everybody` says
        that nobody is still to be heard, and what one server cannot load must not be kept from the others.
        """
        refusals: dict[tuple[str, str], DeploymentState] = {}
        taken = set()
        for said in told.values():
            refused = {_of(one): one for one in said.deployments if one.state == "refused" and one.generation >= generation}
            # What a server would not load again it may serve all the same: a release that ended is no reason to stop.
            taken |= {_of(one) for one in said.deployments if one.state == "applied"} - refused.keys()
            refusals = {**refused, **refusals}
        for name, document in given.items():
            key = name, digest_of(document)
            self._judge(name, document, taken=key in taken, refusal=refusals.get(key) if everybody else None)
        for digest in self.taken[:-TAKEN_MAX]:
            del self._taken[digest]

    def _judge(self, name: str, document: bytes, *, taken: bool, refusal: DeploymentState | None) -> None:
        digest = digest_of(document)
        if taken:
            self.good[name] = document
            self._taken.pop(digest, None)
            self._taken[digest] = None
            if name in self.refused and self.refused[name].digest == digest:
                del self.refused[name]
        elif refusal is not None:
            self._taken.pop(digest, None)
            self.refused.setdefault(name, refusal)


def _of(one: DeploymentState) -> tuple[str, str]:
    return one.name, one.digest
