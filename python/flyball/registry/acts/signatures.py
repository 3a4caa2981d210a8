"""Signs and approves versions on the machine of the private key.

The registry is not trusted: the list of files must have the version's root, and the release must name the version.
Must not know where the registry is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flyball.errors import UsageError
from flyball.signing import keys, oms
from flyball.signing import release as releases
from flyball.signing.manifest import Manifest, manifest_of
from flyball.signing.reasons import Reason, refused
from flyball.signing.strict import encode_base64, written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from flyball.registry.views import StatementView, VersionDetail


@dataclass(frozen=True, slots=True)
class Approval:
    """An approver's signature in base64, and the hint of the key."""

    signature: str
    key: str


def signed(
    version: VersionDetail, statement: StatementView, key: keys.PrivateKey, *, environments: Sequence[str], not_after: int
) -> tuple[bytes, bytes]:
    """The bundle over a version's files, and its release for these environments, until `not_after` in Unix seconds."""
    ref = f"{version.name}@{version.number}"
    if statement.subjects.get(ref) != version.root:
        raise refused(Reason.WRONG_SUBJECT, f"the registry's statement is not about {ref} as it shows it")
    said = {
        **statement.model_dump(by_alias=True, exclude={"subjects"}),
        "environments": list(environments),
        "not_before": written(int(time.time())),
        "not_after": written(not_after),
    }
    bundle = oms.sign_manifest(version.name, _manifest(version), key)
    return bundle, releases.make_release(said, statement.subjects, key)


def approval(version: VersionDetail, release: bytes, key: keys.PrivateKey) -> Approval:
    """An approver's signature over a release; raises if the release is of another version."""
    stated = releases.read_release(release)
    ref = f"{version.name}@{version.number}"
    if next(iter(stated.subjects.items())) != (ref, version.root):
        raise refused(Reason.WRONG_SUBJECT, f"the registry's release is not of {ref} as it shows it")
    made = releases.approval(release, key)
    return Approval(encode_base64(made.sig), made.keyid)


def check_same(version: VersionDetail, folder: Path) -> None:
    """Raise if the version's files differ from the signer's own folder, except meta.json."""
    ours = {name: digest for name, digest in manifest_of(folder).files.items() if name != "meta.json"}
    theirs = {name: digest for name, digest in _manifest(version).files.items() if name != "meta.json"}
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            raise UsageError(
                f"{name} is not the same in {folder} and in {version.name}@{version.number}: nothing was signed",
                next_step=f"flyball registry show {version.name}@{version.number}",
            )


def _manifest(version: VersionDetail) -> Manifest:
    manifest = Manifest({file.name: file.digest.removeprefix("sha256:") for file in version.files})
    if manifest.root != version.root:
        raise refused(Reason.ROOT_MISMATCH, f"the files of {version.name}@{version.number} have another root than it says")
    return manifest
