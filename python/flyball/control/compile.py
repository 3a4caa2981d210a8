"""Compiles an environment's placements to a snapshot: verified packages, documents, and a signed index.

A document depends only on its versions and their signatures: the same placement gives the same bytes on every machine, so a
rollback can use a deployment that is still warm. Must not know servers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flyball.artifacts.packages import fetch_package
from flyball.control.fetches import FetchingError
from flyball.documents.snapshot.models import FORMAT, Slo, Terms
from flyball.documents.snapshot.store import Bundle, canonical, digest_of
from flyball.errors import ArtifactsUnavailableError, FlyballError, RefusedError, SignatureError
from flyball.registry.events.event import GENESIS, Head
from flyball.registry.packages.deployment import PackageFolder, home_of, served
from flyball.signing.index import sign_index

if TYPE_CHECKING:
    from pathlib import Path

    from flyball.control.fetches import Fetches
    from flyball.registry.events.state import Candidate, NameState, Placement, Version
    from flyball.registry.handle import RegistryHandle
    from flyball.signing.keys import PrivateKey

REVOKED = "revoked"
_DOCUMENTS_KEPT = 256


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A compiled environment: documents by name, refusals, and the last event that changed it."""

    environment: str
    checkpoint: Head
    documents: dict[str, bytes]
    versions: dict[str, int]
    refusals: dict[str, FlyballError] = field(default_factory=dict)
    broken_glass: dict[str, str] = field(default_factory=dict)
    """Names placed past a gate, with actor and reason, for the log."""
    revoked: frozenset[tuple[str, int]] = frozenset()
    """Names and numbers of all revoked versions: an older document that serves one is no fallback."""

    def has_revoked(self, document: bytes) -> bool:
        """Whether a document serves a revoked version, as champion, candidate or referenced package."""
        parts = json.loads(document) if self.revoked else {}
        signed = [part.get("signed") or {} for part in (parts, parts.get("candidate") or {})]
        return any((one["name"], one["version"]) in self.revoked for part in signed for one in part.get("packages", ()))

    @property
    def generation(self) -> int:
        """Grows with each event that changes what is served; at least 1."""
        return max(1, self.checkpoint.sequence)

    def bundle(self, folder: Path, key: PrivateKey) -> Bundle:
        """The snapshot with a newly signed index; paths in documents are relative to the folder."""
        entries = [{"name": name, "digest": digest_of(document)} for name, document in sorted(self.documents.items())]
        index = canonical(
            {
                "format": FORMAT,
                "generation": self.generation,
                "deployments": entries,
                "registry": {"sequence": self.checkpoint.sequence, "hash": self.checkpoint.digest},
                "environment": self.environment,
            }
        )
        documents = tuple(document for _, document in sorted(self.documents.items()))
        return Bundle(index, documents, folder, sign_index(index, key))


class Compiler:
    """Compiles one environment repeatedly; reuses unchanged documents."""

    def __init__(self, opened: RegistryHandle, environment: str, folder: Path, fetches: Fetches | None = None) -> None:
        """`fetches`: background downloads; without it, compilation waits for each package."""
        self._opened, self._environment, self._folder, self._fetches = opened, environment, folder, fetches
        self._made: dict[object, bytes] = {}

    def compile(self) -> Snapshot:
        """Compile the current state. A name that fails is left out, with its refusal."""
        opened = self._opened
        if self._fetches is not None:
            self._fetches.begin()
        placed = opened.tables.placed(place=self._environment)
        names = sorted({placement.name for placement in placed})
        glass = {one.name: f"{one.actor}: {one.reason}" for one in placed if one.break_glass}
        documents, versions, newest = {}, {}, 0
        refusals: dict[str, FlyballError] = {}
        for name in names:
            state = opened.state(name)
            placement = state.placements.get(self._environment)
            if placement is None:
                continue
            versions[name] = placement.version
            newest = max(newest, self._changed(state, placement))
            try:
                documents[name] = self._document(state, placement)
            except (RefusedError, SignatureError, ArtifactsUnavailableError, FetchingError) as error:
                refusals[name] = error
        checkpoint = opened.log.get(newest).head if newest else Head(0, GENESIS)
        return Snapshot(self._environment, checkpoint, documents, versions, refusals, glass, opened.tables.revoked())

    def _changed(self, state: NameState, placement: Placement) -> int:
        """Sequence of the last event that changed a name's document; events of versions not placed do not count."""
        tried = placement.candidate
        serving = [state.versions[number] for number in (placement.version, *([tried.version] if tried else []))]
        asked = [
            self._opened.find(f"{reference.name}@{reference.version}")[1]
            for version in serving
            for reference in version.references
        ]
        return max(placement.sequence, *(version.changed for version in (*serving, *asked)))

    def _document(self, state: NameState, placement: Placement) -> bytes:
        champion = self._sound(state.name, state.versions[placement.version])
        tried = placement.candidate if placement.candidate and _serves(state, placement.candidate) else None
        challenger = state.versions[tried.version] if tried else None
        key = (state.name, _identity(champion), _identity(challenger) if challenger else None, tried)
        if key in self._made and not all(self._there(one) for one in (champion, challenger) if one):
            del self._made[key]  # its packages were removed meanwhile
        if key not in self._made:
            if len(self._made) >= _DOCUMENTS_KEPT:
                self._made.clear()
            self._made[key] = canonical(self._deployment(state.name, champion, challenger, tried))
        return self._made[key]

    def _there(self, version: Version) -> bool:
        roots = (version.root, *(reference.root for reference in version.references))
        return all((self._folder / home_of(root)).is_dir() for root in roots)

    def _deployment(
        self, name: str, champion: Version, challenger: Version | None, tried: Candidate | None
    ) -> dict[str, Any]:
        package, references = self._fetched(name, champion)
        shown = served(package, references, judged=False)
        document: dict[str, Any] = {
            "format": FORMAT,
            "name": name,
            "route": {"version": shown.versions[0]["version"]},
            "versions": shown.versions,
            **Terms(slo=Slo(deadline_ms=shown.deadline_ms)).model_dump(),
            "labels": {},
            "decision": shown.decision,
            "signed": self._signed(name, champion, package, references),
        }
        if challenger is not None and tried is not None:
            package, references = self._fetched(name, challenger)
            other = served(package, references, judged=False)
            document["candidate"] = {
                "share": tried.share,
                "shadow": tried.shadow,
                "versions": other.versions,
                "signed": self._signed(name, challenger, package, references),
                **({"decision": other.decision} if other.decision else {}),
            }
        return document

    def _signed(
        self, name: str, version: Version, package: PackageFolder, references: dict[str, PackageFolder]
    ) -> dict[str, Any]:
        store = self._opened.store
        packages = []
        for one in (package, *references.values()):
            _, found = self._opened.find(one.ref)
            if found.bundle is None:
                raise RefusedError(
                    f"{one.ref} is not signed", code="not_signed", next_step=f"flyball sign {one.ref} --key FILE"
                )
            bundle = json.loads(store.read(found.bundle))
            packages.append({"name": one.name, "version": one.version, "folder": one.home, "bundle": bundle})
        release = self._opened.release(version)
        return {
            "name": name,
            "version": version.number,
            "packages": packages,
            "release": json.loads(release) if release else {},
        }

    def _fetched(self, name: str, version: Version) -> tuple[PackageFolder, dict[str, PackageFolder]]:
        """A version's package and its references in the snapshot's folder, verified while written."""
        references = {}
        for reference in version.references:
            _, other = self._opened.find(f"{reference.name}@{reference.version}")
            package = self._fetch(reference.name, other)
            references[package.ref] = package
        return self._fetch(name, version), references

    def _sound(self, name: str, version: Version) -> Version:
        """Refuse a version that is revoked, or refers to a revoked one."""
        if version.revoked is not None:
            raise RefusedError(f"{name}@{version.number} is revoked: {version.revoked}", code=REVOKED)
        for reference in version.references:
            self._sound(reference.name, self._opened.find(f"{reference.name}@{reference.version}")[1])
        return version

    def _fetch(self, name: str, version: Version) -> PackageFolder:
        target, store = self._folder / home_of(version.root), self._opened.store

        def fetch() -> None:
            fetch_package(store, version.manifest, target, root=version.root)

        if self._fetches is not None and not target.exists():
            self._fetches.want(version.root, fetch, f"{name}@{version.number}")
        fetch()  # an existing package is only checked
        return PackageFolder(name, version.number, version.root, target.absolute())


def _serves(state: NameState, tried: Candidate) -> bool:
    return state.versions[tried.version].revoked is None


def _identity(version: Version) -> tuple[object, ...]:
    """What a version's part of a document depends on."""
    return version.number, version.root, version.bundle, version.release, version.approvals
