"""Whether a version may be served: the one order in which Python at registration and Rust at load put the questions.

The release first, then each package: its bundle, whether the release names it, its folder; at last the models and the
decision's digests.
Must not know where any of these lie.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flyball.signing.oms import verify_bundle
from flyball.signing.release import Release, check_release

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from flyball.signing.manifest import Manifest
    from flyball.signing.trust import Trust


@dataclass(frozen=True)
class Package:
    """A version, its folder, and the bundle that is said to sign it."""

    ref: str
    folder: Path
    bundle: bytes | None


@dataclass(frozen=True)
class Deployed:
    """What is to be served under which name: its models by version, its decision, policy and schema, all by digests."""

    name: str
    environment: str
    models: Mapping[str, str]
    digests: dict[str, str | None] = field(default_factory=dict)


def admit(
    deployed: Deployed, release: bytes | None, packages: Sequence[Package], trust: Trust, now: int
) -> tuple[Release, list[Manifest]]:
    """The release and the packages' manifests, or the first reason against them."""
    held = check_release(release, trust, now, deployed.environment)
    held.check_name(deployed.name)
    manifests = []
    for package in packages:
        manifest = verify_bundle(package.bundle, trust, now)
        held.check_package(package.ref, manifest.root)
        manifest.check_folder(package.folder)
        manifests.append(manifest)
    held.check_models(deployed.models)
    held.check_digests(**deployed.digests)
    return held, manifests
