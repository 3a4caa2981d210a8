"""Which documents servers accepted and refused, by their own reports with the documents' digests.

Silence is not acceptance: servers that watch a folder answer later, or are never asked. Plain values; must not know files,
registries or servers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flyball.documents.snapshot.store import digest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from flyball.native.server_documents import Deployments, DeploymentState

TAKEN_MAX = 1000


class Proven:
    """The documents that a data plane accepted or refused."""

    def __init__(self, good: Mapping[str, bytes], taken: Iterable[str] = ()) -> None:
        """`good`: documents that servers accepted before, by name; `taken`: digests of others, oldest first."""
        self.good = dict(good)
        self.refused: dict[str, DeploymentState] = {}
        """Names whose newest document every server refused, with a report."""
        self._stopped: set[str] = set()
        """Refused names whose last good document was revoked: left out until the refusal is void."""
        self._taken = dict.fromkeys([*taken, *map(digest_of, self.good.values())])

    @property
    def taken(self) -> list[str]:
        """Digests of accepted documents, oldest first."""
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
        """Documents to start with from files alone: the newest if servers accepted it once, else the last good."""
        return {
            name: document if digest_of(document) in self._taken else self.good.get(name, document)
            for name, document in newest.items()
        }

    def only(self, names: Iterable[str]) -> None:
        """Forget documents of other names, so that revoked ones cannot return."""
        self.good = {name: self.good[name] for name in names if name in self.good}

    def hear(
        self, given: Mapping[str, bytes], reports: Mapping[str, Deployments], *, generation: int = 0, everybody: bool = True
    ) -> None:
        """Process the servers' reports about the documents that were applied with this generation.

        A document is good once one server serves it. It is withdrawn only after all servers refused it, which `everybody`
        confirms: a document that one server cannot load must still reach the others.
        """
        refusals: dict[tuple[str, str], DeploymentState] = {}
        taken = set()
        for report in reports.values():
            refused = {
                _of(one): one for one in report.deployments if one.state == "refused" and one.generation >= generation
            }
            # A server may serve what it would not load again: an expired release does not stop a running deployment.
            taken |= {_of(one) for one in report.deployments if one.state == "applied"} - refused.keys()
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
