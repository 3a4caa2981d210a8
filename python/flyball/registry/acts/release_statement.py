"""What a release of a version must say, whoever signs it: the registry knows, and holds signers to it.

Must not know keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.registry.packages.deployment import served

if TYPE_CHECKING:
    from flyball.registry.events.state import Version
    from flyball.registry.handle import RegistryHandle


def statement(opened: RegistryHandle, name: str, version: Version) -> tuple[dict[str, Any], dict[str, str]]:
    """The predicate but for its author, environments and window; and its subjects: NAME@N to root, its own first."""
    package, references = opened.folder(name, version), opened.references(version)
    shown = served(package, references)
    digests = shown.digests
    predicate = {
        "name": name,
        "version": version.number,
        "tier": version.tier,
        "models": shown.models,
        "decision": digests.document if digests else None,
        "policy": digests.policy if digests else None,
        "schema": digests.schema_ if digests else None,
    }
    subjects = {package.ref: package.root, **{ref: other.root for ref, other in references.items()}}
    return predicate, subjects
