"""`LocalRegistry`: a registry on this machine, with file transfer, API keys and maintenance.

The admin API and the command line open it. Must not know HTTP.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from flyball.artifacts.gc import GRACE, collect, references_of
from flyball.artifacts.packages import fetch_package
from flyball.errors import ForbiddenError, NotFoundError, RegistryConflictError, RegistryRefusedError, UsageError
from flyball.registry.acts.interface import ROLES, ROLES_OF
from flyball.registry.acts.registry import Registry
from flyball.registry.events.event import KEYS_STREAM
from flyball.registry.reads import version_view
from flyball.registry.views import StatementView, VersionDetail, VersionView

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from flyball.artifacts.gc import References, Sweep
    from flyball.errors import FlyballError
    from flyball.registry.acts.api_keys import ApiKey
    from flyball.registry.acts.interface import Actor

_PLACES_MAX = 16
_KEY_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")


class LocalRegistry(Registry):
    """All questions and acts, and the owner's work that needs the registry's own machine."""

    def statement(self, ref: str) -> StatementView:
        """The content that a release of the version must have."""
        state, version = self.handle.find(ref)
        said, subjects = self.handle.statement(state.name, version)
        return StatementView.model_validate({**said, "subjects": subjects})

    def bundle(self, ref: str) -> bytes:
        """The OpenSSF Model Signing bundle over the version's files."""
        from flyball.signing.reasons import Reason, refused

        _, version = self.handle.find(ref)
        if version.bundle is None:
            raise refused(Reason.UNSIGNED, f"{ref} is not signed", f"flyball sign {ref} --key FILE")
        return self.handle.store.read(version.bundle)

    def fetch(self, ref: str, folder: Path) -> VersionDetail:
        """Write the verified files of a version to a new folder."""
        if folder.exists():
            raise UsageError(f"{folder} exists already", next_step="name a new folder")
        _, version = self.handle.find(ref)
        fetch_package(self.handle.store, version.manifest, folder, root=version.root)
        return self.show(ref)

    def import_file(self, file: Path, *, actor: Actor, reason: str = "") -> list[VersionView]:
        """Import the versions of a bundle file after verifying all of it; returns the new ones."""
        from flyball.registry import transfer

        with self._refusing("import", file.name, actor, reason):
            if not actor.roles & ROLES_OF["import"]:
                raise ForbiddenError(f"{actor.name} is not a deployer", next_step="ask a deployer")
            taken = transfer.take(self.handle, file, actor, reason)
        approval_rules = self.handle.approval_rules()
        states = [(self.handle.state(name), number) for name, number in taken]
        return [version_view(state, state.versions[number], approval_rules) for state, number in states]

    def keys(self) -> list[ApiKey]:
        """The valid API keys."""
        return self.handle.tables.api_keys()

    def add_key(self, name: str, roles: Sequence[str], *, actor: Actor, reason: str = "") -> str:
        """Create an API key and return it once; only its hash is stored."""
        from flyball.registry.acts.api_keys import KEYS_MAX, new_key

        if not _KEY_NAME.fullmatch(name):
            raise UsageError(f"{name!r} cannot be a key's name", next_step="1 to 64 of A-Z a-z 0-9 . _ -")
        wrong = [role for role in roles if role not in ROLES]
        if wrong or not roles:
            raise UsageError(f"{', '.join(wrong) or 'nothing'} is not a role", next_step=f"one of {', '.join(ROLES)}")
        revision = self.handle.log.revision(KEYS_STREAM)  # read before the keys, to detect a concurrent change
        known = self.keys()
        if any(key.name == name for key in known):
            raise RegistryConflictError(
                f"the key {name} exists already", next_step=f"remove it first:  flyball registry key remove {name}"
            )
        if len(known) >= KEYS_MAX:
            raise RegistryRefusedError(f"there are {KEYS_MAX:,} keys already, the maximum", next_step="remove one")
        key, kept = new_key()
        body = {"name": name, "roles": sorted(set(roles)), "sha256": kept}
        self.handle.log.append(KEYS_STREAM, revision, "key_added", body, **_told(actor, reason))
        return key

    def remove_key(self, name: str, *, actor: Actor, reason: str = "") -> None:
        """Remove a key; its next request is refused."""
        revision = self.handle.log.revision(KEYS_STREAM)
        if not any(key.name == name for key in self.keys()):
            raise NotFoundError(f"unknown key {name}", code="key_not_found", next_step="flyball registry key list")
        self.handle.log.append(KEYS_STREAM, revision, "key_removed", {"name": name}, **_told(actor, reason))

    def refused(self, act: str, name: str, error: FlyballError, actor: Actor) -> None:
        """Record a refusal that happened before the act reached the registry."""
        places = ", ".join(fault.path for fault in error.faults[:_PLACES_MAX])
        words = f"{error.message}: {places}" if places else error.message
        self._refusals.write(act, name, error, words=words, actor=actor)

    def rebuild(self) -> int:
        """Rebuild the tables from the events; returns their number."""
        return self.handle.log.rebuild()

    def sweep(self, *, grace: timedelta = GRACE, remove: bool = False) -> Sweep:
        """Find artifacts that no event references; with `remove`, delete them."""
        return collect(self.handle.store, self._references, grace=grace, remove=remove)

    def _references(self) -> References:
        return references_of(self._bodies())

    def _bodies(self) -> Iterator[dict[str, Any]]:
        last = 0
        while events := self.handle.log.since(last):
            yield from (event.body for event in events)
            last = events[-1].sequence


def _told(actor: Actor, reason: str) -> dict[str, Any]:
    """Actor and reason as arguments of `append`."""
    return {"actor": actor.name, "authenticated": actor.authenticated, "reason": reason}
