"""Transfers versions to an offline site in one signed file: export from any registry, import into a local one.

The file contains all signatures. The importing site verifies them against its own trust policy, and stores nothing before
everything is verified. Version numbers never change: they are signed.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from flyball.artifacts import transfer
from flyball.artifacts.blobs import digest_of
from flyball.artifacts.folder_store import FolderStore
from flyball.artifacts.packages import fetch_package, put_package, read_package
from flyball.errors import RegistryConflictError, RegistryRefusedError
from flyball.registry.events.event import Draft
from flyball.registry.packages.check import check_package
from flyball.registry.packages.deployment import PackageFolder
from flyball.registry.packages.meta import META, now_text, read_meta
from flyball.signing import dsse
from flyball.signing.reasons import Reason, refused
from flyball.signing.release import Release, read_release
from flyball.signing.strict import encode_base64
from flyball.signing.trust import Deployed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flyball.artifacts.transfer import CarriedVersion, Transfer
    from flyball.registry.acts.interface import Acting, Actor
    from flyball.registry.handle import RegistryHandle
    from flyball.registry.packages.deployment import Served
    from flyball.registry.packages.meta import Meta
    from flyball.registry.views import VersionDetail
    from flyball.signing.keys import PrivateKey

_MAY_CARRY = frozenset({"signer", "publisher"})


def export(registry: Acting, ref: str, out: Path, key: PrivateKey) -> Transfer:
    """Write a file with a version, the versions it refers to, and all signatures, signed by `key`."""
    with tempfile.TemporaryDirectory(prefix="flyball-export-") as made:
        store = FolderStore(Path(made, "artifacts"))
        carried = {}
        for version in _with_references(registry, registry.show(ref)):
            whole = f"{version.name}@{version.number}"
            if whole not in carried:
                carried[whole] = _carried(registry, version, store, Path(made, whole))
        return transfer.export(
            store,
            out,
            list(carried.values()),
            created=now_text(),
            sign=lambda said: dsse.sign(transfer.PAYLOAD_TYPE, said, key).text(),
        )


def take(opened: RegistryHandle, file: Path, actor: Actor, reason: str) -> list[tuple[str, int]]:
    """Import the versions of a file; versions that exist already are skipped."""
    judge = _Judge(opened, file.name, actor, reason)
    with transfer.opened(file, verify=judge.check_file, scratch=opened.home.folder) as (carried, staging):
        judged = [(version, list(judge.drafts(version, staging))) for version in carried.versions]
        new = [(version, drafts) for version, drafts in judged if not _known(opened, version)]
        judge.check_packages([version for version, _ in new], staging)
        transfer.keep(carried, staging, opened.store)
        for version, _ in new:  # stored without approvals, so it is a new blob
            carried_release = dsse.read_envelope("release", staging.read(_needed(version.release, version)))
            opened.store.put_bytes(_unapproved(carried_release))
    for _, drafts in new:
        opened.log.append_all(drafts)
    return [(version.name, version.version) for version, _ in new]


def _with_references(registry: Acting, version: VersionDetail) -> Iterator[VersionDetail]:
    """Referenced versions come first."""
    for reference in version.meta.get("references") or ():
        yield registry.show(f"{reference['name']}@{reference['version']}")
    yield version


def _carried(registry: Acting, version: VersionDetail, store: FolderStore, folder: Path) -> CarriedVersion:
    ref = f"{version.name}@{version.number}"
    bundle, release = registry.bundle(ref), registry.release(ref)
    registry.fetch(ref, folder)
    package = put_package(store, folder, name=ref)
    if package.manifest != version.manifest:
        raise RegistryRefusedError(f"the files of {ref} do not give its manifest", next_step="flyball registry verify")
    return transfer.CarriedVersion(
        name=version.name,
        version=version.number,
        root=package.root,
        manifest=package.manifest,
        bundle=store.put_bytes(bundle).digest,
        release=store.put_bytes(release).digest,
        author=version.author,
        tier=version.tier,
    )


class _Judge:
    """Verifies imported versions against the importing site's trust policy."""

    def __init__(self, opened: RegistryHandle, source: str, actor: Actor, reason: str) -> None:
        self._opened, self._trust, self._now = opened, opened.trust(), int(time.time())
        self._environments = opened.home.settings.environments
        self._source, self._actor, self._reason = source, actor, reason

    def check_file(self, said: bytes, data: bytes) -> None:
        """Require that a signer or publisher signed the file."""
        if dsse.read_envelope("transfer", data).payload != said:
            raise refused(Reason.CHANGED_FILE, "the bundle file's listing was changed after it was signed")
        for key in self._trust.signers("transfer", data, self._now):
            if not _MAY_CARRY & set(key.roles):
                raise refused(Reason.WRONG_ROLE, f"{key.name} may not vouch for bundle files")

    def check_packages(self, versions: list[CarriedVersion], staging: FolderStore) -> None:
        """Scan and check every package as `register` and `sign` do, referenced versions first."""
        came: dict[str, PackageFolder] = {}
        with tempfile.TemporaryDirectory(prefix=".import-", dir=self._opened.home.folder) as unpacked:
            for place, version in enumerate(versions):
                made = Path(unpacked, str(place)).absolute()
                fetch_package(staging, version.manifest, made, root=version.root)
                package = PackageFolder(version.name, version.version, version.root, made)
                meta, served = check_package(package, lambda ref: came.get(ref) or self._here(ref))
                self._check_released(version, staging.read(_needed(version.release, version)), meta, served)
                came[package.ref] = package

    def _here(self, ref: str) -> PackageFolder:
        state, version = self._opened.find(ref)
        return self._opened.folder(state.name, version)

    def drafts(self, version: CarriedVersion, staging: FolderStore) -> Iterator[Draft]:
        """The events of an imported version, after its signatures and approvals are verified."""
        bundle, data = _needed(version.bundle, version), staging.read(_needed(version.release, version))
        self._check_files(version, staging.read(bundle))
        release = self._released(version, data)
        stated = release.statement.predicate
        package = read_package(staging, version.manifest)
        meta_digest = next(file.digest for file in package.files if file.name == META)
        meta = read_meta(staging.read(meta_digest))
        references = [reference.model_dump() for reference in meta.references]
        yield self._draft(
            version, "registered", root=version.root, manifest=version.manifest, meta=meta_digest, tier=stated.tier,
            author=version.author or meta.author, kind=meta.kind, references=references,
        )  # fmt: skip
        yield self._draft(version, "imported", **{"from": self._source})
        envelope = dsse.read_envelope("release", data)
        unapproved = digest_of(_unapproved(envelope))
        signer = {"key": stated.author, "name": release.author, "not_after": stated.not_after}
        yield self._by(release.author, self._draft(version, "signed", bundle=bundle, release=unapproved, **signer))
        made = {one.keyid: encode_base64(one.sig) for one in envelope.signatures[1:]}
        for name, key in zip(release.approvers, release.approver_keys, strict=True):  # other signatures do not count
            said = {"environments": stated.environments, "key": key, "approver": name, "signature": made[key]}
            yield self._by(name, self._draft(version, "approved", **said))

    def _check_files(self, version: CarriedVersion, bundle: bytes) -> None:
        root = self._trust.package(bundle, self._now)
        if root != version.root:
            words = f"the bundle is over {root}, and {version.name}@{version.version} is {version.root}"
            raise refused(Reason.ROOT_MISMATCH, words)

    def _released(self, version: CarriedVersion, data: bytes) -> Release:
        release = self._trust.release(data, self._now, self._here_of(version, data))
        ref = f"{version.name}@{version.version}"
        if next(iter(release.statement.subjects.items())) != (ref, version.root):
            raise refused(Reason.WRONG_SUBJECT, f"the release does not name {ref}")
        return release

    def _here_of(self, version: CarriedVersion, data: bytes) -> str:
        """The first environment of the release that this registry has."""
        places = read_release(data).predicate.environments
        here = next((place for place in places if place in self._environments), None)
        if here is None:
            ref = f"{version.name}@{version.version}"
            words = f"{ref} is released for {', '.join(places)}, and this registry has {', '.join(self._environments)}"
            raise refused(Reason.WRONG_ENVIRONMENT, words)
        return here

    def _check_released(self, version: CarriedVersion, data: bytes, meta: Meta, served: Served) -> None:
        """Require that the release matches the package, as `sign` does."""
        deployed = Deployed(version.name, self._here_of(version, data), served.models, **served.named)
        stated = self._trust.admit(deployed, data, [], self._now).statement
        ref = f"{version.name}@{version.version}"
        asked = {f"{one.name}@{one.version}": one.root for one in meta.references}
        if stated.subjects != {ref: version.root, **asked}:
            raise refused(Reason.WRONG_SUBJECT, f"the release does not name just the packages of {ref}")
        if stated.predicate.tier != meta.card.tier:
            words = f"the release says tier {stated.predicate.tier}, and {ref} has {meta.card.tier}"
            raise refused(Reason.WRONG_SUBJECT, words)

    def _draft(self, version: CarriedVersion, act: str, **body: object) -> Draft:
        said = {"version": version.version, **body}
        return Draft(version.name, act, said, self._actor.name, self._reason, authenticated=self._actor.authenticated)

    def _by(self, owner: str, draft: Draft) -> Draft:
        """Attribute a signature to its key's owner, not to the importer."""
        return replace(draft, actor=owner, authenticated="key", body={**draft.body, "submitted_by": draft.actor})


def _known(opened: RegistryHandle, version: CarriedVersion) -> bool:
    """Whether this version exists already; raises if its number is taken or a newer one exists."""
    state = opened.state(version.name)
    ref = f"{version.name}@{version.version}"
    found = state.versions.get(version.version)
    if found is not None and found.root == version.root:
        return True
    if found is not None:
        raise RegistryConflictError(
            f"{ref} is another package here: {found.root}", next_step="numbers are signed, so they cannot be changed"
        )
    if state.versions and version.version < max(state.versions):
        raise RegistryConflictError(
            f"{version.name} has a newer version here, {max(state.versions)}, and {ref} would come after it",
            next_step="import files in the order of their versions",
        )
    return False


def _needed(digest: str | None, version: CarriedVersion) -> str:
    if digest is None:
        raise refused(Reason.UNSIGNED, f"{version.name}@{version.version} has no signatures")
    return digest


def _unapproved(release: dsse.Envelope) -> bytes:
    """The release with its author's signature alone: approvals are separate events."""
    return replace(release, signatures=release.signatures[:1]).text()
